// DELETE of one object or of many by exact name. The caller's right is rehearsed with the very statement; the
// deletion itself is the owner's and holds only for the rows as they were seen.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { sql } from '../../postgres/sql.ts';
import type { CallerSettings } from '../../postgres/pool/caller-pool.ts';
import { findBucket, requireBucket } from '../objects/bucket.ts';
import { closedCaller, during } from '../http/caller.ts';
import type { Address } from '../objects/object-path.ts';
import {
  findObject,
  findObjectAs,
  markOf,
  OBJECT_JSON,
  rehearse,
  type StoredObject,
} from '../objects/object.ts';
import { accessDenied, objectNotFound } from '../problem.ts';
import { readJson } from '../http/request-body.ts';
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

type Target = {
  readonly bucket: string;
  readonly names: readonly string[];
  readonly versions: ReadonlyMap<string, string>;
};

/** How often what others change in between is asked about anew. */
const REMOVE_TURNS = 5;

/** Deletes what the caller may delete, and tells what that was. */
export async function remove(
  context: StorageContext,
  caller: CallerSettings,
  target: Target,
): Promise<StoredObject[]> {
  const removed: StoredObject[] = [];
  let { names } = target;
  for (let turn = 0; names.length > 0 && turn < REMOVE_TURNS; turn++) {
    const allowed = await rehearseRemoval(context, caller, { ...target, names });
    if (allowed.length === 0) break;
    const rows = await context.owner.query<{ object: StoredObject }>(sql`
      with o as (
        delete from storage.objects o
        using unnest(${allowed.map(({ id }) => id)}::uuid[], ${allowed.map(({ mark }) => mark)}::text[])
          as allowed (id, mark)
        where o.id = allowed.id and ${markOf('o')} = allowed.mark
        returning o.*
      )
      select ${OBJECT_JSON} as object from o`);
    removed.push(...rows.map(({ object }) => object));
    const gone = new Set(rows.map(({ object }) => object.id));
    names = allowed.filter(({ id }) => !gone.has(id)).map(({ name }) => name);
  }
  if (removed.length > 0) context.cleanup.nudge();
  return removed;
}

async function rehearseRemoval(
  context: StorageContext,
  caller: CallerSettings,
  { bucket, names, versions }: Target,
): Promise<Array<{ id: string; mark: string; name: string }>> {
  const lines = await rehearse(
    context.callers,
    caller,
    sql`delete from storage.objects o where o.bucket_id = ${bucket} and o.name = any (${names}::text[])
      returning o.id::text || ' ' || ${markOf('o')} || ' ' || o.version || ' ' || o.name`,
  );
  return lines
    .map((line) => {
      const [id = '', mark = '', version = '', ...name] = line.split(' ');
      return { id, mark, version, name: name.join(' ') };
    })
    .filter(({ name, version }) => (versions.get(name) ?? version) === version);
}
