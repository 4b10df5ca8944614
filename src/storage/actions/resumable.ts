// Resumable uploads, protocol tus 1.0.0, at /upload/resumable. Every request asks the policies again, one request
// at a time writes, and what was acknowledged is durable: a client that lost its connection, or we our process,
// goes on at the offset that HEAD tells.
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { CallerSettings } from '../../postgres/pool/caller-pool.ts';
import { sql } from '../../postgres/sql.ts';
import { Abort } from '../../problem/problem.ts';
import { BlobMissing } from '../backend/backend.ts';
import { findBucket, requireBucket, type Bucket } from '../objects/bucket.ts';
import { closedCaller, during, ownerOf } from '../http/caller.ts';
import { checkDeclaredType, checkSniffedType, SNIFF_BYTES } from '../objects/content-type.ts';
import { Meter, readMetadata } from '../uploads/incoming.ts';
import { abandonVersion, commitAs, rehearseUpload } from '../objects/object.ts';
import { isFolderPlaceholder, isObjectPath, parseObjectPath } from '../objects/object-path.ts';
import { accessDenied, isStorageFull, StorageProblem } from '../problem.ts';
import { fileMetadata, probedMetadata } from '../uploads/receive.ts';
import {
  createResumable,
  declareLength,
  deleteResumable,
  entityTag,
  findResumable,
  markCompleted,
  parseUploadId,
  recordPart,
  toUploadId,
  type ResumableUpload,
} from '../uploads/resumable-upload.ts';
import { rawRest, type StorageContext } from '../storage-context.ts';
import {
  answerOptions,
  answerProgress,
  answerTus,
  checkProtocol,
  CHUNK_TYPE,
  expiredUpload,
  lockedUpload,
  maximumExceeded,
  parseMetadata,
  readLength,
  readNumber,
  TUS_VERSION,
  TusProblem,
  unknownUpload,
  wrongOffset,
} from '../uploads/tus.ts';
import { underLease, type Held, type Leases } from '../uploads/upload-lease.ts';
import { holderOf, linkHolder, type SlotHolder } from '../uploads/upload-slots.ts';
import { UPLOAD_LINK_OPERATION } from './sign.ts';

type Draft = Pick<
  ResumableUpload,
  'bucket' | 'name' | 'length' | 'fields' | 'userMetadata' | 'ownerId' | 'upsert'
>;

type Grant = {
  readonly ownerId: string | null;
  /** Whom the policies are asked for at each request: the caller, or whoever made the link. */
  readonly caller: CallerSettings;
  readonly holder: SlotHolder;
  readonly upsert: boolean;
  /** A link that does not replace cannot finish an upload that would. */
  readonly mayReplace: boolean;
  readonly isService: boolean;
};

export function addResumableRoutes(app: FastifyInstance, context: StorageContext): void {
  const leases: Leases = { owner: context.owner, writers: new Map() };
  const writing = { config: { deadline: 'upload' as const } };
  for (const signed of [false, true]) {
    const base = signed ? '/upload/resumable/sign' : '/upload/resumable';
    const handle =
      (work: (request: FastifyRequest, reply: FastifyReply, grant: GrantReader) => Promise<FastifyReply>) =>
      async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
        const grant: GrantReader = signed
          ? (target) => signedGrant(context, request, target)
          : await callerGrant(context, request);
        try {
          checkProtocol(request);
          reply.header('tus-resumable', TUS_VERSION).header('cache-control', 'no-store');
          return await work(request, reply, grant);
        } catch (error) {
          return answerTus(request, reply, error, context.log);
        }
      };
    const location = (upload: ResumableUpload, request: FastifyRequest): string => {
      const origin = context.baseUrl() ?? `${request.protocol}://${request.headers.host ?? 'localhost'}`;
      return `${origin}${app.prefix}${base}/${toUploadId(upload)}`;
    };
    const idOf = (request: FastifyRequest): string => rawRest(request, app.prefix, signed ? 3 : 2);

    const options = (_request: FastifyRequest, reply: FastifyReply): FastifyReply =>
      answerOptions(reply, largestSize(context));
    app.options(base, options);
    app.options(`${base}/*`, options);
    app.post(
      base,
      writing,
      handle(async (request, reply, grant) => {
        const upload = await create(context, request, grant);
        reply.header('location', location(upload, request));
        return await answerProgress(reply.code(201), await begin(context, request, leases, upload, grant));
      }),
    );
    app.head(
      `${base}/*`,
      handle((request, reply, grant) => tell(context, leases, reply, idOf(request), grant)),
    );
    app.patch(
      `${base}/*`,
      writing,
      handle((request, reply, grant) => append(context, request, reply, leases, idOf(request), grant)),
    );
    app.delete(
      `${base}/*`,
      handle((request, reply, grant) => terminate(context, reply, leases, idOf(request), grant)),
    );
  }
}

