// Collects the steps of a plan, completes their drafts, and estimates durations, which decide the form of a step.
import { quoteIdent } from '../../postgres/sql.ts';
import { sqlWords } from '../../lib/sql/sql-text.ts';
import { columnsKey } from '../change/object-key.ts';
import type { Change } from '../diff/change.ts';
import { type ChangeOf, ofKind } from '../diff/change-kinds.ts';
import { type PartitionAfter, partitionsAfter } from '../diff/partitions.ts';
import type { DesiredColumn, DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { objectKey, quoteName, tableKey } from '../schema/model.ts';
import type { ForeignKey } from '../schema/relation.ts';
import { LANES, lockedTables, STAGES, type Lane, type Step } from './step.ts';

export type PlanSettings = {
  /** Milliseconds for which a step may block writers. Longer steps run online. */
  readonly maxWriteBlockMs: number;
  /** Use the direct form for all sizes: `dev`, and `--direct`. */
  readonly direct: boolean;
};

/** Facts about changes that only the server knows. They are read before planning. */
export type TableFacts = {
  /** Columns whose change would rewrite their table, by place in the file. */
  readonly rewriting: ReadonlySet<string>;
  /** Tables with rows, by `schema.table`. */
  readonly nonEmpty: ReadonlySet<string>;
  /** Columns that become NOT NULL, contain nulls and have a backfill. */
  readonly toBackfill: ReadonlySet<string>;
  /** Backfills that an earlier run started: the value by column. */
  readonly begunBackfills: ReadonlyMap<string, string>;
  /** This role can suppress triggers during a backfill. */
  readonly mayQuiet: boolean;
  /** Columns whose type change may lose parts of values. */
  readonly losing: ReadonlySet<string>;
  /** Removed tables and columns are dropped, not retired. */
  readonly drops: boolean;
  readonly searchPath: string;
  readonly serverVersion: number;
};

// Measured on two vCPUs and set low, so that a small table is small on every server.
export const SCAN_ROWS_PER_MS = 5_000;
export const BUILD_ROWS_PER_MS = 1_000;
export const REWRITE_ROWS_PER_MS = 200;
/** Rows whose references are checked by a join. */
export const REFERENCE_ROWS_PER_MS = 250;
/** Rows that are filled in batches concurrently with writes, including indexes and triggers. */
export const FILL_ROWS_PER_MS = 5;
const BYTES_PER_ROW = 100;
const MAX_NEGLIGIBLE_MS = 1;

export function estimateRows(live: LiveTable): number {
  // -1 means never analysed. The size of the file then limits the number of rows.
  return live.estimatedRows >= 0
    ? Math.max(live.estimatedRows, live.bytes / 1_000)
    : live.bytes / BYTES_PER_ROW;
}

/** Functions that add the steps of a change, by its kind. */
export type Planners = {
  readonly [Kind in Change['kind']]: (steps: StepList, change: ChangeOf<Kind>) => void;
};

/** A step without its default values. */
export type Draft = Pick<Step, 'sql' | 'stage' | 'identity' | 'summary'> & Partial<Omit<Step, 'deferred'>>;

export function stepOf(draft: Draft, deferred = false): Step {
  const lane = draft.lane ?? 'metadata';
  return {
    at: draft.identity,
    sign: '+',
    table: null,
    otherTables: [],
    lock: draft.table ? 'AccessExclusive' : 'none',
    rewrites: false,
    scans: false,
    hazards: [],
    action: { kind: 'sql' },
    ...draft,
    lane: deferred ? DEFERRED_LANE[lane] : lane,
    estimateMs: Math.max(1, Math.round(draft.estimateMs ?? 1)),
    deferred,
  };
}

export class StepList {
  readonly facts: TableFacts;
  readonly #settings: PlanSettings;
  readonly #newKeys: ReadonlyMap<string, KeyLane>;
  readonly #changes: readonly Change[];
  readonly #steps: Step[] = [];
  #deferred = false;

  /** `newKeys`: keys that separate steps create, by `columnsKey`. `changes`: all changes of this plan. */
  constructor(
    facts: TableFacts,
    settings: PlanSettings,
    newKeys: ReadonlyMap<string, KeyLane>,
    changes: readonly Change[],
  ) {
    this.facts = facts;
    this.#settings = settings;
    this.#newKeys = newKeys;
    this.#changes = changes;
  }

  /** Returns the partitions of a table after this plan, parents first. */
  partitionsOf(live: LiveTable): readonly PartitionAfter[] {
    return partitionsAfter(live, this.#changes);
  }

  /** Returns the lane in which this plan creates a key, or null. */
  laneOfKey(table: string, columns: readonly string[]): KeyLane | null {
    return this.#newKeys.get(columnsKey(table, columns)) ?? null;
  }

  /** Returns the target table of a foreign key as a list. It is empty for `table` itself and for new tables. */
  targetsOf(
    { targetSchema, targetTable }: Pick<ForeignKey, 'targetSchema' | 'targetTable'>,
    table: string,
  ): readonly string[] {
    const target = tableKey(targetSchema, targetTable);
    const isNew = ofKind(this.#changes, 'create-table').some((change) => objectKey(change.table) === target);
    return isNew || target === table ? [] : [target];
  }

  /** Returns whether this plan drops a foreign key of the table, which locks both tables. */
  dropsForeignKeyOf(table: string): boolean {
    return ofKind(this.#changes, 'drop-foreign-key').some((change) => objectKey(change.table) === table);
  }

  /** Returns whether an expression calls a function of this plan. It must then follow that function. */
  callsNewFunction(expression: string): boolean {
    const words = sqlWords(expression);
    return ofKind(this.#changes, 'create-function', 'recreate-function').some(({ fn }) => words.has(fn.name));
  }

  /** Returns the steps by lane and stage. Within a stage they keep the order in which they were added. */
  ordered(): Step[] {
    const rank = ({ lane, stage }: Step): number =>
      LANES.indexOf(lane) * STAGES.length + STAGES.indexOf(stage);
    return this.#steps.toSorted((a, b) => rank(a) - rank(b));
  }

  /** Adds the steps of a deferred change to the cutover or after it. */
  whileDeferred(plan: () => void): void {
    this.#planWhile(true, plan);
  }

  /** Adds steps of a deferred change that must not wait. */
  atOnce(plan: () => void): void {
    this.#planWhile(false, plan);
  }

  get isDeferring(): boolean {
    return this.#deferred;
  }

  #planWhile(deferred: boolean, plan: () => void): void {
    const before = this.#deferred;
    this.#deferred = deferred;
    plan();
    this.#deferred = before;
  }

  add(draft: Draft): void {
    this.#steps.push(stepOf(draft, this.#deferred));
  }

  estimate(live: LiveTable | null, rate: number): number {
    return live ? estimateRows(live) / rate : 0;
  }

  /** Returns whether a step may block writers for this many milliseconds. */
  isBrief(ms: number): boolean {
    return this.#settings.direct || ms <= this.#settings.maxWriteBlockMs;
  }

  /** Returns whether a step may block readers for this many milliseconds. */
  isNegligible(ms: number): boolean {
    return this.isBrief(ms) && (this.#settings.direct || ms <= MAX_NEGLIGIBLE_MS);
  }

  isSmall(live: LiveTable | null, rate: number): boolean {
    return isSmall(live, rate, this.#settings);
  }
}

/**
 * Returns the milliseconds for which the transaction of these steps locks its tables. All locks are acquired before the
 * first statement and last until the commit.
 */
export function lockMs(steps: readonly Step[]): number {
  if (!steps.some((step) => lockedTables(step).length > 0)) return 0;
  return steps.reduce((sum, step) => sum + step.estimateMs, 0);
}

/** `concurrent`: built concurrently with writes. */
export type KeyLane = Extract<Lane, 'metadata' | 'concurrent'>;

const DEFERRED_LANE: Record<Lane, Lane> = {
  values: 'values',
  metadata: 'cutover',
  online: 'background',
  concurrent: 'background',
  shadow: 'shadow',
  cutover: 'cutover',
  background: 'background',
};

export function isSmall(live: LiveTable | null, rate: number, settings: PlanSettings): boolean {
  return live === null || settings.direct || estimateRows(live) / rate <= settings.maxWriteBlockMs;
}

/** Returns the USING clause of a type change, or null. */
export function usingOf(steps: StepList, column: DesiredColumn): string | null {
  // An implicit cast rejects values that do not fit. An explicit cast truncates them.
  const cast = steps.facts.losing.has(column.at) ? `${quoteIdent(column.name)}::${column.typeSql}` : null;
  return column.model.using ?? cast;
}

export function alterColumn(
  table: { readonly schema: string; readonly name: string },
  column: { readonly name: string },
): string {
  return `alter table ${quoteName(table)} alter column ${quoteIdent(column.name)}`;
}

export function onTable(table: DesiredTable): { identity: string; table: string } {
  return { identity: table.at, table: objectKey(table) };
}

export function onColumn(table: DesiredTable, column: DesiredColumn): { identity: string; table: string } {
  return { identity: column.at, table: objectKey(table) };
}
