// What the ledger says the engine made or took over. Only owned things are ever removed; anything else the
// database holds is somebody's own and is reported, never touched.

export type Ownership = {
  readonly tables: ReadonlyMap<string, OwnedTable>;
  /**
   * `schema.table` of tables that left the file and were kept, with all that was the file's of them: should one come
   * back, whatever it still has and the file no longer says must go.
   */
  readonly retiredTables: ReadonlyMap<string, OwnedTable>;
  /** `schema.table.column`, likewise. */
  readonly retiredColumns: ReadonlySet<string>;
  readonly functions: ReadonlySet<string>;
  readonly retiredFunctions: ReadonlySet<string>;
  readonly storagePolicies: ReadonlySet<string>;
};

export type OwnedTable = {
  readonly columns: readonly string[];
  /** Labels of keys, foreign keys and checks. */
  readonly constraints: readonly string[];
  readonly indexes: readonly string[];
  readonly policies: readonly string[];
  /**
   * It came with the database, no API role could reach it, and the file has no `rls` key for it: nobody asked for it
   * to be opened, so it stays closed until the file says something about it.
   */
  readonly closed?: boolean | undefined;
  /** Columns whose rows were being filled when the last run ended, with the value each row gets. */
  readonly fills?: Readonly<Record<string, string>> | undefined;
};

const NO_OWNED_TABLE: OwnedTable = { columns: [], constraints: [], indexes: [], policies: [] };

/** What is the file's of a table, whether it is declared now or was once. */
export function ownedOf(owned: Ownership, key: string): OwnedTable {
  return owned.tables.get(key) ?? owned.retiredTables.get(key) ?? NO_OWNED_TABLE;
}
