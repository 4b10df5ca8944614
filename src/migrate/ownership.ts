// What the ledger says the engine made or took over. Only owned things are ever removed; anything else the
// database holds is somebody's own and is reported, never touched.

export type Ownership = {
  readonly tables: ReadonlyMap<string, OwnedTable>;
  /** `schema.table` of tables that left the file and were kept. */
  readonly retiredTables: ReadonlySet<string>;
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

export const NOTHING_OWNED: Ownership = {
  tables: new Map(),
  retiredTables: new Set(),
  retiredColumns: new Set(),
  functions: new Set(),
  retiredFunctions: new Set(),
  storagePolicies: new Set(),
};