type GrantReader = (target: { readonly bucket: string; readonly name: string }) => Promise<Grant>;

async function callerGrant(context: StorageContext, request: FastifyRequest): Promise<GrantReader> {
  const caller = await closedCaller(context.credentials, request);
  const operation = request.method === 'POST' ? 'storage.tus.upload.create' : 'storage.tus.upload.part';
  return () =>
    Promise.resolve({
      ownerId: ownerOf(caller),
      caller: during(caller, operation, request),
      holder: holderOf(caller, request),
      upsert: request.headers['x-upsert'] === 'true',
      mayReplace: true,
      isService: caller.role === 'service_role',
    });
}

async function ask(context: StorageContext, grant: Grant, draft: Draft): Promise<void> {
  await rehearseUpload(
    context.callers,
    grant.caller,
    {
      bucket: draft.bucket,
      name: draft.name,
      ownerId: draft.ownerId,
      metadata: probedMetadata(draft.fields, draft.length ?? undefined),
      userMetadata: draft.userMetadata,
    },
    draft.upsert && grant.mayReplace,
  );
}

async function signedGrant(
  context: StorageContext,
  request: FastifyRequest,
  target: { readonly bucket: string; readonly name: string },
): Promise<Grant> {
  const token = request.headers['x-signature'];
  if (typeof token !== 'string') throw accessDenied();
  const granted = await context.tokens.verifyUpload(token, `${target.bucket}/${target.name}`);
  return {
    ownerId: granted.owner,
    caller: during(granted.maker, UPLOAD_LINK_OPERATION, request),
    holder: linkHolder(request),
    upsert: granted.upsert,
    mayReplace: granted.upsert,
    isService: false,
  };
}

async function create(
  context: StorageContext,
  request: FastifyRequest,
  readGrant: GrantReader,
): Promise<ResumableUpload> {
  const rawMetadata = request.headers['upload-metadata'];
  if (typeof rawMetadata !== 'string') throw new TusProblem(400, 'Invalid upload-metadata');
  const metadata = parseMetadata(rawMetadata);
  const bucketId = metadata.get('bucketName') ?? '';
  const name = metadata.get('objectName') ?? '';
  if (bucketId === '' || name === '')
    throw new TusProblem(400, 'Upload-Metadata must name bucketName and objectName');
  const grant = await readGrant({ bucket: bucketId, name });
  const bucket = requireBucket(context.snapshot().config, bucketId);
  const { maxBytes, types } = rulesFor(bucket, name);
  const length = readLength(request);
  if (length !== null && length > maxBytes) throw maximumExceeded();
  const contentType = metadata.get('contentType') ?? 'application/octet-stream';
  checkDeclaredType(contentType, types);
  const userMetadata = readMetadata(metadata.get('metadata')) ?? null;
  const seconds = metadata.get('cacheControl') ?? '';
  const draft = {
    bucket: bucket.id,
    name: parseObjectPath(name),
    length,
    rawMetadata,
    fields: { contentType, cacheControl: /^\d+$/.test(seconds) ? `max-age=${seconds}` : 'no-cache' },
    userMetadata,
    ownerId: grant.ownerId,
    upsert: grant.upsert,
  };
  await ask(context, grant, draft);
  return await createResumable(context.owner, draft);
}

/** Bytes that came with the creation, and uploads that are complete from the start. */
async function begin(
  context: StorageContext,
  request: FastifyRequest,
  leases: Leases,
  upload: ResumableUpload,
  readGrant: GrantReader,
): Promise<ResumableUpload> {
  if (request.headers['content-type'] === CHUNK_TYPE || upload.length === 0) {
    const grant = await readGrant(upload);
    return await underLease(leases, upload.version, (held) => write(context, request, held, grant));
  }
  return upload;
}

