// Whether an instance that holds a file may make the database follow it. Deployments are ordered by their numbers; an
// instance that comes back with an older file never migrates backwards by itself.
import { must } from '../../lib/assert.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';

/** What the history knows of a file and of the newest one. */
export type Fence = {
  /** Hash of the file that was applied last. */
  readonly current: string | null;
  readonly currentSince: Date | null;
  /** When another file took the place of this one. */
  readonly replacedAt: Date | null;
  /** The largest number of all deployments. */
  readonly newestSeq: number | null;
  /** This file was once applied under that number. */
  readonly hadNewestSeq: boolean;
  /** The newest run of all applied this file and is done, but for its long steps. */
  readonly isNewest: boolean;
};

export type FencePolicy = {
  /** A file that was replaced by another one may come back: `dev`, `--allow-rollback`, `down`. */
  readonly allowRollback: boolean;
  /** The same for one file only: the first characters of its hash. */
  readonly allowRollbackTo: string | null;
  /** Grows with every deployment; tells an older file from a newer one. */
  readonly deploySeq: number | null;
  /** Hash of the file that this instance has served until now: whoever serves the newest file may replace it. */
  readonly replaces: string | null;
};

/** Why a file is not applied. */
export type SupersededCode =
  /** It was replaced by a newer one. */
  | 'MIG-403'
  /** Another file has the same number. */
  | 'MIG-405'
  /** It has no number, and the file that was applied has one. */
  | 'MIG-406';

export async function readFence(session: Queryable, schemaHash: string): Promise<Fence> {
  const [row] = await session.query<Fence>(sql`
    with done as (select * from svc_meta.run where status = 'done'),
      last as (select * from done order by id desc limit 1),
      newest as (select max(deploy_seq) as seq from done)
    select (select schema_hash from last) as current,
      (select coalesce(finished_at, started_at) from last) as "currentSince",
      (select min(d.started_at) from done d where d.id > (select max(id) from done where schema_hash = ${schemaHash})
        and d.schema_hash <> ${schemaHash}) as "replacedAt",
      (select seq::float8 from newest) as "newestSeq",
      exists (select from done d, newest n where d.deploy_seq = n.seq and d.schema_hash = ${schemaHash}) as "hadNewestSeq",
      coalesce((select status = 'done' and schema_hash = ${schemaHash} from svc_meta.run order by id desc limit 1), false) as "isNewest"`);
  return must(row, 'the fence');
}

/** Undefined when the file may be applied, or is the one that was applied last. */
export function supersededBy(
  fence: Fence,
  schemaHash: string,
  policy: FencePolicy,
): SupersededCode | undefined {
  const { current, newestSeq } = fence;
  const { deploySeq, allowRollbackTo, replaces } = policy;
  if (current === null || current === schemaHash || current === replaces) return undefined;
  if (policy.allowRollback) return undefined;
  if (allowRollbackTo !== null && schemaHash.startsWith(allowRollbackTo)) return undefined;
  if (deploySeq === null) {
    if (newestSeq !== null) return 'MIG-406';
    return fence.replacedAt === null ? undefined : 'MIG-403';
  }
  if (newestSeq === null || deploySeq > newestSeq) return undefined;
  // The file that had the number first has been rolled back since.
  if (deploySeq === newestSeq && !fence.hadNewestSeq) return 'MIG-405';
  return 'MIG-403';
}

/** A deployment that changes nothing in the database counts, too: an older one must not pass for newer afterwards. */
export function isSeqNews({ newestSeq }: Pick<Fence, 'newestSeq'>, deploySeq: number | null): boolean {
  return deploySeq !== null && (newestSeq === null || deploySeq > newestSeq);
}

export async function readNewestSeq(session: Queryable): Promise<number | null> {
  const [row] = await session.query<{ newestSeq: number | null }>(
    sql`select max(deploy_seq)::float8 as "newestSeq" from svc_meta.run where status = 'done'`,
  );
  return row?.newestSeq ?? null;
}
