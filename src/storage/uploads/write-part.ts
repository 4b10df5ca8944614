// Writes a resumable upload under its lease. Parts are appended at the offset, and each is durable and recorded
// before it is acknowledged. The last part completes the upload and commits its object. The next request can continue
// after a crash at any point.
import { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import type { CallerSettings } from '../../postgres/pool/caller-pool.ts';
import { sql } from '../../postgres/sql.ts';
import { Abort } from '../../problem/problem.ts';
import { BlobMissing, readAtMost } from '../backend/backend.ts';
import { requireBucket, uploadRules, type UploadRules } from '../objects/bucket.ts';
import { abandonVersion, commitAs } from '../objects/commit.ts';
import { checkSniffedType, SNIFF_BYTES } from '../objects/content-type.ts';
import { fileMetadata } from '../objects/object.ts';
import { isStorageFull, StorageProblem } from '../problem.ts';
import { BodyMeter } from './body-meter.ts';
import type { Lease } from './lease.ts';
import {
  deleteResumable,
  entityTag,
  markCompleted,
  recordPart,
  type ResumableUpload,
} from './resumable-upload.ts';
import { expiredUpload, lockedUpload, maximumExceeded } from './tus.ts';
import type { UploadContext } from './upload-context.ts';
import type { SlotHolder } from './upload-slots.ts';

export type Writer = {
  /** Caller whose permission is checked. */
  readonly caller: CallerSettings;
  readonly holder: SlotHolder;
  /** False for a link without `upsert`: it must not finish an upload that replaces. */
  readonly mayReplace: boolean;
};

/** Appends the body of the request at the offset; completes the upload when that was the rest of it. */
export async function writePart(
  context: UploadContext,
  request: FastifyRequest,
  lease: Lease,
  writer: Writer,
): Promise<ResumableUpload> {
  const { upload } = lease;
  const { maxBytes, types } = resumableRules(context, upload);
  const room = (upload.length ?? maxBytes) - upload.offset;
  if (Number(request.headers['content-length'] ?? 0) > room) throw maximumExceeded();
  const meter = new BodyMeter({
    maxBytes: room,
    contentType: upload.fields.contentType,
    // Only the beginning of the whole shows its type.
    allowedTypes: upload.offset === 0 ? types : [],
    signal: AbortSignal.any([request.scope.signal, lease.signal]),
  });
  const body = request.body instanceof Readable ? request.body : Readable.from([]);
  let interruption: unknown;
  const leave = context.slots.enter(writer.holder);
  try {
    const source = untilInterrupted(meter.watch(body), lease, (error) => (interruption = error));
    const part = await context.backend.append(upload.version, upload.parts, source, room);
    request.scope.bucket = upload.bucket;
    request.scope.received = part.bytes;
    const current =
      part.bytes === 0
        ? upload
        : await recordPart(context.owner, upload, lease.id, { ...part, md5: meter.digest() });
    if (!current) throw lockedUpload();
    if (interruption !== undefined) throw interruption;
    return current.offset === current.length ? await completeUpload(context, current, writer) : current;
  } catch (error) {
    if (error instanceof BlobMissing) throw expiredUpload();
    if (isStorageFull(error)) context.cleanup.makeRoom();
    if (error instanceof StorageProblem && error.code === 'InvalidMimeType')
      await abandonUpload(context, upload);
    throw error;
  } finally {
    leave();
  }
}

/** Ends quietly when the client leaves or the lease is lost: what arrived before is kept. */
async function* untilInterrupted(
  source: AsyncIterable<Buffer>,
  { isValid }: Lease,
  onInterruption: (error: unknown) => void,
): AsyncIterable<Buffer> {
  try {
    for await (const chunk of source) {
      if (!isValid()) {
        onInterruption(lockedUpload());
        return;
      }
      yield chunk;
    }
  } catch (error) {
    if (!(error instanceof Abort)) throw error;
    onInterruption(error);
  }
}

/** Makes the object once all bytes are stored. Idempotent: an earlier request may have died at any step of it. */
export async function completeUpload(
  context: UploadContext,
  upload: ResumableUpload,
  { caller, mayReplace }: Writer,
): Promise<ResumableUpload> {
  if (upload.completed) return upload;
  const { version, fields, ownerId, userMetadata } = upload;
  try {
    checkSniffedType(
      await readHead(context, upload),
      fields.contentType,
      resumableRules(context, upload).types,
    );
    await context.backend.assemble(version, upload.parts);
    const metadata = fileMetadata(fields, upload.offset, entityTag(upload.parts), context.now());
    const { bucket, name } = upload;
    const commit = { bucket, name, version, ownerId, metadata, userMetadata };
    const stored = await commitAs(context, caller, commit, upload.upsert && mayReplace);
    // No reservation: committed by a request that died before recording it, or expired.
    if (!stored && !(await isCommitted(context, upload))) throw expiredUpload();
  } catch (error) {
    // Refused for good: the name was taken, permission ended, or the content is not what was declared.
    if (error instanceof StorageProblem && error.status < 500) await abandonUpload(context, upload);
    throw error instanceof BlobMissing ? expiredUpload() : error;
  }
  await markCompleted(context.owner, version);
  context.cleanup.wake();
  return { ...upload, completed: true };
}

export async function abandonUpload(context: UploadContext, { version }: ResumableUpload): Promise<void> {
  await context.owner.transaction(async (transaction) => {
    await deleteResumable(transaction, version);
    await abandonVersion(transaction, version);
  });
  context.cleanup.wake();
}

function resumableRules(context: UploadContext, { bucket, name }: ResumableUpload): UploadRules {
  return uploadRules(requireBucket(context.snapshot().config, bucket), name);
}

async function isCommitted(context: UploadContext, { version }: ResumableUpload): Promise<boolean> {
  return (await context.owner.query(sql`select from storage.objects where version = ${version}`)).length > 0;
}

async function readHead(context: UploadContext, { version, parts }: ResumableUpload): Promise<Buffer> {
  try {
    return await readAtMost(context.backend.readStaged(version, parts), SNIFF_BYTES);
  } catch (error) {
    if (!(error instanceof BlobMissing)) throw error;
    // Already assembled by a request that died before its commit, and checked then.
    return Buffer.alloc(0);
  }
}
