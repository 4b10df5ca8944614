// Resumable uploads with tus 1.0.0: POST creates an upload, PATCH appends at the offset, HEAD returns the offset,
// DELETE cancels it. Every request checks permission again.
import type { FastifyReply } from 'fastify';
import type { Caller } from '../../identity/caller.ts';
import { during, callerOwner } from '../http/caller.ts';
import { findBucket, requireBucket, uploadRules } from '../objects/bucket.ts';
import { checkDeclaredType } from '../objects/content-type.ts';
import { isObjectPath, parseObjectPath, type Address } from '../objects/object-path.ts';
import { dryRunUpload } from '../objects/permission.ts';
import { accessDenied } from '../problem.ts';
import type { Call } from '../storage-context.ts';
import { tusFields } from '../uploads/fields.ts';
import {
  createResumable,
  declareLength,
  findResumable,
  parseUploadId,
  toUploadId,
  type ResumableUpload,
} from '../uploads/resumable-upload.ts';
import {
  answerOptions,
  answerProgress,
  answerTus,
  checkProtocol,
  CHUNK_TYPE,
  expiredUpload,
  maximumExceeded,
  parseMetadata,
  readLength,
  readNumber,
  TUS_VERSION,
  TusProblem,
  unknownUpload,
  wrongOffset,
} from '../uploads/tus.ts';
import { identifyHolder, linkHolder } from '../uploads/upload-slots.ts';
import { abandonUpload, completeUpload, writePart, type Writer } from '../uploads/write-part.ts';
import { UPLOAD_LINK_OPERATION } from './sign.ts';

/**
 * Call of a tus action. Without a caller, the token of an upload link in `x-signature` authorizes the request.
 */
type TusCall = Call & { readonly caller?: Caller };
type TusAction = (call: TusCall) => Promise<FastifyReply>;

/** Adds the checks, headers and error format of the protocol. */
const tus =
  (action: TusAction): TusAction =>
  async (call) => {
    const { request, reply } = call;
    try {
      checkProtocol(request);
      reply.header('tus-resumable', TUS_VERSION).header('cache-control', 'no-store');
      return await action(call);
    } catch (error) {
      return answerTus(request, reply, error, call.context.log);
    }
  };

export function tusOptions({ context, reply }: Call): FastifyReply {
  return answerOptions(
    reply,
    Math.max(0, ...context.snapshot().config.storage.map((bucket) => bucket.maxSizeBytes)),
  );
}

export const tusCreate: TusAction = tus(async (call) => {
  const { context, request, reply } = call;
  const rawMetadata = request.headers['upload-metadata'];
  if (typeof rawMetadata !== 'string') throw new TusProblem(400, 'Invalid upload-metadata');
  const metadata = parseMetadata(rawMetadata);
  const target = { bucket: metadata.get('bucketName') ?? '', name: metadata.get('objectName') ?? '' };
  if (target.bucket === '' || target.name === '')
    throw new TusProblem(400, 'Upload-Metadata must name bucketName and objectName');
  const authority = await authorize(call, target);
  const bucket = requireBucket(context.snapshot().config, target.bucket);
  const { maxBytes, types } = uploadRules(bucket, target.name);
  const length = readLength(request);
  if (length !== null && length > maxBytes) throw maximumExceeded();
  const { contentType, cacheControl, userMetadata } = tusFields(metadata);
  checkDeclaredType(contentType, types);
  const { ownerId, upsert } = authority;
  const draft = {
    bucket: bucket.name,
    name: parseObjectPath(target.name),
    length,
    rawMetadata,
    fields: { contentType, cacheControl },
    userMetadata,
    ownerId,
    upsert,
  };
  await checkPermission(call, authority, draft);
  let upload = await createResumable(context.owner, draft);

  const origin = context.baseUrl() ?? `${request.client.proto}://${request.headers.host ?? 'localhost'}`;
  reply.header('location', `${origin}${request.routeOptions.url ?? ''}/${toUploadId(upload)}`);
  // The body may be the first part; an empty upload is complete at once.
  if (request.headers['content-type'] === CHUNK_TYPE || upload.length === 0) {
    upload = await context.leases.hold(upload.version, (lease) =>
      writePart(context, request, lease, authority),
    );
  }
  return answerProgress(reply.code(201), upload);
});

