// POST and PUT /object/:bucket/*: one object from one request body.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { requireBucket } from '../objects/bucket.ts';
import { closedCaller, during, ownerOf } from '../http/caller.ts';
import type { Caller } from '../../identity/caller.ts';
import { openUpload, type IncomingUpload } from '../uploads/incoming.ts';
import type { Address } from '../objects/object-path.ts';
import type { StoredObject } from '../objects/object.ts';
import { receive } from '../uploads/receive.ts';
import type { StorageContext } from '../storage-context.ts';
import { holderOf } from '../uploads/upload-slots.ts';

export async function upload(
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
  address: Address,
): Promise<FastifyReply> {
  const caller = await closedCaller(context.credentials, request);
  // The clients always send "true" or "false"; anything else is not a wish to replace.
  const upsert = request.method === 'PUT' || request.headers['x-upsert'] === 'true';
  const object = await uploadAs(context, request, () => openUpload(context, request), {
    caller,
    address,
    upsert,
  });
  return await reply.send({ Id: object.id, Key: `${object.bucket_id}/${object.name}` });
}

/** One object from one body, if the caller may. */
async function uploadAs(
  context: StorageContext,
  request: FastifyRequest,
  open: () => Promise<IncomingUpload>,
  {
    caller,
    address,
    upsert,
  }: { readonly caller: Caller; readonly address: Address; readonly upsert: boolean },
): Promise<StoredObject> {
  const bucket = requireBucket(context.snapshot().config, address.bucket);
  const operation = upsert ? 'storage.object.upload_update' : 'storage.object.upload';
  return await receive(context, request, open, {
    bucket,
    name: address.name,
    upsert,
    ownerId: ownerOf(caller),
    caller: during(caller, operation, request),
    holder: holderOf(caller, request),
  });
}
