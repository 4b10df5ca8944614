// Collects the steps of a plan, fills in what a draft leaves out, and knows the sizes that decide which form a step takes.
import { quoteIdent } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { type PartitionAfter, partitionsAfter } from '../diff/partitions.ts';
import type { DesiredColumn, DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { keyOf, nameOf } from '../schema/model.ts';
import { LANES, STAGES, type Lane, type Step } from './step.ts';

export type PlanSettings = {
  /** How long writers may be held, in milliseconds; what would take longer goes online. */
  readonly maxWriteBlockMs: number;
  /** Take the direct form whatever the size: `dev`, and `--direct`. */
  readonly direct: boolean;
};

/** What only the server knows about a change; asked before planning. */
export type TableFacts = {
  /** Columns whose change would rewrite their table, by place in the file. */
  readonly rewriting: ReadonlySet<string>;
  /** Tables with rows, by `schema.table`. */
  readonly nonEmpty: ReadonlySet<string>;
  /** Columns that must be NOT NULL and hold nulls now, with a backfill to fill them. */
  readonly toBackfill: ReadonlySet<string>;
  /** Backfills that an earlier run began: the value by column. */
  readonly begunBackfills: ReadonlyMap<string, string>;
  /** This role may keep triggers quiet during a backfill. */
  readonly mayQuiet: boolean;
  /** Columns whose values may lose something by their change of type. */
  readonly losing: ReadonlySet<string>;
  /** Removed tables and columns are dropped, not retired. */
  readonly drops: boolean;
  readonly searchPath: string;
  readonly serverVersion: number;
};

// On two plain vCPUs; deliberately low, so that "small" is small everywhere.
export const SCAN_ROWS_PER_MS = 5_000;
export const BUILD_ROWS_PER_MS = 1_000;
export const REWRITE_ROWS_PER_MS = 200;
const BYTES_PER_ROW = 100;

export function estimateRows(live: LiveTable): number {
  // -1 is "never analysed"; the file size then bounds what can be in it.
  return live.estimatedRows >= 0
    ? Math.max(live.estimatedRows, live.bytes / 1_000)
    : live.bytes / BYTES_PER_ROW;
}

type OfKind<C, Kind> = C extends { readonly kind: infer Kinds } ? (Kind extends Kinds ? C : never) : never;

/** The change of a kind. */
export type ChangeOf<Kind extends Change['kind']> = OfKind<Change, Kind>;

/** By kind of change: what adds its steps. */
export type Planners = {
  readonly [Kind in Change['kind']]: (steps: StepList, change: ChangeOf<Kind>) => void;
};

/** A step that leaves out what is usual. */
export type Draft = Pick<Step, 'sql' | 'stage' | 'identity' | 'summary'> & Partial<Omit<Step, 'deferred'>>;

export function stepOf(draft: Draft, deferred = false): Step {
  const lane = draft.lane ?? 'metadata';
  return {
    at: draft.identity,
    sign: '+',
    table: null,
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

  /** `newKeys`: keys of this plan that are made by themselves, by `columnsKey`. `changes`: all of this plan. */
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

  /** What a partitioned table has once its partitions are what the file says; parents before their parts. */
  partitionsOf(live: LiveTable): readonly PartitionAfter[] {
    return partitionsAfter(live, this.#changes);
  }

  /** Where this plan makes a key that something may refer to. */
  laneOfKey(table: string, columns: readonly string[]): KeyLane | null {
    return this.#newKeys.get(columnsKey(table, columns)) ?? null;
  }

  /** Sorting is stable: steps of one lane and stage keep the order in which they were added. */
  ordered(): Step[] {
    const rank = ({ lane, stage }: Step): number =>
      LANES.indexOf(lane) * STAGES.length + STAGES.indexOf(stage);
    return this.#steps.toSorted((a, b) => rank(a) - rank(b));
  }

  /** Steps of a deferred change: they become part of the cutover, or follow it. */
  whileDeferred(plan: () => void): void {
    this.#planWhile(true, plan);
  }

  /** What of a deferred change must not wait. */
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

  /** Whether writers may be held for this long, in milliseconds. */
  isBrief(ms: number): boolean {
    return this.#settings.direct || ms <= this.#settings.maxWriteBlockMs;
  }

  isSmall(live: LiveTable | null, rate: number): boolean {
    return isSmall(live, rate, this.#settings);
  }
}

/** `concurrent`: built while others write. */
export type KeyLane = Extract<Lane, 'metadata' | 'concurrent'>;

export function columnsKey(table: string, columns: readonly string[]): string {
  return JSON.stringify([table, columns]);
}

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

/** The USING clause of a type change, where it needs one. */
export function usingOf(steps: StepList, column: DesiredColumn): string | null {
  // An implicit cast refuses values that do not fit; an explicit one truncates them.
  const cast = steps.facts.losing.has(column.at) ? `${quoteIdent(column.name)}::${column.typeSql}` : null;
  return column.model.using ?? cast;
}

export function alterColumn(
  table: { readonly schema: string; readonly name: string },
  column: { readonly name: string },
): string {
  return `alter table ${nameOf(table)} alter column ${quoteIdent(column.name)}`;
}

export function onTable(table: DesiredTable): { identity: string; table: string } {
  return { identity: table.at, table: keyOf(table) };
}

export function onColumn(table: DesiredTable, column: DesiredColumn): { identity: string; table: string } {
  return { identity: column.at, table: keyOf(table) };
}
