// POST /object/move and /object/copy. Bytes are named by version and not by path: a move touches none, and a
// copy is a new version that is reserved and committed like an upload.
import { randomUUID } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Caller } from '../../identity/caller.ts';
import type { CallerSettings } from '../../postgres/pool/caller-pool.ts';
import { sql } from '../../postgres/sql.ts';
import { BlobMissing } from '../backend/backend.ts';
import { requireBucket, type Bucket } from '../objects/bucket.ts';
import { closedCaller, during, ownerOf } from '../http/caller.ts';
import { checkDeclaredType, checkSniffedType, isHeaderValue, SNIFF_BYTES } from '../objects/content-type.ts';
import { readMetadataHeader } from '../uploads/incoming.ts';
import { isFolderPlaceholder, parseObjectPath, type Address } from '../objects/object-path.ts';
import {
  abandonVersion,
  asUuid,
  commitAs,
  fileFacts,
  findObjectAs,
  markOf,
  rehearse,
  rehearseUpload,
  reserveVersion,
  type FileMetadata,
  type StoredObject,
} from '../objects/object.ts';
import {
  alreadyExists,
  blobNotFound,
  invalidRequest,
  isStorageFull,
  lockTimeout,
  objectNotFound,
  tooLarge,
} from '../problem.ts';
import { readJson } from '../http/request-body.ts';
import type { StorageContext } from '../storage-context.ts';

const places = {
  bucketId: z.string().min(1),
  sourceKey: z.string().min(1),
  destinationKey: z.string().min(1),
  destinationBucket: z.string().min(1).nullish(),
  sourceVersionId: z.string().nullish(),
};

const moveBody = z.object(places);
const copyBody = z.object({
  ...places,
  copyMetadata: z.boolean().default(true),
  metadata: z
    .object({
      cacheControl: z.string().optional(),
      mimetype: z.string().optional(),
      contentEncoding: z.string().optional(),
    })
    .nullish(),
});

/** How often a move that others come in between is tried. */
const MOVE_TURNS = 5;
const COPY_PENDING_MS = 60 * 60_000;

export async function move(
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const caller = await closedCaller(context.credentials, request);
  const { config } = context.snapshot();
  const body = await readJson(request, moveBody, config.server.maxBodyBytes);
  const from = { bucket: requireBucket(config, body.bucketId).id, name: body.sourceKey };
  const destination = requireBucket(config, body.destinationBucket ?? body.bucketId);
  const to = { bucket: destination.id, name: parseObjectPath(body.destinationKey) };
  const as = during(caller, 'storage.object.move', request);

  const ownerId = ownerOf(caller);
  const done = { message: 'Successfully moved' };
  for (let turn = 0; turn < MOVE_TURNS; turn++) {
    const source = await findObjectAs(context.callers, as, from);
    if (!source || (body.sourceVersionId && body.sourceVersionId !== source.version)) throw objectNotFound();
    if (from.bucket === to.bucket && from.name === to.name) return await reply.send(done);
    checkFits(source, destination);
    await checkContent(context, source, destination);
    const set = sql`bucket_id = ${to.bucket}, name = ${to.name}, owner = ${asUuid(ownerId)}::uuid, owner_id = ${ownerId}`;
    const [mark] = await rehearse(
      context.callers,
      as,
      sql`
        with seen as materialized (
          select o.id, ${markOf('o')} as mark from storage.objects o
          where o.id = ${source.id} and o.version = ${source.version}
            and o.bucket_id = ${from.bucket} and o.name = ${from.name}
        ), moved as (
          update storage.objects o set ${set} from seen where o.id = seen.id returning o.id
        )
        select mark from seen where exists (select from moved)`,
    );
    // No row without an error: a policy hides it from the update.
    if (mark === undefined) throw objectNotFound();
    const moved = await context.owner.query(
      sql`update storage.objects o set ${set} where o.id = ${source.id} and ${markOf('o')} = ${mark} returning o.id`,
    );
    if (moved.length > 0) return await reply.send(done);
    // Somebody else changed it in between: what they left is asked about anew.
  }
  throw lockTimeout();
}

export async function copy(
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const caller = await closedCaller(context.credentials, request);
  const { config } = context.snapshot();
  const body = await readJson(request, copyBody, config.server.maxBodyBytes);
  const stored = await copyAs(context, request, caller, {
    from: { bucket: body.bucketId, name: body.sourceKey },
    to: { bucket: body.destinationBucket ?? body.bucketId, name: body.destinationKey },
    upsert: request.headers['x-upsert'] === 'true',
    accept: (source) => !body.sourceVersionId || body.sourceVersionId === source.version,
    replaced: body.copyMetadata
      ? undefined
      : {
          ...body.metadata,
          userMetadata:
            request.headers['x-metadata'] === undefined
              ? null
              : readMetadataHeader(request.headers['x-metadata']),
        },
  });
  return await reply.send({ Id: stored.id, Key: `${stored.bucket_id}/${stored.name}`, ...stored });
}