async function tell(
  context: StorageContext,
  leases: Leases,
  reply: FastifyReply,
  id: string,
  readGrant: GrantReader,
): Promise<FastifyReply> {
  let upload = await open(context, id, readGrant);
  if (!upload.completed && upload.length === upload.received) {
    // All bytes are there and the row is not: the process that took the last ones died before it could commit.
    const grant = await readGrant(upload);
    upload = await underLease(leases, upload.version, (held) => complete(context, held.upload, grant));
  }
  reply.header('upload-metadata', upload.rawMetadata);
  if (upload.length === null) reply.header('upload-defer-length', '1');
  else reply.header('upload-length', upload.length);
  return await answerProgress(reply.code(200), upload);
}

async function append(
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
  leases: Leases,
  id: string,
  readGrant: GrantReader,
): Promise<FastifyReply> {
  const offset = readNumber(request.headers['upload-offset']);
  if (offset === undefined) throw new TusProblem(403, 'Upload-Offset header required');
  if (request.headers['content-type'] !== CHUNK_TYPE) {
    throw new TusProblem(403, `Content-Type must be ${CHUNK_TYPE}`);
  }
  const found = await open(context, id, readGrant);
  const grant = await readGrant(found);
  if (found.received !== offset) throw wrongOffset();
  if (found.completed) return await answerProgress(reply.code(204).header('tus-complete', '1'), found);
  await ask(context, grant, found);

  const declared = readNumber(request.headers['upload-length']);
  if (declared !== undefined) {
    const { maxBytes } = rulesFor(requireBucket(context.snapshot().config, found.bucket), found.name);
    if (declared > maxBytes) throw maximumExceeded();
    if ((found.length !== null && found.length !== declared) || declared < found.received) {
      throw new TusProblem(400, 'Upload-Length does not fit the upload');
    }
    await declareLength(context.owner, found.version, declared);
  }
  const upload = await underLease(leases, found.version, (held) => {
    if (held.upload.received !== offset) throw wrongOffset();
    return write(context, request, held, grant);
  });
  if (upload.completed) reply.header('tus-complete', '1');
  return await answerProgress(reply.code(204), upload);
}

async function terminate(
  context: StorageContext,
  reply: FastifyReply,
  leases: Leases,
  id: string,
  grant: GrantReader,
): Promise<FastifyReply> {
  const upload = await open(context, id, grant);
  if (upload.completed) throw new TusProblem(400, 'The upload is finished and can no longer be aborted');
  await underLease(leases, upload.version, async (held) => {
    await abandon(context, held.upload);
    return held.upload;
  });
  return await reply.code(204).send();
}

async function write(
  context: StorageContext,
  request: FastifyRequest,
  held: Held,
  grant: Grant,
): Promise<ResumableUpload> {
  const { upload, writer } = held;
  const { maxBytes, types } = rulesFor(requireBucket(context.snapshot().config, upload.bucket), upload.name);
  const room = (upload.length ?? maxBytes) - upload.received;
  const announced = Number(request.headers['content-length'] ?? 0);
  if (announced > room) throw maximumExceeded();

  const meter = new Meter({
    maxBytes: room,
    contentType: upload.fields.contentType,
    // Only the beginning of the whole tells its type.
    allowedTypes: upload.received === 0 ? types : [],
    stallMs: context.limits.stallMs,
    signal: AbortSignal.any([request.scope.signal, held.signal]),
  });
  const source = request.body instanceof Readable ? request.body : Readable.from([]);
  let gone: unknown;
  const leave = context.slots.enter(grant.holder);
  try {
    const part = await context.backend.append(
      upload.version,
      upload.parts,
      untilGone(meter.watch(source), held.mayWrite, (error) => (gone = error)),
      room,
    );
    const current =
      part.bytes === 0
        ? upload
        : await recordPart(context.owner, upload, writer, { ...part, md5: meter.digest() });
    if (!current) throw lockedUpload();
    if (gone !== undefined) throw gone;
    return current.received === current.length ? await complete(context, current, grant) : current;
  } catch (error) {
    if (error instanceof BlobMissing) throw expiredUpload();
    if (isStorageFull(error)) context.cleanup.hurry();
    if (error instanceof StorageProblem && error.code === 'InvalidMimeType') await abandon(context, upload);
    throw error;
  } finally {
    leave();
  }
}

