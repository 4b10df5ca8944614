// POST /object/move and /object/copy. Bytes are named by version: a move changes only the row, and a copy is a new
// version, reserved and committed like an upload.
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import type { Bucket } from '../../config/config.ts';
import { sql } from '../../postgres/sql.ts';
import { BlobMissing, readAtMost } from '../backend/backend.ts';
import { during, callerOwner } from '../http/caller.ts';
import { readJson } from './json-body.ts';
import { requireBucket } from '../objects/bucket.ts';
import { checkDeclaredType, checkSniffedType, isHeaderValue, SNIFF_BYTES } from '../objects/content-type.ts';
import {
  fileMetadata,
  findObjectAs,
  objectFacts,
  type ObjectFacts,
  type StoredObject,
} from '../objects/object.ts';
import { isFolderPlaceholder, parseObjectPath } from '../objects/object-path.ts';
import { asUuid, dryRun, dryRunUpload, xminColumn } from '../objects/permission.ts';
import {
  alreadyExists,
  blobNotFound,
  invalidRequest,
  lockTimeout,
  objectNotFound,
  tooLarge,
} from '../problem.ts';
import type { CallerCall, StorageContext } from '../storage-context.ts';
import { readMetadataHeader } from '../uploads/fields.ts';
import { storeObject } from '../uploads/receive.ts';

const fromTo = {
  bucketId: z.string().min(1),
  sourceKey: z.string().min(1),
  destinationKey: z.string().min(1),
  destinationBucket: z.string().min(1).nullish(),
  sourceVersionId: z.string().nullish(),
};

export const moveBody = z.object(fromTo);
export const copyBody = z.object({
  ...fromTo,
  copyMetadata: z.boolean().default(true),
  metadata: z
    .object({
      cacheControl: z.string().optional(),
      mimetype: z.string().optional(),
      contentEncoding: z.string().optional(),
    })
    .nullish(),
});

/** Maximum number of attempts to move an object that concurrent requests change. */
const MAX_ATTEMPTS = 5;
const COPY_PENDING_MS = 60 * 60_000;

export async function move(call: CallerCall): Promise<FastifyReply> {
  const { context, request, reply, caller } = call;
  const { body, from, to, destination, isSamePlace } = await readRequest(call, moveBody);
  const as = during(caller, 'storage.object.move', request);
  const ownerId = callerOwner(caller);
  const set = sql`bucket_id = ${to.bucket}, name = ${to.name}, owner = ${asUuid(ownerId)}::uuid, owner_id = ${ownerId}`;
  const done = { message: 'Successfully moved' };
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const source = await findObjectAs(context.callers, as, from);
    if (!source || (body.sourceVersionId && body.sourceVersionId !== source.version)) throw objectNotFound();
    if (isSamePlace) return await reply.send(done);
    await checkFits(context, source, objectFacts(source), destination);
    const [state] = await dryRun(
      context.callers,
      as,
      sql`
        with seen as materialized (
          select o.id, ${xminColumn('o')} as state from storage.objects o
          where o.id = ${source.id} and o.version = ${source.version}
            and o.bucket_id = ${from.bucket} and o.name = ${from.name}
        ), moved as (
          update storage.objects o set ${set} from seen where o.id = seen.id returning o.id
        )
        select state from seen where exists (select from moved)`,
    );
    // Neither a row nor an error: a policy hides the row from the update.
    if (state === undefined) throw objectNotFound();
    const moved = await context.owner.query(
      sql`update storage.objects o set ${set} where o.id = ${source.id} and ${xminColumn('o')} = ${state}
        returning o.id`,
    );
    if (moved.length > 0) return await reply.send(done);
  }
  throw lockTimeout();
}

/**
 * Creates a second object with the same bytes. The caller must be able to read the source and write the destination.
 */
export async function copy(call: CallerCall): Promise<FastifyReply> {
  const { context, request, reply, caller } = call;
  const { body, from, to, destination, isSamePlace } = await readRequest(call, copyBody);
  const upsert = request.headers['x-upsert'] === 'true';
  const as = during(caller, 'storage.object.copy', request);

  const source = await findObjectAs(context.callers, as, from);
  if (!source || (body.sourceVersionId && body.sourceVersionId !== source.version)) throw objectNotFound();
  const facts = copiedFacts(source, body.copyMetadata ? {} : (body.metadata ?? {}));
  const header = request.headers['x-metadata'];
  const replacedMetadata = header === undefined ? null : readMetadataHeader(header);
  const userMetadata = body.copyMetadata ? source.user_metadata : replacedMetadata;
  await checkFits(context, source, facts, destination);
  if (!upsert && isSamePlace) throw alreadyExists();

  const ownerId = callerOwner(caller);
  const metadata = fileMetadata(facts, facts.size, facts.etag, context.now());
  const { mimetype, contentLength } = metadata;
  const draft = { ...to, ownerId, metadata: { mimetype, contentLength }, userMetadata };
  await dryRunUpload(context.callers, as, draft, upsert);
  const stored = await storeObject(context, as, to, upsert, COPY_PENDING_MS, async (version) => {
    await context.backend.copy(source.version, version, facts.size).catch(throwBlobNotFound);
    return { ownerId, metadata, userMetadata };
  });
  return await reply.send({ Id: stored.id, Key: `${stored.bucket_id}/${stored.name}`, ...stored });
}

async function readRequest<B extends z.infer<typeof moveBody>>(call: CallerCall, schema: z.ZodType<B>) {
  const { config } = call.context.snapshot();
  const body = await readJson(call, schema);
  const from = { bucket: requireBucket(config, body.bucketId).name, name: body.sourceKey };
  const destination = requireBucket(config, body.destinationBucket ?? body.bucketId);
  const to = { bucket: destination.name, name: parseObjectPath(body.destinationKey) };
  const isSamePlace = from.bucket === to.bucket && from.name === to.name;
  return { body, from, to, destination, isSamePlace };
}

/** The source's facts with those that the request replaces. */
function copiedFacts(
  source: StoredObject,
  replaced: NonNullable<z.infer<typeof copyBody>['metadata']>,
): ObjectFacts {
  const facts = objectFacts(source);
  const { mimetype, cacheControl, contentEncoding } = replaced;
  if (mimetype !== undefined) checkDeclaredType(mimetype, []);
  for (const value of [cacheControl, contentEncoding]) {
    if (value !== undefined && !isHeaderValue(value))
      throw invalidRequest('metadata cannot be sent as a header');
  }
  return {
    ...facts,
    contentType: mimetype ?? facts.contentType,
    cacheControl: cacheControl ?? facts.cacheControl,
    contentEncoding: contentEncoding ?? facts.contentEncoding,
  };
}

/**
 * The rules of the destination: otherwise a lax bucket would be a way around a strict one. Also looks at the
 * content, which was not checked if the first bucket has no list of types.
 */
async function checkFits(
  { backend }: StorageContext,
  { name, version }: StoredObject,
  { contentType, size }: ObjectFacts,
  { types, maxSizeBytes }: Bucket,
): Promise<void> {
  if (!isFolderPlaceholder(name) || size > 0) {
    checkDeclaredType(contentType, types);
    if (size > maxSizeBytes) throw tooLarge();
  }
  if (types.length === 0 || size === 0) return;
  const end = Math.min(size, SNIFF_BYTES) - 1;
  const body = await backend.read(version, size, { start: 0, end }).catch(throwBlobNotFound);
  checkSniffedType(await readAtMost(body), contentType, types);
}

function throwBlobNotFound(error: unknown): never {
  throw error instanceof BlobMissing ? blobNotFound() : error;
}
