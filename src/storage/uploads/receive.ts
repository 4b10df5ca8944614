// How bytes become an object: reserve a version, store the bytes, then commit the row. Every instant in between
// is accounted for in the database, so that a crash leaves something to sweep and never something to guess.
import { randomUUID } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { CallerSettings } from '../../postgres/pool/caller-pool.ts';
import type { Bucket } from '../objects/bucket.ts';
import { checkDeclaredType } from '../objects/content-type.ts';
import { checkDeclaration, Meter, type IncomingUpload, type UploadFields } from './incoming.ts';
import {
  abandonVersion,
  commitAs,
  rehearseUpload,
  reserveVersion,
  type FileMetadata,
  type StoredObject,
} from '../objects/object.ts';
import { parseObjectPath, type Address } from '../objects/object-path.ts';
import { isStorageFull, lockTimeout } from '../problem.ts';
import type { StorageContext } from '../storage-context.ts';
import type { SlotHolder } from './upload-slots.ts';

export type Reception = {
  readonly bucket: Bucket;
  readonly name: string;
  readonly upsert: boolean;
  readonly ownerId: string | null;
  /** Whom the policies are asked for: before a byte is stored, and again when all of them are. */
  readonly caller: CallerSettings;
  readonly holder: SlotHolder;
};

export async function receive(
  context: StorageContext,
  request: FastifyRequest,
  open: () => Promise<IncomingUpload>,
  reception: Reception,
): Promise<StoredObject> {
  const upload = await open();
  try {
    return await store(context, request, upload, reception);
  } catch (error) {
    upload.abandon();
    throw error;
  }
}

async function store(
  context: StorageContext,
  request: FastifyRequest,
  upload: IncomingUpload,
  { bucket, name, upsert, ownerId, caller, holder }: Reception,
): Promise<StoredObject> {
  const { maxBytes, types } = checkDeclaration(upload, name, bucket);
  const address = { bucket: bucket.id, name: parseObjectPath(name) };
  const metadata = probedMetadata(upload.fields, upload.declaredBytes);
  const { userMetadata } = upload.fields;
  await rehearseUpload(context.callers, caller, { ...address, ownerId, metadata, userMetadata }, upsert);

  // Only now: whoever may not upload holds no place of those who may.
  const leave = context.slots.enter(holder);
  try {
    return await storeBytes(context, request, upload, {
      ...address,
      maxBytes,
      types,
      upsert,
      ownerId,
      caller,
    });
  } finally {
    leave();
  }
}

type Order = Address &
  Pick<Reception, 'upsert' | 'ownerId' | 'caller'> & {
    readonly maxBytes: number;
    readonly types: readonly string[];
  };

async function storeBytes(
  context: StorageContext,
  request: FastifyRequest,
  upload: IncomingUpload,
  { bucket, name, maxBytes, types, upsert, ownerId, caller }: Order,
): Promise<StoredObject> {
  const meter = new Meter({
    maxBytes,
    contentType: upload.fields.contentType,
    allowedTypes: types,
    stallMs: context.limits.stallMs,
    signal: request.scope.signal,
  });
  const version = randomUUID();
  await reserveVersion(context.owner, version, { bucket, name }, pendingUntil(context));
  try {
    const atMost = upload.exact ? (upload.declaredBytes ?? maxBytes) : maxBytes;
    await context.backend.write(version, meter.watch(upload.source), atMost);
    const fields = await upload.finish();
    checkDeclaredType(fields.contentType, types);
    // From here on a client that leaves changes nothing: it finds a definite state when it asks again.
    const stored = await commitAs(
      context,
      caller,
      {
        bucket,
        name,
        version,
        ownerId,
        metadata: fileMetadata(fields, meter.bytes, `"${meter.digest()}"`, context.now()),
        userMetadata: fields.userMetadata,
      },
      upsert,
    );
    if (!stored) throw lockTimeout();
    return stored;
  } catch (error) {
    // Whether a failed commit took effect may be unknown; this acts only where the version is still pending.
    await abandonVersion(context.owner, version).catch((cause: unknown) => {
      context.log.warn({ err: cause, version }, 'could not give up an upload; the sweeper will');
    });
    if (isStorageFull(error)) context.cleanup.hurry();
    else context.cleanup.nudge();
    throw error;
  }
}

/** What a policy may look at before the bytes: the declared type and length. */
export function probedMetadata(
  fields: Pick<UploadFields, 'contentType'>,
  declaredBytes: number | undefined,
): Record<string, unknown> {
  return declaredBytes === undefined
    ? { mimetype: fields.contentType }
    : { mimetype: fields.contentType, contentLength: declaredBytes };
}

export function fileMetadata(
  fields: Pick<UploadFields, 'contentType' | 'cacheControl' | 'contentEncoding' | 'robots'>,
  size: number,
  eTag: string,
  now: Date,
): FileMetadata {
  return {
    eTag,
    size,
    mimetype: fields.contentType,
    cacheControl: fields.cacheControl,
    lastModified: now.toISOString(),
    contentLength: size,
    httpStatusCode: 200,
    ...(fields.contentEncoding === undefined ? {} : { contentEncoding: fields.contentEncoding }),
    ...(fields.robots === undefined ? {} : { xRobotsTag: fields.robots }),
  };
}

/** Past this, nobody can still be uploading: the deadline of uploads, and time for the commit. */
function pendingUntil(context: StorageContext): Date {
  const { uploadMs } = context.snapshot().config.server.timeouts;
  return new Date(Date.now() + uploadMs + 5 * 60_000);
}
