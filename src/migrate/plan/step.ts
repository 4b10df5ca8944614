// One statement of a plan, with all that a person or the hazard policy must know before it runs.

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

export type Lock =
  | 'none'
  | 'RowExclusive'
  | 'ShareUpdateExclusive'
  | 'Share'
  | 'ShareRowExclusive'
  | 'AccessExclusive';

/**
 * In the order in which they run. `values`: new values of enum types, which no statement may use before they are
 * committed. `metadata`: one transaction for all. `online`: a transaction each, while others write.
 * `concurrent`: outside any transaction. A start waits for these up to its budget; the rest is done while the
 * server serves: `shadow` builds columns of a new type beside the old ones, `cutover` puts them in place in one
 * transaction, and `background` follows.
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

/** Whether a step of this lane runs after the one transaction. */
export function isAfterMetadata(lane: Lane): boolean {
  return LANES.indexOf(lane) > LANES.indexOf('metadata');
}

export type Step = {
  readonly sql: string;
  readonly lane: Lane;
  readonly stage: Stage;
  /** `tables.todos.fields.title`; `--allow` flags name it, too. */
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
  /** Part of the cutover, or possible only after it. */
  readonly deferred: boolean;
};

export type NumberedStep = { readonly ordinal: number; readonly step: Step };

/** What the executor must do besides sending the text. */
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
      /** Triggers of the database do not fire: a backfill is no update that anybody made. */
      readonly quiet: boolean;
      /** No reader of the table sees a difference, so that nobody who listens to its changes is told. */
      readonly isCopy?: boolean | undefined;
    };

/** The order inside a lane; steps of one stage keep the order in which they were planned. */
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
  /** One may call the functions that go. */
  'drop-views',
  /** Aggregates and operators before the functions that they call. */
  'drop-statements',
  'drop-former-functions',
  /** Made again: collations, range types, text search. New ones are new types. */
  'base-statements',
  'columns',
  /** Keys that move to a column of the new type among them, before a foreign key refers to them. */
  'types',
  /** Their arguments and results may be rows of the tables; their bodies are checked last. */
  'functions',
  /** Aggregates, operators and casts. */
  'statements',
  /** A default may call one of the functions. Added later, it would leave the existing rows without it. */
  'columns-with-default',
  'defaults',
  'backfill',
  /** Unique indexes among them: a foreign key may refer to one. */
  'keys',
  'checks',
  'not-null',
  /** Only a column that is NOT NULL can be one. */
  'identity',
  'foreign-keys',
  'indexes',
  /** Those that others replace. */
  'drop-indexes',
  'rename-indexes',
  'views',
  'functions-of-views',
  /** Rules and statistics, on which nothing depends. */
  'last-statements',
  /** Before anybody has a grant: a new table is never readable without its policies. */
  'policies',
  'row-security',
  'grants',
  'references',
  /** After policies and keys: nobody is told of a row before its policies say who may be. */
  'publication',
  'comments',
  'function-bodies',
  /** Nothing calls them any more. */
  'drop-functions',
  'retire',
] as const;

export type Stage = (typeof STAGES)[number];
