// How bytes become an object: reserve a version, store the bytes, commit the row. The database accounts for every
// state in between, so that cleanup can finish what a crash interrupted.
import { randomUUID } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { Bucket } from '../../config/config.ts';
import type { CallerSettings } from '../../postgres/pool/caller-pool.ts';
import { uploadRules } from '../objects/bucket.ts';
import { abandonVersion, commitAs, reserveVersion, type Commit } from '../objects/commit.ts';
import { checkDeclaredType } from '../objects/content-type.ts';
import { fileMetadata, type StoredObject } from '../objects/object.ts';
import { parseObjectPath, type Address } from '../objects/object-path.ts';
import { dryRunUpload } from '../objects/permission.ts';
import { isStorageFull, lockTimeout } from '../problem.ts';
import { BodyMeter } from './body-meter.ts';
import { checkDeclaration, openUpload, type IncomingUpload } from './incoming.ts';
import type { UploadContext } from './upload-context.ts';
import type { SlotHolder } from './upload-slots.ts';

export type Reception = {
  readonly bucket: Bucket;
  readonly name: string;
  readonly upsert: boolean;
  readonly ownerId: string | null;
  /** Caller whose permission is checked before the first byte and again before the commit. */
  readonly caller: CallerSettings;
  readonly holder: SlotHolder;
};

/** Time for the commit after the deadline of an upload. */
const COMMIT_MS = 5 * 60_000;

export async function receive(
  context: UploadContext,
  request: FastifyRequest,
  reception: Reception,
): Promise<StoredObject> {
  const upload = await openUpload(context, request);
  try {
    return await receiveOpened(context, request, upload, reception);
  } catch (error) {
    upload.abandon();
    throw error;
  }
}

async function receiveOpened(
  context: UploadContext,
  request: FastifyRequest,
  upload: IncomingUpload,
  { bucket, name, upsert, ownerId, caller, holder }: Reception,
): Promise<StoredObject> {
  const rules = uploadRules(bucket, name);
  checkDeclaration(upload, rules);
  const address = { bucket: bucket.name, name: parseObjectPath(name) };
  const { contentType, userMetadata } = upload.fields;
  const metadata = { mimetype: contentType, contentLength: upload.declaredBytes };
  await dryRunUpload(context.callers, caller, { ...address, ownerId, metadata, userMetadata }, upsert);

  // After the permission check: who may not upload must not take a slot.
  const leave = context.slots.enter(holder);
  try {
    const { uploadMs } = context.snapshot().config.server.timeouts;
    return await storeObject(context, caller, address, upsert, uploadMs + COMMIT_MS, async (version) => {
      const meter = new BodyMeter({
        maxBytes: rules.maxBytes,
        contentType,
        allowedTypes: rules.types,
        signal: request.scope.signal,
      });
      const atMostBytes = upload.exact ? (upload.declaredBytes ?? rules.maxBytes) : rules.maxBytes;
      await context.backend.write(version, meter.watch(upload.source), atMostBytes);
      request.scope.bucket = bucket.name;
      request.scope.received = meter.bytes;
      const fields = await upload.finish();
      checkDeclaredType(fields.contentType, rules.types);
      // From here on a client that leaves changes nothing.
      return {
        ownerId,
        metadata: fileMetadata(fields, meter.bytes, `"${meter.digest()}"`, context.now()),
        userMetadata: fields.userMetadata,
      };
    });
  } finally {
    leave();
  }
}

/**
 * Stores a new version with `store` and commits the object that it describes. The reservation lasts `pendingMs`;
 * after a failure the version is abandoned.
 */
export async function storeObject(
  context: Pick<UploadContext, 'callers' | 'owner' | 'cleanup' | 'log'>,
  caller: CallerSettings,
  address: Address,
  upsert: boolean,
  pendingMs: number,
  store: (version: string) => Promise<Pick<Commit, 'ownerId' | 'metadata' | 'userMetadata'>>,
): Promise<StoredObject> {
  const version = randomUUID();
  await reserveVersion(context.owner, version, address, new Date(Date.now() + pendingMs));
  try {
    const commit = { ...address, version, ...(await store(version)) };
    const stored = await commitAs(context, caller, commit, upsert);
    if (!stored) throw lockTimeout();
    return stored;
  } catch (error) {
    // Also when the outcome of the commit is unknown: nothing happens to a version that was committed.
    await abandonVersion(context.owner, version).catch((cause: unknown) => {
      context.log.warn({ err: cause, version }, 'could not abandon an upload; cleanup will when it expires');
    });
    if (isStorageFull(error)) context.cleanup.makeRoom();
    else context.cleanup.wake();
    throw error;
  }
}
