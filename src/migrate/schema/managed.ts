// Ownership: the objects that svc created or adopted, as recorded in the migration state. svc removes only owned
// objects. It reports other objects and does not change them.

import type { PerHost } from './rights/hosts.ts';

export type Ownership = {
  readonly types: ReadonlySet<string>;
  /** Types that left the file while other objects still used them. */
  readonly retiredTypes: ReadonlySet<string>;
  readonly tables: ReadonlyMap<string, OwnedTable>;
  /**
   * Tables that left the file and were kept, keyed by `schema.table`, with everything that the file declared for them.
   * When such a table returns to the file, objects on it that the file no longer declares are removed.
   */
  readonly retiredTables: ReadonlyMap<string, OwnedTable>;
  /** Columns that left the file and were kept, as `schema.table.column`. */
  readonly retiredColumns: ReadonlySet<string>;
  /** Keyed by `functionKey`. */
  readonly functions: ReadonlyMap<string, OwnedFunction>;
  readonly retiredFunctions: ReadonlySet<string>;
  /** Labels of policies on the tables of svc. */
  readonly hosted: PerHost<ReadonlySet<string>>;
  /** Labels of triggers on auth.users. */
  readonly userTriggers: ReadonlySet<string>;
  readonly extensions: ReadonlySet<string>;
  readonly retiredExtensions: ReadonlySet<string>;
  readonly sequences: ReadonlySet<string>;
  /** Sequences that left the file. They are kept, because they record which numbers were used. */
  readonly retiredSequences: ReadonlySet<string>;
  /** Keyed by identity. Retired objects left the file while other objects still used them. */
  readonly statements: ReadonlyMap<string, 'managed' | 'retired'>;
  readonly views: ReadonlySet<string>;
  /** Triggers on views, as `viewTriggerKey`. Absent if there are none. */
  readonly viewTriggers?: ReadonlySet<string>;
};

export type OwnedFunction = {
  readonly schema: string;
  readonly name: string;
  /** Argument types, which identify an overload. Null if the state does not record them. */
  readonly argumentTypes: readonly string[] | null;
  /** Roles had EXECUTE, but the API did not serve the function. */
  readonly hidden?: boolean;
};

export function viewTriggerKey(view: string, label: string): string {
  return `${view} ${label}`;
}

export type OwnedTable = {
  readonly columns: readonly string[];
  /** Labels of keys, foreign keys and checks. */
  readonly constraints: readonly string[];
  readonly indexes: readonly string[];
  readonly policies: readonly string[];
  readonly triggers?: readonly string[] | undefined;
  /** Names of listed partitions. */
  readonly partitions?: readonly string[] | undefined;
  /**
   * The table existed before svc, no API role had a privilege on it, and the file has no `rls` key for it. It gets no
   * grants until the file declares `rls` or `grants`.
   */
  readonly closed?: boolean | undefined;
  /** Policies that existed before svc. `auth.uid()` in them is not replaced by `(select auth.uid())`. */
  readonly asFound?: readonly string[] | undefined;
  /**
   * Attributes that the file sets and that are reset when they leave the file: `comment`, `comment title`, `collate
   * title`, `published` and `identity` (realtime), `unlogged`, `with fillfactor`. `partitioned` is recorded but never
   * reset.
   */
  readonly attributes?: readonly string[] | undefined;
  /** Columns with an unfinished backfill, with the SQL expression for the value. */
  readonly fills?: Readonly<Record<string, string>> | undefined;
};

export const NO_OWNED_TABLE: OwnedTable = { columns: [], constraints: [], indexes: [], policies: [] };

/** Returns the owned parts of a managed or retired table. */
export function ownedTable(owned: Ownership, key: string): OwnedTable {
  return owned.tables.get(key) ?? owned.retiredTables.get(key) ?? NO_OWNED_TABLE;
}
