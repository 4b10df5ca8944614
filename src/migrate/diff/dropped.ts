// What a change takes away, so that others can tell whether something in their way is gone by then.
import { keyOf } from '../schema/model.ts';
import { USERS } from '../schema/triggers.ts';
import type { LiveFunction } from '../schema/live/live-schema.ts';
import type { Change } from './change.ts';
import { rebuildKey, type RebuildKind } from './table-diff.ts';

export type Dropped = {
  readonly kind: RebuildKind | 'key' | 'foreign key';
  /** `schema.table`; empty for a function. */
  readonly table: string;
  readonly label: string;
};

export function droppedBy(change: Change): Dropped | null {
  const table = 'table' in change ? keyOf(change.table) : '';
  switch (change.kind) {
    case 'drop-policy':
      return { kind: 'policy', table, label: change.policy.label };
    case 'drop-hosted-policy':
      return { kind: 'policy', table: change.host, label: change.policy.label };
    case 'drop-check':
      return { kind: 'check', table, label: change.check.label };
    case 'add-check':
      return change.replaces && { kind: 'check', table, label: change.replaces.label };
    case 'drop-default':
      return { kind: 'default', table, label: change.column.name };
    case 'drop-index':
      return { kind: 'index', table, label: change.index.label };
    // It goes with its index, which has its name.
    case 'drop-exclusion':
      return { kind: 'index', table, label: change.exclusion.label };
    case 'drop-view-index':
      return { kind: 'index', table: keyOf(change.live), label: change.index.label };
    case 'drop-key':
      return { kind: 'key', table, label: change.key.label };
    case 'drop-foreign-key':
      return { kind: 'foreign key', table, label: change.foreignKey.label };
    case 'drop-trigger':
      return { kind: 'trigger', table, label: change.trigger.label };
    case 'drop-view-trigger':
      return { kind: 'trigger', table: keyOf(change.live), label: change.trigger.label };
    case 'drop-user-trigger':
      return { kind: 'trigger', table: USERS, label: change.trigger.label };
    case 'drop-retired':
      return { kind: change.what, table: keyOf(change.home), label: change.label };
    case 'recreate-view':
    case 'drop-view':
      return { kind: 'view', table: keyOf(change.live), label: '' };
    case 'recreate-function':
    case 'drop-function':
      return change.live && { kind: 'function', table, label: change.live.oid };
    case 'recreate-statement':
    case 'drop-statement':
      return { kind: 'statement', table: '', label: change.live.address };
    default:
      return null;
  }
}

/** The function whose body lets go of what it uses before anything of that changes. */
export function releasedBy(change: Change): LiveFunction | null {
  const isReleased =
    change.kind === 'replace-function' ||
    change.kind === 'recreate-function' ||
    change.kind === 'drop-function';
  return isReleased && change.live?.atomic ? change.live : null;
}

/** As `rebuildKey`s: what the changes drop of what can be rebuilt. */
export function droppedKeys(changes: readonly Change[]): ReadonlySet<string> {
  return new Set(
    changes.flatMap((change) => {
      const one = droppedBy(change);
      const body = releasedBy(change);
      const released = body ? [rebuildKey('body', '', body.oid)] : [];
      if (one === null || one.kind === 'key' || one.kind === 'foreign key') return released;
      return [rebuildKey(one.kind, one.table, one.label), ...released];
    }),
  );
}
