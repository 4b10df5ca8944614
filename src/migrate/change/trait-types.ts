// The description of one kind of change.
import type { Change } from '../diff/change.ts';
import type { ChangeOf } from '../diff/change-kinds.ts';
import { type RebuildKind, rebuildKey } from '../diff/table-diff.ts';
import type { ObjectKey, SqlText } from './object-key.ts';

/** Everything that the planner needs to know about one kind of change. A missing member means "nothing". */
export type Traits<C extends Change = Change> = {
  /** Keys that are available only after the change. */
  readonly provides?: (change: C) => readonly ObjectKey[];
  /** Keys that the change waits for if another change provides them. A change also waits for its new table. */
  readonly requires?: (change: C) => readonly ObjectKey[];
  /** Objects that the change drops, also if another object replaces them. */
  readonly removes?: (change: C) => readonly RemovedObject[];
  /** Object that PostgreSQL does not let the change drop or alter while other objects depend on it. */
  readonly alters?: (change: C) => AlteredObject | null;
  /** SQL text that stays in use until the change. */
  readonly holds?: (change: C) => readonly SqlText[];
};

export type TraitsByKind = { readonly [Kind in Change['kind']]: Traits<ChangeOf<Kind>> };

export type RemovedObject = {
  /** `body`: dependencies of a function body. The function stays. */
  readonly kind: RebuildKind | 'key' | 'foreign key' | 'exclusion';
  /** `schema.table`. Empty for functions and statements. */
  readonly table: string;
  /** Name of the object. Column of a default, oid of a function, address of a statement, empty for a view. */
  readonly label: string;
};

export type AlteredObject = {
  /** System catalog, such as `pg_class`. */
  readonly class: string;
  readonly oid: string;
  /** Number of a column. 0 for other objects, null for all columns of a view. */
  readonly number: number | null;
  /** Place in the file. */
  readonly at: string;
  /** The column is dropped and added again. */
  readonly goes: boolean;
};

/** Returns a key that is comparable to the keys of a `Rebuild`. */
export function removedKey({ kind, table, label }: RemovedObject): string {
  // An exclusion constraint is dropped with its index, which has its name.
  return rebuildKey(kind === 'exclusion' ? 'index' : kind, table, label);
}
