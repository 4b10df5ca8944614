// One statement of a plan with everything a person or the gate needs to know about it before it runs.

export type Hazard =
  | 'DATA_LOSS'
  | 'DATA_DEPENDENT'
  | 'REWRITE'
  | 'LONG_LOCK'
  | 'WRITE_BLOCK'
  | 'BREAKS_OLD_CODE'
  | 'AUTHZ_OPEN'
  | 'AUTHZ_CHANGE'
  | 'AUTHZ_NARROW'
  | 'SEMANTIC'
  | 'FOREIGN_DEP'
  | 'INDEX_BUILD'
  | 'INDEX_DROPPED'
  | 'NON_TX';

export type Lock =
  | 'none'
  | 'AccessShare'
  | 'RowExclusive'
  | 'ShareUpdateExclusive'
  | 'Share'
  | 'ShareRowExclusive'
  | 'AccessExclusive';

/**
 * `metadata`: one transaction for all. `online`: a transaction of its own, while others write. `concurrent`: outside
 * any transaction. A start waits for these three up to its budget; the rest is done while the server serves:
 * `beside` prepares what `swap` puts in place in one transaction, and `background` follows.
 */
export type Lane = 'metadata' | 'online' | 'concurrent' | 'shadow' | 'cutover' | 'background';

/** In the order in which they run. */
export const LANES: readonly Lane[] = ['metadata', 'online', 'concurrent', 'shadow', 'cutover', 'background'];

export type Step = {
  readonly sql: string;
  readonly lane: Lane;
  readonly phase: number;
  /** `tables.todos.fields.title`; also what allow flags name. */
  readonly identity: string;
  /** Where in the file. */
  readonly at: string;
  readonly sign: '+' | '~' | '-';
  readonly summary: string;
  /** `schema.table` the lock is on, or null. */
  readonly table: string | null;
  readonly lock: Lock;
  readonly rewrites: boolean;
  readonly scans: boolean;
  readonly estimateMs: number;
  readonly hazards: readonly Hazard[];
  readonly action: Action;
  /** What it is of a table, or for one, that this very run makes. */
  readonly part?: TablePart | undefined;
  /** Part of the swap, or possible only after it. */
  readonly deferred: boolean;
};

export type NumberedStep = { readonly ordinal: number; readonly step: Step };

/** Names are quoted and qualified, `sql` is the clause alone. */
export type TablePart =
  | {
      readonly kind: 'table';
      readonly table: string;
      readonly columns: ReadonlyArray<{
        readonly name: string;
        /** Name and type. */
        readonly sql: string;
        readonly notNull: boolean;
      }>;
    }
  | {
      readonly kind: 'default';
      readonly table: string;
      readonly column: string;
      readonly sql: string;
    }
  | { readonly kind: 'key' | 'check'; readonly table: string; readonly sql: string }
  | { readonly kind: 'reference'; readonly table: string; readonly target: string; readonly sql: string }
  | { readonly kind: 'grant'; readonly table: string }
  | { readonly kind: 'function'; readonly name: string };

/** What the executor must do beside sending the text. */
export type Action =
  | { readonly kind: 'sql' }
  | { readonly kind: 'build-index'; readonly schema: string; readonly label: string }
  | { readonly kind: 'drop-index'; readonly schema: string; readonly label: string }
  | {
      readonly kind: 'backfill';
      readonly schema: string;
      readonly table: string;
      readonly column: string;
      readonly value: string;
      /** Rows that need a value at all; the others are left alone. */
      readonly where?: string | undefined;
      /** The database's own triggers stay quiet: filling a column is no update anybody made. */
      readonly quiet: boolean;
    };

/** Order inside the metadata transaction. */
export const PHASE = {
  rename: 1,
  schema: 10,
  clear: 20,
  clearFunction: 25,
  columns: 30,
  types: 35,
  functions: 40,
  defaultedColumns: 45,
  defaults: 50,
  fill: 55,
  keys: 60,
  checks: 62,
  notNull: 64,
  foreignKeys: 70,
  indexes: 80,
  policies: 90,
  rowSecurity: 91,
  grants: 95,
  references: 97,
  bodies: 100,
  dropFunctions: 125,
  retire: 130,
} as const;
