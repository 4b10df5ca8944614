// The triggers of `on_update` and `on_new_user`: as the file says, switched on, and with their own functions.
import type { LiveTrigger } from '../schema/triggers.ts';
import type { Change } from './change.ts';
import { callOf, type NewUserTrigger, ON_UPDATE, type RowTrigger } from '../schema/row-triggers.ts';
import type { TableDiff } from './table-diff.ts';

export function diffOnUpdate({ table, live, changes }: TableDiff): void {
  const wanted = table.onUpdate;
  const found = live.triggers.find((one) => one.label === ON_UPDATE);
  if (found && !wanted) changes.push({ kind: 'drop-on-update', table, live, trigger: found });
  if (wanted && !isSame(wanted, found)) changes.push({ kind: 'set-on-update', table, live, trigger: wanted });
}

export function diffNewUsers(
  desired: readonly NewUserTrigger[],
  live: readonly LiveTrigger[],
  changes: Change[],
): void {
  for (const trigger of desired) {
    const found = live.find((one) => one.label === trigger.label);
    if (!isSame(trigger, found)) changes.push({ kind: 'set-new-user', trigger, isNew: found === undefined });
  }
  for (const trigger of live)
    if (!desired.some((one) => one.label === trigger.label)) changes.push({ kind: 'drop-new-user', trigger });
}

function isSame(wanted: RowTrigger, found: LiveTrigger | undefined): boolean {
  if (!found?.enabled || !found.definition.endsWith(callOf(wanted))) return false;
  return found.body === wanted.body && found.comment === wanted.comment;
}
