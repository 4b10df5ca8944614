// Converts changes to ordered steps. Small tables use the direct form. On large tables, steps that would scan, build or
// rewrite under a strong lock use an online form outside of the blocking transaction.
import { columnsKey } from '../change/object-key.ts';
import type { Change } from '../diff/change.ts';
import { isKind, ofKind } from '../diff/change-kinds.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { objectKey } from '../schema/model.ts';
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
  const isDropped = (change: Change): boolean => isKind(change, 'drop-function') && dropped.has(change.live);
  const drop = (gone: readonly Change[]): void => {
    dropViews(steps, gone);
    dropFormerFunctions(steps, gone);
  };
  // Deferred functions are included: a body of text works in the same way and blocks nothing.
  releaseBodies(steps, changes);
  drop(changes.filter((change) => !isDeferred(change)));
  steps.whileDeferred(() => drop(changes.filter(isDeferred)));
  for (const change of inOrderOfCalls(changes)) {
    if (isMadeOnline(change, online) || isDropped(change)) continue;
    const plan = (): void => {
      const ms = fillings.get(change) ?? null;
      if (isKind(change, 'create-view', 'recreate-view'))
        createView(steps, change, { ms, isSwapped: online.swapped.has(change) });
      else planChange(steps, change);
    };
    if (isDeferred(change)) steps.whileDeferred(plan);
    else plan();
  }
  planOnlineTypeChanges(steps, online);
  return steps.ordered();
}

/**
 * Returns the keys that are created by separate steps, which foreign keys must follow. Others come with their table.
 */
function newKeys(changes: readonly Change[], settings: PlanSettings): ReadonlyMap<string, KeyLane> {
  const keys = new Map<string, KeyLane>();
  const isLarge = (live: LiveTable | null): boolean => !isSmall(live, BUILD_ROWS_PER_MS, settings);
  for (const { table, live, key } of ofKind(changes, 'add-key'))
    if (!isPartitioned(live) && isLarge(live))
      keys.set(columnsKey(objectKey(table), key.columns), 'concurrent');
  for (const { table, live, index } of ofKind(changes, 'add-index'))
    if (isKeyIndex(index))
      keys.set(columnsKey(objectKey(table), index.columns), isLarge(live) ? 'concurrent' : 'metadata');
  return keys;
}

/** Returns whether the online type change includes this change: the shadow column has the type and NOT NULL. */
function isMadeOnline(change: Change, online: OnlineTypeChanges): boolean {
  return (
    isKind(change, 'change-type', 'set-not-null', 'resume-backfill') && online.columns.has(change.column.at)
  );
}

function planChange(steps: StepList, change: Change): void {
  const plan = PLANNERS[change.kind] as (steps: StepList, change: Change) => void;
  plan(steps, change);
}
