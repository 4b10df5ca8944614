// What only PostgreSQL can judge about changed rows: patterns, numbers, times. Asked with the rights of the subscribers, and
// not for long: a filter that fails, or never ends, costs the one who gave it his events, and nobody else.
import type { FeatureContext } from '../../http/feature.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { toWire, type DatabaseRole } from '../../postgres/pool/caller-pool.ts';
import type { PublishedTable } from './published-tables.ts';
import { holdsQuery, type AskedCondition, type RowTexts } from './row-values.ts';

const STATEMENT_TIMEOUT_MS = 500;
/** For all that fail in a batch together: the clients of others wait meanwhile. */
const SEARCH_MS = 5_000;

export type Judged = {
  /** Whether the condition holds for the row with that number. */
  readonly holds: (condition: AskedCondition, row: number) => boolean;
  /** Conditions that PostgreSQL cannot judge, and why. */
  readonly broken: ReadonlyMap<AskedCondition, string>;
  /** Conditions that there was no time for. */
  readonly unknown: ReadonlySet<AskedCondition>;
};

type Answers = Map<AskedCondition, Set<number>>;

export class AskedConditions {
  readonly #context: FeatureContext;

  constructor(context: FeatureContext) {
    this.#context = context;
  }

  async judge(
    table: PublishedTable,
    rows: readonly RowTexts[],
    asked: ReadonlyMap<DatabaseRole, ReadonlySet<AskedCondition>>,
  ): Promise<Judged> {
    const answers: Answers = new Map();
    const broken = new Map<AskedCondition, string>();
    const unknown = new Set<AskedCondition>();
    const until = performance.now() + SEARCH_MS;
    /** Halves what fails until it is alone. */
    const search = async (role: DatabaseRole, some: readonly AskedCondition[]): Promise<void> => {
      if (some.length === 0) return;
      if (performance.now() > until) {
        for (const one of some) unknown.add(one);
        return;
      }
      try {
        await this.#ask(table, rows, role, some, answers);
      } catch (error) {
        if (!isDatabaseError(error)) throw error;
        const [only] = some;
        if (some.length === 1 && only) {
          broken.set(only, error.message);
          return;
        }
        const middle = Math.ceil(some.length / 2);
        await search(role, some.slice(0, middle));
        await search(role, some.slice(middle));
      }
    };
    await Promise.all([...asked].map(async ([role, some]) => await search(role, [...some])));
    return { holds: (condition, row) => answers.get(condition)?.has(row) === true, broken, unknown };
  }

  async #ask(
    table: PublishedTable,
    rows: readonly RowTexts[],
    role: DatabaseRole,
    some: readonly AskedCondition[],
    answers: Answers,
  ): Promise<void> {
    const caller = {
      role,
      claims: JSON.stringify({ role }),
      extra: [['statement_timeout', String(STATEMENT_TIMEOUT_MS)]] as const,
    };
    const statements = [toWire(holdsQuery(table, rows, some))];
    const [found] = await this.#context.callers.run(caller, statements, { readOnly: true });
    for (const one of some) answers.set(one, new Set());
    found?.rows.forEach(([numbers], row) => {
      for (const n of JSON.parse(numbers?.toString() ?? '[]') as number[]) {
        const condition = some[n];
        if (condition) answers.get(condition)?.add(row);
      }
    });
  }
}
