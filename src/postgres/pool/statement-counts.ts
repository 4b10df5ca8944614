// Counts the cost of request statements by shape, for the dashboard, in the memory of this process. The name of the
// prepared statement is the key, so each count is a single map lookup.
import { Cache } from '../../lib/cache.ts';
import type { CountedRun, DatabaseRole } from './caller-pool.ts';

/** A statement text under one role. */
export type StatementShape = {
  /** Name of the prepared statement, which is unique for text and role. */
  readonly name: string;
  readonly role: DatabaseRole;
  /** The statement text without values. */
  readonly text: string;
  readonly calls: number;
  readonly totalMs: number;
  /** Number of rows returned or changed. */
  readonly rows: number;
};

type Counted = { -readonly [Key in keyof StatementShape]: StatementShape[Key] };

const MAX_SHAPES = 500;
const MAX_TEXT_CHARS = 2_000;

export class StatementCounts {
  readonly since = new Date();
  /** Counts keyed by name. The cache evicts shapes that ran once before frequent ones. */
  readonly #shapes = new Cache<string, Counted>(MAX_SHAPES);
  #met = 0;

  get shapes(): readonly StatementShape[] {
    return this.#shapes.values();
  }

  /** Number of evicted shapes. */
  get left(): number {
    return this.#met - this.#shapes.size;
  }

  readonly count = ({ name, role, text, ms, rows }: CountedRun): void => {
    const known = this.#shapes.get(name);
    if (known === undefined) {
      this.#met += 1;
      this.#shapes.set(name, { name, role, text: kept(text), calls: 1, totalMs: ms, rows });
      return;
    }
    known.calls += 1;
    known.totalMs += ms;
    known.rows += rows;
  };
}

/** Copies the text, because a slice would keep the whole string in memory. */
function kept(text: string): string {
  if (text.length <= MAX_TEXT_CHARS) return text;
  return `${Buffer.from(text.slice(0, MAX_TEXT_CHARS)).toString()}…`;
}
