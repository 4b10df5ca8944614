// Which rows a caller may see, asked of PostgreSQL: only it knows what policies say. Callers with the same role and claims
// are one group, and many rows are one question.
import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import { toWire } from '../../postgres/pool/caller-pool.ts';
import { ident, join, raw, sql } from '../../postgres/sql.ts';
import { tableIdent, type PublishedTable } from '../changes/published-tables.ts';
import type { TextRow } from '../changes/row-values.ts';
import type { Tally } from '../tally.ts';

/** What differs between two tokens of one user, and says nothing about rights. */
const OF_THE_TOKEN = ['iat', 'exp', 'nbf', 'jti'];
const STATEMENT_TIMEOUT_MS = 2_000;
/** Questions at once: the rest of the connections belongs to requests. */
const MOST_AT_ONCE = 4;
const SAY_EVERY_MS = 60_000;

export function groupOf({ role, claims, user }: Caller): string {
  if (!user) return `${role} ${claims}`;
  const lasting = Object.entries(user.payload).filter(([name]) => !OF_THE_TOKEN.includes(name));
  return `${role} ${JSON.stringify(lasting)}`;
}

export class RowVisibility {
  readonly #context: FeatureContext;
  readonly #tally: Tally;
  #running = 0;
  readonly #waiting: Array<() => void> = [];
  readonly #saidAt = new Map<string, number>();

  constructor(context: FeatureContext, tally: Tally) {
    this.#context = context;
    this.#tally = tally;
  }

  /**
   * Of each row whether the caller can select it now, by its key. None when a policy raises or takes too long: that
   * costs this caller its events, and nobody else.
   */
  async ask(caller: Caller, table: PublishedTable, rows: readonly TextRow[]): Promise<ReadonlySet<number>> {
    await this.#enter();
    const startedAt = performance.now();
    try {
      const types = new Map(table.columns.map(({ name, sqlType }) => [name, sqlType]));
      const keys = table.key.map(
        (name) =>
          sql`${rows.map((row) => row.get(name) ?? null)}::text[]::${raw(types.get(name) ?? 'text')}[]`,
      );
      const names = table.key.map((_, at) => ident(`k${at}`));
      const on = table.key.map((name, at) => sql`t.${ident(name)} = i.${ident(`k${at}`)}`);
      const [found] = await this.#context.callers.run(
        { ...caller, extra: [['statement_timeout', String(STATEMENT_TIMEOUT_MS)]] },
        [
          toWire(sql`select i.n from unnest(${rows.map((_, n) => n)}::int[], ${join(keys)}) i(n, ${join(names)})
            join ${tableIdent(table)} t on ${join(on, ' and ')}`),
        ],
        { readOnly: true },
      );
      return new Set(found?.rows.map(([n]) => Number(n?.toString())));
    } catch (error) {
      this.#say(caller, table, error);
      return new Set();
    } finally {
      this.#tally.observe('visibility', performance.now() - startedAt);
      this.#running -= 1;
      this.#waiting.shift()?.();
    }
  }

  async #enter(): Promise<void> {
    while (this.#running >= MOST_AT_ONCE) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#running += 1;
  }

  #say({ role }: Caller, { schema, name }: PublishedTable, error: unknown): void {
    const table = `${schema}.${name}`;
    const now = performance.now();
    if (now - (this.#saidAt.get(table) ?? -SAY_EVERY_MS) < SAY_EVERY_MS) return;
    this.#saidAt.set(table, now);
    this.#context.log.warn(
      { err: error, table, role },
      'a policy could not be asked about changed rows; these subscribers did not hear of them',
    );
  }
}
