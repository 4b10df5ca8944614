// What the statements of requests cost, by shape, for the dashboard: counted where their time is taken anyway, and kept in
// the memory of this process. A statement is known by its name, so that counting it again is one look into a map.
import type { CountedRun, DatabaseRole } from './caller-pool.ts';

/** One text, run as one role. */
export type StatementShape = {
  readonly role: DatabaseRole;
  /** Without its values. */
  readonly text: string;
  readonly calls: number;
  readonly totalMs: number;
  /** That it returned or touched. */
  readonly rows: number;
};

type Counted = { -readonly [Key in keyof StatementShape]: StatementShape[Key] } & {
  /** It ran since the ring last came by. */
  isRecent: boolean;
};

const MOST_SHAPES = 500;
const LONGEST_TEXT = 4_000;

export class StatementRing {
  readonly since = new Date();
  /** By name, the one that the ring comes to next first. */
  readonly #shapes = new Map<string, Counted>();
  #left = 0;

  /** How many shapes made room for others. */
  get left(): number {
    return this.#left;
  }

  get shapes(): StatementShape[] {
    return [...this.#shapes.values()];
  }

  readonly count = ({ name, role, text, ms, rows }: CountedRun): void => {
    const known = this.#shapes.get(name);
    if (known === undefined) {
      if (this.#shapes.size >= MOST_SHAPES) this.#makeRoom();
      this.#shapes.set(name, { role, text: kept(text), calls: 1, totalMs: ms, rows, isRecent: false });
      return;
    }
    known.calls += 1;
    known.totalMs += ms;
    known.rows += rows;
    known.isRecent = true;
  };

  /** Leaves the first that did not run again since the ring was here: shapes that come once push out no others. */
  #makeRoom(): void {
    for (const [name, shape] of this.#shapes) {
      this.#shapes.delete(name);
      if (!shape.isRecent) {
        this.#left += 1;
        return;
      }
      shape.isRecent = false;
      this.#shapes.set(name, shape);
    }
  }
}

/** A copy: a slice would hold on to the whole. */
function kept(text: string): string {
  if (text.length <= LONGEST_TEXT) return text;
  return `${Buffer.from(text.slice(0, LONGEST_TEXT)).toString()}…`;
}
