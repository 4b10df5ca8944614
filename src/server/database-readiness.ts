// The database part of `/ready`: every pool that requests use must answer, and the database must take writes.
import type { CallerPool } from '../postgres/pool/caller-pool.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';

export type DatabaseState = 'ready' | 'database unreachable' | 'database read-only';

/** A probe must answer before the prober gives up, whatever the database does. */
export const PROBE_TIMEOUT_MS = 2_000;

export type ReadinessSources = {
  /** A connection that nothing else uses, so that nothing keeps it busy. */
  readonly probe: OwnerDatabase;
  readonly owners: readonly OwnerDatabase[];
  readonly callers: CallerPool;
};

/** Probes that arrive while one is under way share its answer, so a flood of them costs nothing. */
export function readiness(sources: ReadinessSources): () => Promise<DatabaseState> {
  let asking: Promise<DatabaseState> | undefined;
  return () =>
    (asking ??= ask(sources).finally(() => {
      asking = undefined;
    }));
}

async function ask({ probe, owners, callers }: ReadinessSources): Promise<DatabaseState> {
  const paths = [...owners, callers].map((path) => path.answers(PROBE_TIMEOUT_MS));
  const unreachable = 'database unreachable';
  const [state, ...answers] = await Promise.all([
    within(PROBE_TIMEOUT_MS, stateOf(probe), unreachable),
    ...paths.map((path) => within(PROBE_TIMEOUT_MS, path, false)),
  ]);
  return answers.every(Boolean) ? state : unreachable;
}

async function stateOf(probe: OwnerDatabase): Promise<DatabaseState> {
  const row = await probe.maybeOne<{ writable: boolean }>(
    sql`select not pg_is_in_recovery() and not current_setting('transaction_read_only')::bool as writable`,
  );
  return row?.writable === true ? 'ready' : 'database read-only';
}

/** Resolves to `otherwise` when `work` fails or takes longer. */
async function within<T>(ms: number, work: Promise<T>, otherwise: T): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<T>((resolve) => {
    timer = setTimeout(() => resolve(otherwise), ms);
  });
  try {
    return await Promise.race([work.catch(() => otherwise), timeout]);
  } finally {
    clearTimeout(timer);
  }
}