export const tusOffset: TusAction = tus(async (call) => {
  const { context, reply } = call;
  const { authority, ...found } = await findUpload(call);
  let { upload } = found;
  // All bytes are stored but not committed: the process that received the last part died.
  if (!upload.completed && upload.length === upload.offset) {
    upload = await context.leases.hold(upload.version, (lease) =>
      completeUpload(context, lease.upload, authority),
    );
  }
  reply.header('upload-metadata', upload.rawMetadata);
  if (upload.length === null) reply.header('upload-defer-length', '1');
  else reply.header('upload-length', upload.length);
  return answerProgress(reply.code(200), upload);
});

export const tusAppend: TusAction = tus(async (call) => {
  const { context, request, reply } = call;
  const offset = readNumber(request.headers['upload-offset']);
  if (offset === undefined) throw new TusProblem(403, 'Upload-Offset header required');
  if (request.headers['content-type'] !== CHUNK_TYPE) {
    throw new TusProblem(403, `Content-Type must be ${CHUNK_TYPE}`);
  }
  const { upload: found, authority } = await findUpload(call);
  if (found.offset !== offset) throw wrongOffset();
  if (found.completed) return answerProgress(reply.code(204).header('tus-complete', '1'), found);
  await checkPermission(call, authority, found);

  const declared = readNumber(request.headers['upload-length']);
  if (declared !== undefined) {
    const bucket = requireBucket(context.snapshot().config, found.bucket);
    if (declared > uploadRules(bucket, found.name).maxBytes) throw maximumExceeded();
    if ((found.length !== null && found.length !== declared) || declared < found.offset) {
      throw new TusProblem(400, 'Upload-Length does not fit the upload');
    }
    await declareLength(context.owner, found.version, declared);
  }
  const upload = await context.leases.hold(found.version, (lease) => {
    if (lease.upload.offset !== offset) throw wrongOffset();
    return writePart(context, request, lease, authority);
  });
  if (upload.completed) reply.header('tus-complete', '1');
  return answerProgress(reply.code(204), upload);
});

export const tusTerminate: TusAction = tus(async (call) => {
  const { context, reply } = call;
  const { upload } = await findUpload(call);
  if (upload.completed) throw new TusProblem(400, 'The upload is finished and can no longer be aborted');
  await context.leases.hold(upload.version, (lease) => abandonUpload(context, lease.upload));
  return reply.code(204).send();
});

type Authority = Writer & {
  readonly ownerId: string | null;
  readonly upsert: boolean;
  readonly isService: boolean;
};

/** Returns the identity that acts on the target: the caller, or the creator of the upload link. */
async function authorize({ context, request, caller }: TusCall, target: Address): Promise<Authority> {
  if (caller) {
    const operation = request.method === 'POST' ? 'storage.tus.upload.create' : 'storage.tus.upload.part';
    return {
      ownerId: callerOwner(caller),
      caller: during(caller, operation, request),
      holder: identifyHolder(caller, request),
      upsert: request.headers['x-upsert'] === 'true',
      mayReplace: true,
      isService: caller.role === 'service_role',
    };
  }
  const token = request.headers['x-signature'];
  if (typeof token !== 'string') throw accessDenied();
  const url = `${target.bucket}/${target.name}`;
  const { owner, maker, upsert } = await context.tokens.verifyUpload(token, url);
  return {
    ownerId: owner,
    caller: during(maker, UPLOAD_LINK_OPERATION, request),
    holder: linkHolder(request),
    upsert,
    mayReplace: upsert,
    isService: false,
  };
}

async function checkPermission(
  { context }: TusCall,
  authority: Authority,
  draft: Pick<
    ResumableUpload,
    'bucket' | 'name' | 'length' | 'fields' | 'userMetadata' | 'ownerId' | 'upsert'
  >,
): Promise<void> {
  const metadata = { mimetype: draft.fields.contentType, contentLength: draft.length ?? undefined };
  const upsert = draft.upsert && authority.mayReplace;
  await dryRunUpload(context.callers, authority.caller, { ...draft, metadata }, upsert);
}

/** Returns the upload of the URL to its creator only: knowing the URL is not enough. */
async function findUpload(call: TusCall): Promise<{ upload: ResumableUpload; authority: Authority }> {
  const { context, rest } = call;
  const id = parseUploadId(rest);
  if (!id || !isObjectPath(id.name) || !findBucket(context.snapshot().config, id.bucket)) {
    throw unknownUpload();
  }
  const authority = await authorize(call, id);
  const upload = await findResumable(context.owner, id.version);
  if (!upload || upload.bucket !== id.bucket || upload.name !== id.name) throw unknownUpload();
  if (!authority.isService && authority.ownerId !== upload.ownerId) throw unknownUpload();
  if (upload.expiresAt.getTime() <= context.now().getTime()) throw expiredUpload();
  return { upload, authority };
}
