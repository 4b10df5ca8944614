// What the comparison of one table works with and what it fills in.
import type { Change } from './change.ts';
import type { DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import type { OwnedTable, Ownership } from '../schema/managed.ts';

/** Something the database has on a managed table that the file does not declare and the engine did not make. */
export type Unmanaged = {
  readonly table: string;
  readonly what: 'column' | 'constraint' | 'index' | 'policy' | 'partition' | 'function';
  readonly name: string;
};

/** What of a table is the file's, by the labels it has or will have. */
export type Claim = Readonly<Record<'columns' | 'constraints' | 'indexes' | 'policies', string[]>> & {
  closed: boolean;
  asFound?: readonly string[];
  attributes?: readonly string[];
  triggers?: readonly string[];
  partitions?: readonly string[];
};

/** `body`: the body of a function lets go of what it uses, and is made again; the function stays. */
export type RebuildKind =
  | 'policy'
  | 'check'
  | 'index'
  | 'default'
  | 'function'
  | 'body'
  | 'trigger'
  | 'view'
  | 'statement';

/** Objects that must be dropped and made again because something they depend on changes: keys of `rebuildKey`. */
export type Rebuild = ReadonlySet<string>;

/** A function and its body go by its oid, a statement by its address, as `label` of no table; a view is a table without a label. */
export function rebuildKey(kind: RebuildKind, table: string, label: string): string {
  return `${kind} ${table} ${label}`;
}

export type TableDiff = {
  readonly table: DesiredTable;
  readonly live: LiveTable;
  /** `schema.table` */
  readonly key: string;
  readonly owned: OwnedTable;
  readonly ownership: Ownership;
  readonly rebuild: Rebuild;
  readonly serverVersion: number;
  /** `schema.table.column` of all tables whose foreign keys must be dropped meanwhile. */
  readonly unsettled: ReadonlySet<string>;
  readonly changes: Change[];
  readonly unmanaged: Unmanaged[];
  readonly claim: Claim;
};
