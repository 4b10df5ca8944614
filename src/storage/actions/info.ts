// GET /object/info/…: an object's metadata.
import type { FastifyReply } from 'fastify';
import { varyByCaller } from '../http/serve.ts';
import { objectFacts, type StoredObject } from '../objects/object.ts';
import type { Call, OptionalCallerCall } from '../storage-context.ts';
import { publicReader, chooseReader, requireObject } from './download.ts';

export async function infoPublic(call: Call): Promise<FastifyReply> {
  const { find } = publicReader(call);
  return await call.reply.send(toInfo(requireObject(await find(), call.request)));
}

export async function infoAs(call: OptionalCallerCall): Promise<FastifyReply> {
  const { request, reply } = call;
  const { find } = chooseReader(call, 'object.get_authenticated_info');
  varyByCaller(reply);
  return await reply
    .header('cache-control', 'private, no-cache')
    .send(toInfo(requireObject(await find(), request)));
}

function toInfo(object: StoredObject): Record<string, unknown> {
  const facts = objectFacts(object);
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
