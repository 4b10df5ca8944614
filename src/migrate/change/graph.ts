// The graph of changes: an edge leads from the change that provides a key to each change that requires it.
import type { Change, TypeChange } from '../diff/change.ts';
import { ofKind } from '../diff/change-kinds.ts';
import { columnKey, type ObjectKey } from './object-key.ts';
import { provides, requires } from './traits.ts';

/**
 * Returns `starts`, the changes that run in the cutover, and all changes that must wait for them. Names in SQL text are
 * compared as words, so a change can wait without need.
 */
export function waitingChanges(changes: readonly Change[], starts: Iterable<Change>): ReadonlySet<Change> {
  const waiting = new Set(starts);
  if (waiting.size === 0) return waiting;
  const requiring = requiringChanges(changes);
  const add = (key: ObjectKey): void => requiring.get(key)?.forEach((change) => waiting.add(change));
  add('cutover');
  // The loop also visits the changes that it adds.
  for (const change of waiting) provides(change).forEach(add);
  return waiting;
}

function requiringChanges(changes: readonly Change[]): ReadonlyMap<ObjectKey, ReadonlySet<Change>> {
  const requiring = new Map<ObjectKey, Set<Change>>();
  const add = (key: ObjectKey, change: Change): void => {
    requiring.set(key, (requiring.get(key) ?? new Set()).add(change));
  };
  for (const change of changes) for (const key of requires(change)) add(key, change);
  for (const [key, change] of linkedTypeChanges(changes)) add(key, change);
  return requiring;
}

/** Returns edges between the columns of foreign keys: both ends change their type together. */
function linkedTypeChanges(changes: readonly Change[]): ReadonlyArray<readonly [ObjectKey, TypeChange]> {
  const typeChanges = new Map(
    ofKind(changes, 'change-type').map((change) => [columnKey(change.table, change.column.name), change]),
  );
  return ofKind(changes, 'add-foreign-key', 'drop-foreign-key').flatMap(({ table, foreignKey }) => {
    const target = { schema: foreignKey.targetSchema, name: foreignKey.targetTable };
    return foreignKey.columns.flatMap((column, index) => {
      const ends = [columnKey(table, column), columnKey(target, foreignKey.targetColumns[index] ?? '')];
      return ends.flatMap((end, n) => {
        const change = typeChanges.get(end);
        const partner = ends[1 - n];
        return change && partner ? [[partner, change] as const] : [];
      });
    });
  });
}
