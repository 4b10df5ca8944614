// What the engine made or took over, as the migration state records it. Only owned things are ever removed; anything else
// in the database is reported and left alone.

import type { PerHost } from './rights/hosts.ts';

export type Ownership = {
  readonly types: ReadonlySet<string>;
  /** Types that left the file while something still used them. */
  readonly retiredTypes: ReadonlySet<string>;
  readonly tables: ReadonlyMap<string, OwnedTable>;
  /**
   * By `schema.table`: tables that left the file and were kept, with all the file declared of them. When one comes back,
   * what it still has and the file no longer declares must go.
   */
  readonly retiredTables: ReadonlyMap<string, OwnedTable>;
  /** `schema.table.column`, likewise. */
  readonly retiredColumns: ReadonlySet<string>;
  /** By `functionKey`. */
  readonly functions: ReadonlyMap<string, OwnedFunction>;
  readonly retiredFunctions: ReadonlySet<string>;
  /** Labels. */
  readonly hosted: PerHost<ReadonlySet<string>>;
  /** Labels of triggers on auth.users. */
  readonly userTriggers: ReadonlySet<string>;
  readonly extensions: ReadonlySet<string>;
  readonly retiredExtensions: ReadonlySet<string>;
  readonly sequences: ReadonlySet<string>;
  /** Sequences that left the file; they know which numbers were given. */
  readonly retiredSequences: ReadonlySet<string>;
  /** By identity. What is retired left the file while something still used it. */
  readonly statements: ReadonlyMap<string, 'managed' | 'retired'>;
  readonly views: ReadonlySet<string>;
  /** Triggers on views, as `viewTriggerKey`s; absent without any. */
  readonly viewTriggers?: ReadonlySet<string>;
};

export type OwnedFunction = {
  readonly schema: string;
  readonly name: string;
  /** By which the server tells it from others of its name; null where the state does not know. */
  readonly argumentTypes: readonly string[] | null;
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
  /** Names of those that the file lists. */
  readonly partitions?: readonly string[] | undefined;
  /**
   * It came with the database, no API role could reach it, and the file has no `rls` key for it: it stays closed until
   * the file says who may see it.
   */
  readonly closed?: boolean | undefined;
  /** Policies that came with the database: `auth.uid()` in them stays as it was found. */
  readonly asFound?: readonly string[] | undefined;
  /**
   * What the file set and what is taken back with it: `comment`, `comment title`, `collate title`; `published` and
   * `identity`, of a table that tells of its changes; `unlogged` and `with fillfactor`; `partitioned`,
   * which is never taken back.
   */
  readonly attributes?: readonly string[] | undefined;
  /** Columns whose backfill had not ended when the last run did, with the value each row gets. */
  readonly fills?: Readonly<Record<string, string>> | undefined;
};

export const NO_OWNED_TABLE: OwnedTable = { columns: [], constraints: [], indexes: [], policies: [] };

/** What is owned of a table that is or once was declared. */
export function ownedOf(owned: Ownership, key: string): OwnedTable {
  return owned.tables.get(key) ?? owned.retiredTables.get(key) ?? NO_OWNED_TABLE;
}
