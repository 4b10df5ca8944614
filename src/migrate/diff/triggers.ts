// Compares triggers by name, because names determine the order in which triggers fire. An undeclared trigger is dropped
// only if an earlier file declared it.
import type { LiveTrigger } from '../schema/triggers.ts';
import { type DesiredTrigger, USERS } from '../schema/triggers.ts';
import { type Ownership, viewTriggerKey } from '../schema/managed.ts';
import { objectKey } from '../schema/model.ts';
import type { DesiredView, LiveView } from '../schema/views.ts';
import type { Change } from './change.ts';
import { type Rebuild, rebuildKey, type TableDiff } from './table-diff.ts';

export function diffTriggers({ table, live, key, owned, rebuild, changes, claim }: TableDiff): void {
  for (const trigger of table.triggers) {
    const found = live.triggers.find((candidate) => candidate.label === trigger.label) ?? null;
    const isInTheWay = rebuild.has(rebuildKey('trigger', key, trigger.label));
    if (found && isInTheWay)
      changes.push({ kind: 'drop-trigger', table, live, trigger: found, next: trigger });
    if (isInTheWay || !isSame(trigger, found))
      changes.push({ kind: 'set-trigger', table, live, trigger, found, isRemade: isInTheWay });
  }
  const labels = new Set(table.triggers.map((trigger) => trigger.label));
  for (const trigger of live.triggers) {
    if (labels.has(trigger.label) || !owned.triggers?.includes(trigger.label)) continue;
    changes.push({ kind: 'drop-trigger', table, live, trigger, next: null });
  }
  if (labels.size > 0) claim.triggers = [...labels];
}

/** Returns the labels of the file's triggers. */
export function diffUserTriggers(
  desired: readonly DesiredTrigger[],
  live: readonly LiveTrigger[],
  owned: Ownership,
  rebuild: Rebuild,
  changes: Change[],
): string[] {
  for (const trigger of desired) {
    const found = live.find((candidate) => candidate.label === trigger.label) ?? null;
    const isInTheWay = rebuild.has(rebuildKey('trigger', USERS, trigger.label));
    if (found && isInTheWay) changes.push({ kind: 'drop-user-trigger', trigger: found, next: trigger });
    if (isInTheWay || !isSame(trigger, found))
      changes.push({ kind: 'set-user-trigger', trigger, found, isRemade: isInTheWay });
  }
  const labels = new Set(desired.map((trigger) => trigger.label));
  for (const trigger of live) {
    if (labels.has(trigger.label) || !owned.userTriggers.has(trigger.label)) continue;
    changes.push({ kind: 'drop-user-trigger', trigger, next: null });
  }
  return [...labels];
}

export function diffViewTriggers(
  view: DesiredView,
  live: LiveView | null,
  owned: Ownership,
  rebuild: Rebuild,
  changes: Change[],
): void {
  const key = objectKey(view);
  view.triggers.forEach((declaredTrigger, n) => {
    const trigger = { ...declaredTrigger, definition: view.normal?.triggers?.[n] ?? '' };
    const found = live?.triggers.find(({ label }) => label === trigger.label) ?? null;
    const isRemade = rebuild.has(rebuildKey('trigger', key, trigger.label));
    if (live && found && isRemade)
      changes.push({ kind: 'drop-view-trigger', view, live, trigger: found, next: trigger });
    if (isRemade || !isSame(trigger, found))
      changes.push({ kind: 'set-view-trigger', view, live, trigger, found, isRemade });
  });
  if (live === null) return;
  const labels = new Set(view.triggers.map(({ label }) => label));
  for (const trigger of live.triggers) {
    if (labels.has(trigger.label) || !owned.viewTriggers?.has(viewTriggerKey(key, trigger.label))) continue;
    changes.push({ kind: 'drop-view-trigger', view, live, trigger, next: null });
  }
}

function isSame({ definition, state }: DesiredTrigger, found: LiveTrigger | null): boolean {
  return found !== null && found.definition === definition && found.state === state;
}
