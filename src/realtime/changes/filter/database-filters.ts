// Filters that only PostgreSQL can evaluate: patterns, numbers, times. They run as the role of the subscriber, on rows
// that the subscriber may select and on no others (decision 0155). Each caller has its own statements and its own time,
// so a slow filter costs its own caller.
import type { FeatureContext } from '../../../http/feature.ts';
import { Cache } from '../../../lib/cache.ts';
import { callerKey } from '../../../lib/limits/caller-key.ts';
import { halves } from '../../../lib/halves.ts';
import { TokenBucket } from '../../../lib/limits/token-bucket.ts';
import { databaseFailure, isDatabaseError } from '../../../postgres/pg-error.ts';
import { toWire, type CallerSettings } from '../../../postgres/pool/caller-pool.ts';
import type { WireResult } from '../../../postgres/wire/wire.ts';
import { join, sql, type Sql } from '../../../postgres/sql.ts';
import type { PublishedTable } from '../../tables/published-tables.ts';
import { CallerTurns } from '../../access/caller-turns.ts';
import { filterQuery, type DatabaseFilter } from './filter-query.ts';
import type { RowTexts } from '../../tables/row-values.ts';

/** Timeouts in milliseconds. A table that a migration has locked does not make a filter slow. */
const TIMEOUTS = [
  ['statement_timeout', '500'],
  ['lock_timeout', '250'],
] as const;
/** Milliseconds that failing statements of one caller may take. */
const FAILURE_TIME = { perSecond: 50, burst: 1_000 };
/** A filter that was too slow is not tried again for this time. */
const SLOW_FOR_MS = 60_000;
/** The rest of the connections belongs to requests. */
const MAX_STATEMENTS = 4;
const MAX_CALLERS = 10_000;
const MAX_FILTERS = 1_000;

/** `address`: address of the client. */
export type FilterCaller = CallerSettings & { readonly address: string | undefined };

/** Filters of subscriptions with the same caller and the same rights, for the changes of one table. */
export type FilterWork = {
  readonly caller: FilterCaller;
  readonly table: PublishedTable;
  /** Numbers of the rows, all of which the caller may select. */
  readonly rows: readonly number[];
  readonly readTexts: (row: number) => RowTexts;
  readonly filters: readonly DatabaseFilter[];
};

export class FilterResults {
  readonly #matches = new Map<string, Set<number>>();
  /** Keys of filters that were too slow and are switched off. */
  readonly slow = new Set<string>();
  /** Keys of filters for which the caller had no time left. */
  readonly unknown = new Set<string>();

  add({ key }: DatabaseFilter, row: number): void {
    const rows = this.#matches.get(key);
    if (rows) rows.add(row);
    else this.#matches.set(key, new Set([row]));
  }

  /** Returns false for a row on which the filter raises an error. The error is not sent to the client. */
  matches({ key }: DatabaseFilter, row: number): boolean {
    return this.#matches.get(key)?.has(row) === true;
  }
}

type CallerState = {
  readonly failureTime: TokenBucket;
  /** Keys of filters whose last run ended in time. New filters of the caller do not delay them. */
  readonly proven: Cache<string, true>;
  /** End of the pause of slow filters, by `performance.now()`. */
  readonly slowUntil: Cache<string, number>;
};

export class DatabaseFilters {
  readonly #context: FeatureContext;
  readonly #turns = new CallerTurns(MAX_STATEMENTS, 1);
  readonly #callers = new Cache<string, CallerState>(MAX_CALLERS);

  constructor(context: FeatureContext) {
    this.#context = context;
  }

  async evaluate(work: FilterWork): Promise<FilterResults> {
    const results = new FilterResults();
    const state = this.#callerState(work.caller);
    const isProven = ({ key }: DatabaseFilter): boolean => state.proven.get(key) === true;
    const run = new FilterRun(
      state,
      results,
      async (filters, rows) => await this.#runQuery(work, results, filters, rows),
    );
    // New filters, and the time that they use, do not delay filters that ran in time before.
    const proven = work.filters.filter(isProven);
    await run.evaluate(proven, work.rows, true);
    await run.evaluate(
      work.filters.filter((filter) => !proven.includes(filter)),
      work.rows,
    );
    return results;
  }

  /** Returns why the caller must wait before it subscribes with these filters, or undefined. */
  refusal(caller: FilterCaller, filters: readonly DatabaseFilter[]): string | undefined {
    if (filters.length === 0) return undefined;
    const { slowUntil, failureTime } = this.#callerState(caller);
    const now = performance.now();
    const isSlow = filters.some(({ key }) => (slowUntil.get(key) ?? 0) > now);
    return isSlow || failureTime.level(FAILURE_TIME) <= 0 ? TOO_SLOW : undefined;
  }

