// DELETE of one object or of many by exact name. The caller's right is rehearsed with the very statement; the
// deletion itself is the owner's and holds only for the versions that were seen.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { sql } from '../../postgres/sql.ts';
import type { Caller } from '../../identity/caller.ts';
import { findBucket, requireBucket } from '../bucket.ts';
import { closedCaller, during } from '../caller.ts';
import type { Address } from '../object-path.ts';
import { findObject, findObjectAs, OBJECT_JSON, rehearse, type StoredObject } from '../object.ts';
import { accessDenied, objectNotFound } from '../problem.ts';
import { readJson } from '../request-body.ts';
import type { StorageContext } from '../storage-context.ts';

const MAX_NAMES = 1000;

const removeBody = z.object({
  prefixes: z
    .array(
      z
        .union([z.string(), z.object({ path: z.string(), versionId: z.string().nullish() })])
        .transform((one) => (typeof one === 'string' ? { path: one, versionId: undefined } : one)),
    )
    .min(1)
    .max(MAX_NAMES),
});

export async function removeMany(
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
  bucketId: string,
): Promise<FastifyReply> {
  const caller = await closedCaller(context.credentials, request);
  const { config } = context.snapshot();
  const { prefixes } = await readJson(request, removeBody, config.server.maxBodyBytes);
  if (!findBucket(config, bucketId)) return await reply.send([]);
  const names = prefixes.filter(({ versionId }) => !versionId).map(({ path }) => path);
  const versions = prefixes.filter(({ versionId }) => versionId);
  const removed = await remove(context, during(caller, 'storage.object.delete_many', request), {
    bucket: bucketId,
    names: [...names, ...versions.map(({ path }) => path)],
    versions: new Map(versions.map(({ path, versionId }) => [path, versionId ?? ''])),
  });
  return await reply.send(removed);
}

export async function removeOne(
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
  address: Address,
): Promise<FastifyReply> {
  const caller = await closedCaller(context.credentials, request);
  requireBucket(context.snapshot().config, address.bucket);
  const object = await findObject(context.owner, address);
  if (!object) throw objectNotFound();
  const as = during(caller, 'storage.object.delete', request);
  const removed = await remove(context, as, {
    bucket: address.bucket,
    names: [address.name],
    versions: new Map(),
  });
  if (removed.length === 0) {
    // Whoever may not even see it learns no more than that there is nothing for them.
    if (!(await findObjectAs(context.callers, as, address))) throw objectNotFound();
    throw accessDenied();
  }
  return await reply.send({ message: 'Successfully deleted' });
}

/** Deletes what the caller may delete, and tells what that was. */
export async function remove(
  context: StorageContext,
  caller: Caller,
  target: {
    readonly bucket: string;
    readonly names: readonly string[];
    readonly versions: ReadonlyMap<string, string>;
  },
): Promise<StoredObject[]> {
  const allowed = (
    await rehearse(
      context.callers,
      caller,
      sql`delete from storage.objects o where o.bucket_id = ${target.bucket} and o.name = any (${target.names}::text[])
        returning o.id::text || ' ' || o.version || ' ' || o.name`,
    )
  )
    .map((line) => {
      const [id = '', version = '', ...name] = line.split(' ');
      return { id, version, name: name.join(' ') };
    })
    .filter(({ name, version }) => (target.versions.get(name) ?? version) === version);
  if (allowed.length === 0) return [];
  const rows = await context.owner.query<{ object: StoredObject }>(sql`
    with o as (
      delete from storage.objects
      where (id, version) in (
        select * from unnest(${allowed.map(({ id }) => id)}::uuid[], ${allowed.map(({ version }) => version)}::text[]))
      returning *
    )
    select ${OBJECT_JSON} as object from o`);
  context.cleanup.nudge();
  return rows.map(({ object }) => object);
}
