// Decides whether an instance may apply its file to the database. Deployment numbers order the files. An instance that
// restarts with an older file never migrates backwards by itself.
import { must } from '../../lib/assert.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';

/** Records of the history about this file and the newest file. */
export type Fence = {
  /** Hash of the file that was applied last. */
  readonly current: string | null;
  readonly currentSince: Date | null;
  /** Time at which another file replaced this file. */
  readonly replacedAt: Date | null;
  /** Largest deployment number. */
  readonly newestSeq: number | null;
  /** This file was applied with that number. */
  readonly hadNewestSeq: boolean;
  /** The newest run applied this file and has finished, except for its long steps. */
  readonly isNewest: boolean;
};

export type FencePolicy = {
  /** Allows a replaced file to be applied again. Set by `dev`, `--allow-rollback` and `down`. */
  readonly allowRollback: boolean;
  /** Prefix of the hash of the only file that may be applied again. */
  readonly allowRollbackTo: string | null;
  /** Increases with every deployment. Orders files. */
  readonly deploySeq: number | null;
  /**
   * Hash of the file that this instance has served until now. An instance that serves the newest file may replace it.
   */
  readonly replaces: string | null;
};

/** Reason for not applying a file. */
export type SupersededCode =
  /** A newer file replaced this file. */
  | 'MIG-403'
  /** Another file has the same number. */
  | 'MIG-405'
  /** The file has no number, but the applied file has one. */
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
      exists (select from done d, newest n where d.deploy_seq = n.seq and d.schema_hash = ${schemaHash})
        as "hadNewestSeq",
      coalesce((select status = 'done' and schema_hash = ${schemaHash} from svc_meta.run order by id desc limit 1),
        false) as "isNewest"`);
  return must(row, 'the fence');
}

/** Returns undefined if the file may be applied or was applied last. */
export function checkSuperseded(
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
  // Another file was applied with this number.
  if (deploySeq === newestSeq && !fence.hadNewestSeq) return 'MIG-405';
  return 'MIG-403';
}

/**
 * Returns true if the number must be recorded. This includes a deployment that changes nothing in the database:
 * otherwise an older deployment could count as newer later.
 */
export function isNewDeploySeq({ newestSeq }: Pick<Fence, 'newestSeq'>, deploySeq: number | null): boolean {
  return deploySeq !== null && (newestSeq === null || deploySeq > newestSeq);
}

export async function readNewestSeq(session: Queryable): Promise<number | null> {
  const [row] = await session.query<{ newestSeq: number | null }>(
    sql`select max(deploy_seq)::float8 as "newestSeq" from svc_meta.run where status = 'done'`,
  );
  return row?.newestSeq ?? null;
}
