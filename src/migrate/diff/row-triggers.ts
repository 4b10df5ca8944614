// Compares the triggers for `on_update` and `on_new_user`, including their functions and whether they are enabled.
import type { LiveTrigger } from '../schema/triggers.ts';
import type { Change } from './change.ts';
import { printedCall, type NewUserTrigger, ON_UPDATE, type RowTrigger } from '../schema/row-triggers.ts';
import type { TableDiff } from './table-diff.ts';

export function diffOnUpdate({ table, live, changes }: TableDiff): void {
  const desired = table.onUpdate;
  const found = live.triggers.find((trigger) => trigger.label === ON_UPDATE);
  if (found && !desired) changes.push({ kind: 'drop-on-update', table, live, trigger: found });
  if (desired && !isSame(desired, found))
    changes.push({ kind: 'set-on-update', table, live, trigger: desired });
}

export function diffNewUsers(
  desired: readonly NewUserTrigger[],
  live: readonly LiveTrigger[],
  changes: Change[],
): void {
  for (const trigger of desired) {
    const found = live.find((candidate) => candidate.label === trigger.label);
    if (!isSame(trigger, found)) changes.push({ kind: 'set-new-user', trigger, isNew: found === undefined });
  }
  for (const trigger of live)
    if (!desired.some((candidate) => candidate.label === trigger.label))
      changes.push({ kind: 'drop-new-user', trigger });
}

function isSame(desired: RowTrigger, found: LiveTrigger | undefined): boolean {
  if (!found?.enabled || !found.definition.endsWith(printedCall(desired))) return false;
  return found.body === desired.body && found.comment === desired.comment;
}