  /** Evaluates the checks of filters in the time of the caller. Returns why the filters cannot be used. */
  async checkValues(
    caller: FilterCaller,
    filters: readonly DatabaseFilter[],
    checks: readonly Sql[],
  ): Promise<Error | undefined> {
    if (checks.length === 0) return undefined;
    const startedAt = performance.now();
    try {
      return await this.checkStatement(caller, sql`select ${join(checks)}`, TIMEOUTS);
    } catch (error) {
      if (!isTimeout(error)) throw error;
      const state = this.#callerState(caller);
      spend(state, performance.now() - startedAt);
      for (const { key } of filters) state.slowUntil.set(key, performance.now() + SLOW_FOR_MS);
      return new Error(TOO_SLOW);
    }
  }

  /** Returns the error of the statement. Throws when the database is not available, or the statement takes too long. */
  async checkStatement(
    { role, claims, user, address }: FilterCaller,
    statement: Sql,
    extra?: CallerSettings['extra'],
  ): Promise<Error | undefined> {
    const cancellable = { cancel: undefined, address };
    try {
      await this.#context.callers.run({ role, claims, user, extra }, [toWire(statement)], {
        readOnly: true,
        cancellable,
      });
      return undefined;
    } catch (error) {
      // A database that is busy is not a fault of the filter.
      if (!isDatabaseError(error) || databaseFailure(error)) throw error;
      return error;
    }
  }

  async #runQuery(
    { caller, table, readTexts }: FilterWork,
    results: FilterResults,
    filters: readonly DatabaseFilter[],
    rows: readonly number[],
  ): Promise<void> {
    const { role, user, address } = caller;
    const texts = rows.map((row) => readTexts(row));
    // The result depends only on the role, so the statement runs without the claims.
    const run = async (): Promise<WireResult[]> =>
      await this.#context.callers.run(
        { role, claims: JSON.stringify({ role }), user, extra: TIMEOUTS },
        [toWire(filterQuery(table, texts, filters))],
        { readOnly: true, cancellable: { cancel: undefined, address } },
      );
    const [found] = await this.#turns.run(callerKey(caller, address), run);
    found?.rows.forEach(([matching], at) => {
      for (const n of JSON.parse(matching?.toString() ?? '[]') as number[]) {
        const filter = filters[n];
        const row = rows[at];
        if (filter && row !== undefined) results.add(filter, row);
      }
    });
  }

  #callerState(caller: FilterCaller): CallerState {
    const key = callerKey(caller, caller.address);
    const known = this.#callers.get(key);
    if (known) return known;
    const state = {
      failureTime: new TokenBucket(),
      proven: new Cache<string, true>(MAX_FILTERS),
      slowUntil: new Cache<string, number>(MAX_FILTERS),
    };
    this.#callers.set(key, state);
    return state;
  }
}

/** Evaluates the filters of one caller on one batch. Filters and rows that fail are halved until the cause is found. */
class FilterRun {
  readonly #state: CallerState;
  readonly #results: FilterResults;
  readonly #ask: (filters: readonly DatabaseFilter[], rows: readonly number[]) => Promise<void>;

  constructor(
    state: CallerState,
    results: FilterResults,
    ask: (filters: readonly DatabaseFilter[], rows: readonly number[]) => Promise<void>,
  ) {
    this.#state = state;
    this.#results = results;
    this.#ask = ask;
  }

  /** `isProven`: runs the first statement even if the caller has no time left. */
  async evaluate(
    filters: readonly DatabaseFilter[],
    rows: readonly number[],
    isProven = false,
  ): Promise<void> {
    const { failureTime, proven } = this.#state;
    if (filters.length === 0) return;
    if (!isProven && failureTime.level(FAILURE_TIME) <= 0) {
      this.#markUnknown(filters);
      return;
    }
    const startedAt = performance.now();
    try {
      await this.#ask(filters, rows);
      for (const { key } of filters) proven.set(key, true);
    } catch (error) {
      for (const { key } of filters) proven.delete(key);
      if (!isTimeout(error) && (!isDatabaseError(error) || databaseFailure(error))) {
        this.#markUnknown(filters);
        return;
      }
      spend(this.#state, performance.now() - startedAt);
      await this.#split(filters, rows, isTimeout(error));
    }
  }

  async #split(filters: readonly DatabaseFilter[], rows: readonly number[], isSlow: boolean): Promise<void> {
    const [filter] = filters;
    if (filters.length > 1) {
      for (const half of halves(filters)) await this.evaluate(half, rows);
    } else if (isSlow && filter) {
      this.#results.slow.add(filter.key);
      this.#state.slowUntil.set(filter.key, performance.now() + SLOW_FOR_MS);
    } else if (rows.length > 1) {
      for (const half of halves(rows)) await this.evaluate(filters, half);
    }
  }

  #markUnknown(filters: readonly DatabaseFilter[]): void {
    for (const { key } of filters) this.#results.unknown.add(key);
  }
}

/** A fixed text, because it must not depend on rows. */
export const TOO_SLOW =
  'a filter of this client took too long to evaluate. Use a simpler pattern, and try again in a minute';

function spend({ failureTime }: CallerState, ms: number): void {
  failureTime.level(FAILURE_TIME);
  failureTime.spend(ms);
}

function isTimeout(error: unknown): boolean {
  return isDatabaseError(error, 'query_canceled');
}
