// One statement of a plan, with the facts that a reviewer and the hazard policy need.

export type Hazard =
  | 'DATA_LOSS'
  | 'DATA_DEPENDENT'
  | 'REWRITE'
  | 'BREAKS_OLD_CODE'
  | 'AUTHZ_OPEN'
  | 'AUTHZ_CHANGE'
  | 'AUTHZ_NARROW'
  | 'SEMANTIC'
  | 'INDEX_BUILD'
  | 'INDEX_DROPPED'
  | 'NON_TX';

/** Meaning of a hazard for a reviewer. Null if another part of the line states it. */
export const HAZARD_TEXTS: Readonly<Record<Hazard, string | null>> = {
  DATA_LOSS: 'loses data',
  DATA_DEPENDENT: 'fails if rows do not fit',
  REWRITE: null,
  BREAKS_OLD_CODE: 'breaks clients of the previous file',
  AUTHZ_OPEN: 'opens access',
  AUTHZ_CHANGE: 'changes access',
  AUTHZ_NARROW: 'restricts access',
  SEMANTIC: 'can change values',
  INDEX_BUILD: 'builds an index',
  INDEX_DROPPED: 'drops an index',
  NON_TX: null,
};

export type Lock =
  | 'none'
  | 'RowExclusive'
  | 'ShareUpdateExclusive'
  | 'Share'
  | 'ShareRowExclusive'
  | 'AccessExclusive';

/**
 * Lanes in the order in which they run. `values`: new values of enum types, which must be committed before a
 * statement uses them. `metadata`: one transaction. `online`: one transaction per step, concurrently with writes.
 * `concurrent`: outside of transactions. A start waits for these lanes up to its budget. The other lanes run while
 * the server serves: `shadow` builds columns of a new type, `cutover` replaces the old columns in one transaction,
 * and `background` follows.
 */
export const LANES = [
  'values',
  'metadata',
  'online',
  'concurrent',
  'shadow',
  'cutover',
  'background',
] as const;

export type Lane = (typeof LANES)[number];

/** When a step runs, for a reviewer. */
export const LANE_TEXTS: Readonly<Record<Lane, string>> = {
  values: 'before the transaction',
  metadata: 'in the transaction',
  online: 'online',
  concurrent: 'concurrently',
  shadow: 'in the background',
  cutover: 'in the last transaction',
  background: 'in the background',
};

/** Returns whether a step of this lane runs after the `metadata` transaction. */
export function isAfterMetadata(lane: Lane): boolean {
  return LANES.indexOf(lane) > LANES.indexOf('metadata');
}

export type Step = {
  readonly sql: string;
  readonly lane: Lane;
  readonly stage: Stage;
  /** `tables.todos.fields.title`, as in `--allow` flags. */
  readonly identity: string;
  /** Place in the file. */
  readonly at: string;
  readonly sign: '+' | '~' | '-';
  readonly summary: string;
  /** `schema.table` of the lock, or null. */
  readonly table: string | null;
  /** Other tables with the same lock: targets of foreign keys, and tables with columns of a domain. */
  readonly otherTables: readonly string[];
  readonly lock: Lock;
  readonly rewrites: boolean;
  readonly scans: boolean;
  readonly estimateMs: number;
  readonly hazards: readonly Hazard[];
  readonly action: Action;
  /** Part of the cutover, or possible only after it. */
  readonly deferred: boolean;
};

/** Returns the tables that a step locks, as `schema.table`. */
export function lockedTables({ table, otherTables, lock }: Step): readonly string[] {
  if (lock === 'none') return [];
  return table === null ? otherTables : [table, ...otherTables];
}

export type NumberedStep = { readonly ordinal: number; readonly step: Step };

/** Work of the executor in addition to the statement. */
export type Action =
  | { readonly kind: 'sql' }
  | { readonly kind: 'build-index' | 'drop-index'; readonly schema: string; readonly label: string }
  | {
      readonly kind: 'backfill';
      readonly schema: string;
      readonly table: string;
      readonly column: string;
      readonly value: string;
      /** Restricts it to rows that need a value. */
      readonly where?: string | undefined;
      /** Suppresses triggers, because a backfill is not an update by a user. */
      readonly quiet: boolean;
      /** Realtime skips these updates, because they do not change any visible value. */
      readonly isCopy?: boolean | undefined;
    };

/** Order within a lane. Steps of one stage keep the order in which they were planned. */
export const STAGES = [
  'rename',
  'schemas',
  /** Before the tables that use their types. */
  'extensions',
  'functions-of-ranges',
  'new-types',
  /** Policies, checks, defaults, triggers and foreign keys: before the columns, keys and functions they depend on. */
  'drop-dependants',
  'drop-keys',
  'drop-functions-of-views',
  /** Views may call the functions that are dropped later. */
  'drop-views',
  /** Aggregates and operators before the functions that they call. */
  'drop-statements',
  'drop-former-functions',
  /** Collations, range types and text search objects that are created again. New ones belong to `new-types`. */
  'base-statements',
  'columns',
  /** Includes keys on columns of a new type, because foreign keys follow. */
  'types',
  /** Arguments and results may be rows of tables. `function-bodies` checks the bodies. */
  'functions',
  /** Aggregates, operators and casts. */
  'statements',
  /** Columns whose default calls a function. Existing rows get the default only if the column is added with it. */
  'columns-with-default',
  'defaults',
  'backfill',
  /** Includes unique indexes, because foreign keys may refer to them. */
  'keys',
  'checks',
  'not-null',
  /** Identity columns must be NOT NULL. */
  'identity',
  'foreign-keys',
  'indexes',
  /** Replaced indexes. */
  'drop-indexes',
  'rename-indexes',
  'views',
  'functions-of-views',
  /** Rules and statistics, which have no dependants. */
  'last-statements',
  /** Policies come before grants, so that a new table is never readable without them. */
  'policies',
  'row-security',
  'grants',
  'references',
  /** Tables are published only after their policies and keys exist. */
  'publication',
  'comments',
  'function-bodies',
  /** All callers are changed or dropped before. */
  'drop-functions',
  'retire',
] as const;

export type Stage = (typeof STAGES)[number];
