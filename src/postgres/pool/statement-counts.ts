// What the statements of requests cost, by shape, for the dashboard: counted where their time is taken anyway, and kept in
// the memory of this process. A statement is known by its name, so that counting it again is one look into a map.
import { Cache } from '../../lib/cache.ts';
import type { CountedRun, DatabaseRole } from './caller-pool.ts';

/** One text, run as one role. */
export type StatementShape = {
  /** Of its prepared statement: another text or role has another. */
  readonly name: string;
  readonly role: DatabaseRole;
  /** Without its values. */
  readonly text: string;
  readonly calls: number;
  readonly totalMs: number;
  /** That it returned or touched. */
  readonly rows: number;
};

type Counted = { -readonly [Key in keyof StatementShape]: StatementShape[Key] };

const MOST_SHAPES = 500;
const LONGEST_TEXT = 2_000;

export class StatementCounts {
  readonly since = new Date();
  /** By name. Shapes that come once push out others of their kind, not those that run again and again. */
  readonly #shapes = new Cache<string, Counted>(MOST_SHAPES);
  #met = 0;

  get shapes(): readonly StatementShape[] {
    return this.#shapes.values();
  }

  /** How often a shape made room for another. */
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

/** A copy: a slice would hold on to the whole. */
function kept(text: string): string {
  if (text.length <= LONGEST_TEXT) return text;
  return `${Buffer.from(text.slice(0, LONGEST_TEXT)).toString()}…`;
}
