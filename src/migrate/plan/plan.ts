// Changes as ordered steps. Small tables take the direct form; on large ones whatever would scan, build or rewrite under
// a strong lock takes a form that does not, and leaves the blocking transaction.
import type { Change } from '../diff/change.ts';
import { keyOf } from '../schema/model.ts';
import { ACCESS } from './access.ts';
import { COLUMN_KINDS } from './column-kinds.ts';
import { COLUMNS } from './columns.ts';
import { CONSTRAINTS, isKeyIndex, isPartitioned } from './constraints.ts';
import { EXTENSIONS } from './objects/extensions.ts';
import {
  dropFormerFunctions,
  FUNCTIONS,
  functionsOfViews,
  inOrderOfCalls,
  releaseBodies,
} from './functions.ts';
import { planOnlineTypeChanges, type OnlineTypeChanges } from './types/online-type-change.ts';
import { PUBLICATIONS } from './publication.ts';
import { PARTITIONS } from './partitions.ts';
import { REMOVALS } from './removal.ts';
import { ROW_TRIGGERS } from './row-triggers.ts';
import { SEQUENCES } from './objects/sequences.ts';
import { STATEMENTS } from './objects/statements.ts';
import { TABLE_ATTRIBUTES } from './table-attributes.ts';
import { TRIGGERS } from './triggers.ts';
import { type LongFillings, MATERIALIZED } from './materialized.ts';
import { createView, dropViews, VIEWS } from './views.ts';
import {
  BUILD_ROWS_PER_MS,
  columnsKey,
  isSmall,
  type KeyLane,
  type Planners,
  type PlanSettings,
  StepList,
  type TableFacts,
} from './step-list.ts';
import type { Step } from './step.ts';
import { TYPES } from './types/types.ts';

const PLANNERS: Planners = {
  ...TYPES,
  ...COLUMNS,
  ...COLUMN_KINDS,
  ...CONSTRAINTS,
  ...ACCESS,
  ...FUNCTIONS,
  ...EXTENSIONS,
  ...SEQUENCES,
  ...STATEMENTS,
  ...ROW_TRIGGERS,
  ...TRIGGERS,
  ...VIEWS,
  ...MATERIALIZED,
  ...PUBLICATIONS,
  ...PARTITIONS,
  ...TABLE_ATTRIBUTES,
  ...REMOVALS,
};

export function planSteps(
  changes: readonly Change[],
  facts: TableFacts,
  online: OnlineTypeChanges,
  settings: PlanSettings,
  fillings: LongFillings = new Map(),
): Step[] {
  const steps = new StepList(facts, settings, newKeys(changes, settings), changes);
  const isDeferred = (change: Change): boolean => online.deferred.has(change);
  const dropped = functionsOfViews(changes);
  const isDropped = (change: Change): boolean => change.kind === 'drop-function' && dropped.has(change.live);
  const drop = (gone: readonly Change[]): void => {
    dropViews(steps, gone);
    dropFormerFunctions(steps, gone);
  };
  // Also of what is deferred: nothing is held up by a body of text, which does the same meanwhile.
  releaseBodies(steps, changes);
  drop(changes.filter((change) => !isDeferred(change)));
  steps.whileDeferred(() => drop(changes.filter(isDeferred)));
  for (const change of inOrderOfCalls(changes)) {
    if (isMadeOnline(change, online) || isDropped(change)) continue;
    const plan = (): void => {
      const ms = fillings.get(change) ?? null;
      if (change.kind === 'create-view' || change.kind === 'recreate-view')
        createView(steps, change, { ms, isSwapped: online.swapped.has(change) });
      else planChange(steps, change);
    };
    if (isDeferred(change)) steps.whileDeferred(plan);
    else plan();
  }
  planOnlineTypeChanges(steps, online);
  return steps.ordered();
}

/** Keys that are steps of their own, which a foreign key must follow. Others are there as soon as their table is. */
function newKeys(changes: readonly Change[], settings: PlanSettings): ReadonlyMap<string, KeyLane> {
  const keys = new Map<string, KeyLane>();
  for (const change of changes) {
    if (change.kind !== 'add-key' && change.kind !== 'add-index') continue;
    if (change.kind === 'add-index' && !isKeyIndex(change.index)) continue;
    const { columns } = change.kind === 'add-key' ? change.key : change.index;
    const isAtOnce = change.kind === 'add-key' && isPartitioned(change.live);
    if (!isAtOnce && !isSmall(change.live, BUILD_ROWS_PER_MS, settings))
      keys.set(columnsKey(keyOf(change.table), columns), 'concurrent');
    else if (change.kind === 'add-index') keys.set(columnsKey(keyOf(change.table), columns), 'metadata');
  }
  return keys;
}

/** The shadow column already has the type, and NOT NULL where it must. */
function isMadeOnline(change: Change, online: OnlineTypeChanges): boolean {
  const made =
    change.kind === 'change-type' || change.kind === 'set-not-null' || change.kind === 'resume-backfill';
  return made && online.columns.has(change.column.at);
}

function planChange(steps: StepList, change: Change): void {
  const plan = PLANNERS[change.kind] as (steps: StepList, change: Change) => void;
  plan(steps, change);
}
