// Deleting one object, or many by name. Permission is checked by a dry run of the deletion; the deletion itself is
// the owner's, limited to the row states that the dry run saw.
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import type { CallerSettings } from '../../postgres/pool/caller-pool.ts';
import { sql } from '../../postgres/sql.ts';
import { during } from '../http/caller.ts';
import { readJson } from './json-body.ts';
import { findBucket, requireBucket } from '../objects/bucket.ts';
import { findObject, findObjectAs, OBJECT_JSON, type StoredObject } from '../objects/object.ts';
import { dryRun, xminColumn } from '../objects/permission.ts';
import { accessDenied, objectNotFound } from '../problem.ts';
import type { CallerCall, StorageContext } from '../storage-context.ts';

const MAX_NAMES = 1000;
/** Maximum number of attempts for rows that concurrent requests change. */
const MAX_ATTEMPTS = 5;

export const removeBody = z.object({
  prefixes: z
    .array(
      z
        .union([z.string(), z.object({ path: z.string(), versionId: z.string().nullish() })])
        .transform((item) => (typeof item === 'string' ? { path: item, versionId: undefined } : item)),
    )
    .min(1)
    .max(MAX_NAMES),
});

export async function removeMany(call: CallerCall): Promise<FastifyReply> {
  const { context, request, reply, address, caller } = call;
  const { prefixes } = await readJson(call, removeBody);
  if (!findBucket(context.snapshot().config, address.bucket)) return await reply.send([]);
  const as = during(caller, 'storage.object.delete_many', request);
  const removed = await remove(context, as, {
    bucket: address.bucket,
    names: prefixes.map(({ path }) => path),
    versions: new Map(
      prefixes.flatMap(({ path, versionId }) => (versionId ? [[path, versionId] as const] : [])),
    ),
  });
  return await reply.send(removed);
}

export async function removeOne(call: CallerCall): Promise<FastifyReply> {
  const { context, request, reply, address, caller } = call;
  const { bucket, name } = address;
  requireBucket(context.snapshot().config, bucket);
  if (!(await findObject(context.owner, address))) throw objectNotFound();
  const as = during(caller, 'storage.object.delete', request);
  const removed = await remove(context, as, { bucket, names: [name], versions: new Map() });
  if (removed.length === 0) {
    // A caller who cannot see the object must not learn that it exists.
    throw (await findObjectAs(context.callers, as, address)) ? accessDenied() : objectNotFound();
  }
  return await reply.send({ message: 'Successfully deleted' });
}

type Target = {
  readonly bucket: string;
  readonly names: readonly string[];
  /** Requested versions by name. */
  readonly versions: ReadonlyMap<string, string>;
};

/** Deletes the objects that the caller may delete, and returns them. */
async function remove(
  context: StorageContext,
  caller: CallerSettings,
  target: Target,
): Promise<StoredObject[]> {
  const removed: StoredObject[] = [];
  let { names } = target;
  for (let attempt = 0; names.length > 0 && attempt < MAX_ATTEMPTS; attempt++) {
    const allowed = await dryRunRemoval(context, caller, { ...target, names });
    if (allowed.length === 0) break;
    const rows = await context.owner.query<{ object: StoredObject }>(sql`
      with o as (
        delete from storage.objects o
        using unnest(${allowed.map(({ id }) => id)}::uuid[], ${allowed.map(({ state }) => state)}::text[])
          as allowed (id, state)
        where o.id = allowed.id and ${xminColumn('o')} = allowed.state
        returning o.*
      )
      select ${OBJECT_JSON} as object from o`);
    removed.push(...rows.map(({ object }) => object));
    const gone = new Set(rows.map(({ object }) => object.id));
    names = allowed.filter(({ id }) => !gone.has(id)).map(({ name }) => name);
  }
  if (removed.length > 0) context.cleanup.wake();
  return removed;
}

async function dryRunRemoval(
  { callers }: StorageContext,
  caller: CallerSettings,
  { bucket, names, versions }: Target,
): Promise<Array<{ id: string; state: string; name: string }>> {
  const lines = await dryRun(
    callers,
    caller,
    sql`delete from storage.objects o where o.bucket_id = ${bucket} and o.name = any (${names}::text[])
      returning o.id::text || ' ' || ${xminColumn('o')} || ' ' || o.version || ' ' || o.name`,
  );
  return lines
    .map((line) => {
      const [id = '', state = '', version = '', ...name] = line.split(' ');
      return { id, state, version, name: name.join(' ') };
    })
    .filter(({ name, version }) => (versions.get(name) ?? version) === version);
}
