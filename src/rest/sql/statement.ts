// A statement under construction: numbered parameters for slots, and aliases that no name can collide with.
import type { Slot } from '../request/query.ts';

export type Statement = {
  readonly text: string;
  /** Which slot each `$n` takes. */
  readonly slots: readonly Slot[];
};

export class StatementParts {
  readonly slots: Slot[] = [];
  readonly #numbers = new Map<Slot, number>();
  readonly #taken: Set<string>;

  /** `taken`: names that occur as relations, columns or output keys and must not be shadowed. */
  constructor(taken: Iterable<string>) {
    this.#taken = new Set(taken);
  }

  param(slot: Slot): string {
    let number = this.#numbers.get(slot);
    if (number === undefined) {
      number = this.slots.push(slot);
      this.#numbers.set(slot, number);
    }
    return `$${number}`;
  }

  /** A name that occurs nowhere else in this statement. */
  alias(base: string): string {
    for (let number = 1; ; number++) {
      // PostgreSQL cuts names at 63 bytes; the number must survive.
      const name = `${base.slice(0, 40)}_${number}`;
      if (this.#taken.has(name)) continue;
      this.#taken.add(name);
      return name;
    }
  }

  statement(text: string): Statement {
    return { text, slots: this.slots };
  }
}
