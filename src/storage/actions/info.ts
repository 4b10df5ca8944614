// GET /object/info/…: an object's row as the clients read it.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { requirePublicBucket } from '../objects/bucket.ts';
import type { Address } from '../objects/object-path.ts';
import { fileFacts, findObject, type StoredObject } from '../objects/object.ts';
import { varyByCaller } from '../http/serve.ts';
import type { StorageContext } from '../storage-context.ts';
import { present, readerOf } from './download.ts';

export async function infoPublic(
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
  address: Address,
): Promise<FastifyReply> {
  requirePublicBucket(context.snapshot().config, address.bucket);
  return await reply.send(toInfo(present(await findObject(context.owner, address), request)));
}

export async function infoAs(
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
  address: Address,
  door: 'closed' | 'lenient',
): Promise<FastifyReply> {
  const reader = await readerOf(context, request, address, door, 'object.get_authenticated_info');
  varyByCaller(reply);
  return await reply
    .header('cache-control', 'private, no-cache')
    .send(toInfo(present(await reader.find(), request)));
}

function toInfo(object: StoredObject): Record<string, unknown> {
  const facts = fileFacts(object);
  return {
    id: object.id,
    name: object.name,
    version: object.version,
    bucket_id: object.bucket_id,
    size: facts.size,
    content_type: facts.contentType,
    cache_control: facts.cacheControl,
    etag: facts.etag,
    metadata: object.user_metadata,
    last_modified: object.updated_at,
    created_at: object.created_at,
    content_encoding: facts.contentEncoding ?? null,
    is_versioned: false,
    is_delete_marker: false,
    archived_at: null,
  };
}