/** What arrived before a client went away counts: that is what resuming is for. */
async function* untilGone(
  source: AsyncIterable<Buffer>,
  mayWrite: () => boolean,
  onGone: (error: unknown) => void,
): AsyncIterable<Buffer> {
  try {
    for await (const chunk of source) {
      if (!mayWrite()) {
        onGone(lockedUpload());
        return;
      }
      yield chunk;
    }
  } catch (error) {
    if (!(error instanceof Abort)) throw error;
    onGone(error);
  }
}

async function complete(
  context: StorageContext,
  upload: ResumableUpload,
  grant: Grant,
): Promise<ResumableUpload> {
  if (upload.completed) return upload;
  const bucket = requireBucket(context.snapshot().config, upload.bucket);
  const { types } = rulesFor(bucket, upload.name);
  try {
    checkSniffedType(await headOf(context, upload), upload.fields.contentType, types);
    await context.backend.assemble(upload.version, upload.parts);
    const stored = await commitAs(
      context,
      grant.caller,
      {
        bucket: upload.bucket,
        name: upload.name,
        version: upload.version,
        ownerId: upload.ownerId,
        metadata: fileMetadata(
          { ...upload.fields, contentEncoding: undefined, robots: undefined },
          upload.received,
          entityTag(upload.parts),
          context.now(),
        ),
        userMetadata: upload.userMetadata,
      },
      upload.upsert && grant.mayReplace,
    );
    // Without a pending row it was committed by a request that died before it could say so, or it expired.
    if (!stored && !(await isCommitted(context, upload))) throw expiredUpload();
  } catch (error) {
    // A name that was taken meanwhile, or content that is not what was declared, will not get better by resuming.
    if (error instanceof StorageProblem && error.status < 500) await abandon(context, upload);
    throw error instanceof BlobMissing ? expiredUpload() : error;
  }
  await markCompleted(context.owner, upload.version);
  context.cleanup.nudge();
  return { ...upload, completed: true };
}

async function isCommitted(context: StorageContext, { version }: ResumableUpload): Promise<boolean> {
  return (await context.owner.query(sql`select from storage.objects where version = ${version}`)).length > 0;
}

async function headOf(context: StorageContext, upload: ResumableUpload): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of context.backend.readStaged(upload.version, upload.parts)) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes >= SNIFF_BYTES) break;
    }
  } catch (error) {
    // Assembled by a request that died before its commit: what was staged is gone, and was looked at then.
    if (!(error instanceof BlobMissing)) throw error;
  }
  return Buffer.concat(chunks).subarray(0, SNIFF_BYTES);
}

async function abandon(context: StorageContext, upload: ResumableUpload): Promise<void> {
  await context.owner.transaction(async (transaction) => {
    await deleteResumable(transaction, upload.version);
    await abandonVersion(transaction, upload.version);
  });
  context.cleanup.nudge();
}

/** The upload of a URL, for whoever began it: the URL names it, but it is no key to it. */
async function open(context: StorageContext, id: string, readGrant: GrantReader): Promise<ResumableUpload> {
  const named = parseUploadId(id);
  if (!named || !isObjectPath(named.name) || !findBucket(context.snapshot().config, named.bucket)) {
    throw unknownUpload();
  }
  const grant = await readGrant(named);
  const upload = await findResumable(context.owner, named.version);
  if (!upload || upload.bucket !== named.bucket || upload.name !== named.name) throw unknownUpload();
  if (!grant.isService && grant.ownerId !== upload.ownerId) throw unknownUpload();
  if (upload.expiresAt.getTime() <= context.now().getTime()) throw expiredUpload();
  return upload;
}

function rulesFor(bucket: Bucket, name: string): { maxBytes: number; types: readonly string[] } {
  return isFolderPlaceholder(name)
    ? { maxBytes: 0, types: [] }
    : { maxBytes: bucket.maxBytes, types: bucket.types };
}

function largestSize(context: StorageContext): number {
  return Math.max(0, ...context.snapshot().config.storage.map((bucket) => bucket.maxSizeBytes));
}