export type CopyOrder = {
  readonly from: Address;
  readonly to: Address;
  readonly upsert: boolean;
  /** Whether the source is the one that was meant; otherwise it counts as missing. */
  readonly accept: (source: StoredObject) => boolean;
  /** Undefined keeps what the source says of itself. */
  readonly replaced: Replacement | undefined;
};

type Replacement = {
  readonly cacheControl?: string | undefined;
  readonly mimetype?: string | undefined;
  readonly contentEncoding?: string | undefined;
  readonly userMetadata: Readonly<Record<string, unknown>> | null;
};

/** A second object with the bytes of the first, if the caller may read the one and write the other. */
async function copyAs(
  context: StorageContext,
  request: FastifyRequest,
  caller: Caller,
  order: CopyOrder,
): Promise<StoredObject> {
  const { config } = context.snapshot();
  const { upsert, replaced } = order;
  const from = { bucket: requireBucket(config, order.from.bucket).id, name: order.from.name };
  const destination = requireBucket(config, order.to.bucket);
  const to = { bucket: destination.id, name: parseObjectPath(order.to.name) };
  const as = during(caller, 'storage.object.copy', request);

  const source = await findObjectAs(context.callers, as, from);
  if (!source || !order.accept(source)) throw objectNotFound();
  const metadata = copiedMetadata(source, replaced, context.now());
  const userMetadata = replaced ? replaced.userMetadata : source.user_metadata;
  checkFits({ ...source, metadata }, destination);
  await checkContent(context, { ...source, metadata }, destination);
  if (!upsert && from.bucket === to.bucket && from.name === to.name) throw alreadyExists();

  const ownerId = ownerOf(caller);
  await rehearseUpload(
    context.callers,
    as,
    {
      ...to,
      ownerId,
      metadata: { mimetype: metadata.mimetype, contentLength: metadata.contentLength },
      userMetadata,
    },
    upsert,
  );
  return await copyBytes(context, as, source, { ...to, ownerId, metadata, userMetadata }, upsert);
}

async function copyBytes(
  context: StorageContext,
  caller: CallerSettings,
  source: StoredObject,
  target: {
    readonly bucket: string;
    readonly name: string;
    readonly ownerId: string | null;
    readonly metadata: FileMetadata;
    readonly userMetadata: Readonly<Record<string, unknown>> | null;
  },
  upsert: boolean,
): Promise<StoredObject> {
  const version = randomUUID();
  await reserveVersion(context.owner, version, target, new Date(Date.now() + COPY_PENDING_MS));
  try {
    await context.backend.copy(source.version, version, target.metadata.size);
    const stored = await commitAs(context, caller, { ...target, version }, upsert);
    if (!stored) throw lockTimeout();
    return stored;
  } catch (error) {
    await abandonVersion(context.owner, version).catch((cause: unknown) => {
      context.log.warn({ err: cause, version }, 'could not give up a copy; the sweeper will');
    });
    if (isStorageFull(error)) context.cleanup.hurry();
    else context.cleanup.nudge();
    throw error instanceof BlobMissing ? blobNotFound() : error;
  }
}

/** The destination's own rules: without them a detour through a lax bucket would defeat a strict one. */
function checkFits(source: StoredObject, destination: Bucket): void {
  const { contentType, size } = fileFacts(source);
  if (isFolderPlaceholder(source.name) && size === 0) return;
  checkDeclaredType(contentType, destination.types);
  if (size > destination.maxBytes) throw tooLarge();
}

/** What was uploaded where nobody looked at it is looked at now. */
async function checkContent(
  context: StorageContext,
  source: StoredObject,
  destination: Bucket,
): Promise<void> {
  const { contentType, size } = fileFacts(source);
  if (destination.types.length === 0 || size === 0) return;
  const end = Math.min(size, SNIFF_BYTES) - 1;
  const body = await context.backend.read(source.version, size, { start: 0, end }).catch((error: unknown) => {
    throw error instanceof BlobMissing ? blobNotFound() : error;
  });
  const chunks: Buffer[] = [];
  if (Buffer.isBuffer(body)) chunks.push(body);
  else for await (const chunk of body) if (Buffer.isBuffer(chunk)) chunks.push(chunk);
  checkSniffedType(Buffer.concat(chunks), contentType, destination.types);
}

function copiedMetadata(source: StoredObject, replaced: Replacement | undefined, now: Date): FileMetadata {
  const facts = fileFacts(source);
  if (replaced?.mimetype !== undefined) checkDeclaredType(replaced.mimetype, []);
  for (const value of [replaced?.cacheControl, replaced?.contentEncoding]) {
    if (value !== undefined && !isHeaderValue(value))
      throw invalidRequest('metadata cannot be sent as a header');
  }
  const contentEncoding = replaced?.contentEncoding ?? facts.contentEncoding;
  return {
    eTag: facts.etag,
    size: facts.size,
    mimetype: replaced?.mimetype ?? facts.contentType,
    cacheControl: replaced?.cacheControl ?? facts.cacheControl,
    lastModified: now.toISOString(),
    contentLength: facts.size,
    httpStatusCode: 200,
    ...(contentEncoding === undefined ? {} : { contentEncoding }),
    ...(facts.robots === undefined ? {} : { xRobotsTag: facts.robots }),
  };
}
