// Input and output of the comparison of one table.
import type { Change } from './change.ts';
import type { DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import type { OwnedTable, Ownership } from '../schema/managed.ts';

/** Object on a managed table that the file does not declare and that svc does not own. */
export type Unmanaged = {
  readonly table: string;
  readonly what: 'column' | 'constraint' | 'index' | 'policy' | 'partition' | 'function';
  readonly name: string;
};

/** Objects of a table that belong to the file, by the labels that they have after the run. */
export type Claim = Readonly<Record<'columns' | 'constraints' | 'indexes' | 'policies', string[]>> & {
  closed: boolean;
  asFound?: readonly string[];
  attributes?: readonly string[];
  triggers?: readonly string[];
  partitions?: readonly string[];
};

/** `body`: the body of an atomic function is replaced by text and restored. The function is not dropped. */
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

/** Objects that are dropped and created again because an object that they depend on changes, as `rebuildKey`. */
export type Rebuild = ReadonlySet<string>;

/**
 * Returns a key for a rebuilt object. For functions and bodies, `table` is empty and `label` is the oid. For
 * statements, `label` is the address. For views, `label` is empty.
 */
export function rebuildKey(kind: RebuildKind | 'key' | 'foreign key', table: string, label: string): string {
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
  /** Columns of all tables, as `schema.table.column`, whose foreign keys are dropped and added again. */
  readonly changingColumns: ReadonlySet<string>;
  /** Printed names of the declared enum types. */
  readonly enums: ReadonlySet<string>;
  readonly changes: Change[];
  readonly unmanaged: Unmanaged[];
  readonly claim: Claim;
};
