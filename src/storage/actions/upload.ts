// Uploads in one request: POST creates an object, PUT replaces one; and using a signed upload link.
import type { FastifyReply } from 'fastify';
import { during, callerOwner } from '../http/caller.ts';
import { queryValue } from '../http/raw-path.ts';
import { requireBucket } from '../objects/bucket.ts';
import { invalidUrlToken } from '../problem.ts';
import type { Call, CallerCall } from '../storage-context.ts';
import { receive } from '../uploads/receive.ts';
import { identifyHolder, linkHolder } from '../uploads/upload-slots.ts';
import { UPLOAD_LINK_OPERATION } from './sign.ts';

export async function upload(call: CallerCall): Promise<FastifyReply> {
  const { context, request, reply, address, caller } = call;
  // Clients send "true" or "false".
  const upsert = request.method === 'PUT' || request.headers['x-upsert'] === 'true';
  const operation = upsert ? 'storage.object.upload_update' : 'storage.object.upload';
  const object = await receive(context, request, {
    bucket: requireBucket(context.snapshot().config, address.bucket),
    name: address.name,
    upsert,
    ownerId: callerOwner(caller),
    caller: during(caller, operation, request),
    holder: identifyHolder(caller, request),
  });
  return await reply.send({ Id: object.id, Key: `${object.bucket_id}/${object.name}` });
}

export async function uploadWithLink({ context, request, reply, address }: Call): Promise<FastifyReply> {
  const token = queryValue(request, 'token');
  if (token === undefined) throw invalidUrlToken('token is missing');
  const url = `${address.bucket}/${address.name}`;
  const { upsert, owner, maker } = await context.tokens.verifyUpload(token, url);
  const object = await receive(context, request, {
    bucket: requireBucket(context.snapshot().config, address.bucket),
    name: address.name,
    upsert,
    ownerId: owner,
    // The link's maker must still have permission.
    caller: during(maker, UPLOAD_LINK_OPERATION, request),
    holder: linkHolder(request),
  });
  return await reply.send({ Key: `${object.bucket_id}/${object.name}` });
}
