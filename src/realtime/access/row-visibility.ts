// Finds the rows that a caller may select, by a statement that PostgreSQL evaluates with its policies. Callers with the
// same role and claims are one group. One statement checks many rows.
import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import { Cache } from '../../lib/cache.ts';
import { halves } from '../../lib/halves.ts';
import { TokenBucket } from '../../lib/limits/token-bucket.ts';
import { databaseFailure, isDatabaseError } from '../../postgres/pg-error.ts';
import { toWire } from '../../postgres/pool/caller-pool.ts';
import { ident, join, raw, sql } from '../../postgres/sql.ts';
import { tableIdent, type PublishedTable } from '../tables/published-tables.ts';
import type { TextRow } from '../tables/row-values.ts';
import type { RealtimeCounters } from '../counters.ts';
import { CallerTurns } from './caller-turns.ts';

/** Claims that differ between the tokens of one user and give no rights. */
const TOKEN_CLAIMS = ['iat', 'exp', 'nbf', 'jti'];
const STATEMENT_TIMEOUT_MS = 2_000;
/** Milliseconds that failing statements of one group may take, so that its policies do not delay other subscribers. */
const FAILURE_TIME = { perSecond: 200, burst: 6_000 };
const MAX_GROUPS = 10_000;
/** Requests use the remaining connections. */
const MAX_STATEMENTS = 4;
const WARN_INTERVAL_MS = 60_000;

export function visibilityGroup({ role, claims, user }: Caller): string {
  if (!user) return `${role} ${claims}`;
  const claimsOfUser = Object.entries(user.payload).filter(([name]) => !TOKEN_CLAIMS.includes(name));
  return `${role} ${JSON.stringify(claimsOfUser)}`;
}

type VisibilityQuery = {
  readonly caller: Caller;
  readonly table: PublishedTable;
  readonly rows: readonly TextRow[];
  readonly group: string;
  readonly visible: Set<number>;
};

export class RowVisibility {
  readonly #context: FeatureContext;
  readonly #counters: RealtimeCounters;
  /** Time budgets of the groups whose statements have failed. */
  readonly #failureTimes = new Cache<string, TokenBucket>(MAX_GROUPS);
  readonly #turns = new CallerTurns(MAX_STATEMENTS, MAX_STATEMENTS);
  readonly #warnedAt = new Map<string, number>();

  constructor(context: FeatureContext, counters: RealtimeCounters) {
    this.#context = context;
    this.#counters = counters;
  }

  /**
   * Returns the numbers of the rows that the caller can select now, by their keys. Rows on which a policy raises an
   * error or takes too long are missing, so the client cannot distinguish them from rows that do not exist.
   */
  async findVisible(
    caller: Caller,
    table: PublishedTable,
    rows: readonly TextRow[],
  ): Promise<ReadonlySet<number>> {
    const query = { caller, table, rows, group: visibilityGroup(caller), visible: new Set<number>() };
    await this.#search(
      query,
      rows.map((_, n) => n),
    );
    return query.visible;
  }

  /** Halves rows that fail together, so that one row cannot hide another. */
  async #search(question: VisibilityQuery, numbers: readonly number[]): Promise<void> {
    const { caller, table, group, visible } = question;
    const failureTime = this.#failureTimes.get(group) ?? new TokenBucket();
    if (failureTime.level(FAILURE_TIME) <= 0) return;
    const startedAt = performance.now();
    try {
      const found = await this.#turns.run(group, async () => await this.#run(question, numbers));
      for (const n of found) visible.add(n);
    } catch (error) {
      this.#warn(caller, table, error);
      const isTimeout = isDatabaseError(error, 'query_canceled');
      if (!isDatabaseError(error) || (databaseFailure(error) && !isTimeout)) return;
      failureTime.spend(performance.now() - startedAt);
      this.#failureTimes.set(group, failureTime);
      if (isTimeout || numbers.length === 1) return;
      for (const half of halves(numbers)) await this.#search(question, half);
    }
  }

  async #run({ caller, table, rows }: VisibilityQuery, numbers: readonly number[]): Promise<number[]> {
    const startedAt = performance.now();
    try {
      const types = new Map(table.columns.map(({ name, sqlType }) => [name, sqlType]));
      const keys = table.key.map(
        (name) =>
          sql`${numbers.map((n) => rows[n]?.get(name) ?? null)}::text[]::${raw(types.get(name) ?? 'text')}[]`,
      );
      const names = table.key.map((_, at) => ident(`k${at}`));
      const on = table.key.map((name, at) => sql`t.${ident(name)} = i.${ident(`k${at}`)}`);
      const [found] = await this.#context.callers.run(
        { ...caller, extra: [['statement_timeout', String(STATEMENT_TIMEOUT_MS)]] },
        [
          toWire(sql`select i.n from unnest(${[...numbers]}::int[], ${join(keys)}) i(n, ${join(names)})
            join ${tableIdent(table)} t on ${join(on, ' and ')}`),
        ],
        { readOnly: true },
      );
      return found?.rows.map(([n]) => Number(n?.toString())) ?? [];
    } finally {
      this.#counters.observe('visibility', performance.now() - startedAt);
    }
  }

  #warn({ role }: Caller, { schema, name }: PublishedTable, error: unknown): void {
    const table = `${schema}.${name}`;
    const now = performance.now();
    if (now - (this.#warnedAt.get(table) ?? -WARN_INTERVAL_MS) < WARN_INTERVAL_MS) return;
    this.#warnedAt.set(table, now);
    // The message of PostgreSQL can contain a value of the row.
    const fields = isDatabaseError(error) ? { sqlstate: error.code } : { err: error };
    this.#context.log.warn(
      { ...fields, table, role },
      'a policy failed on changed rows; subscribers with this role did not receive them',
    );
  }
}
