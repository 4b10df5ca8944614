// Traits of changes to functions and triggers.
import type { ChangeOf } from '../diff/change-kinds.ts';
import { objectKey } from '../schema/model.ts';
import { USERS } from '../schema/triggers.ts';
import type { LiveFunction } from '../schema/live/live-schema.ts';
import { columnKey, newTableKey, type ObjectKey, wordKeys } from './object-key.ts';
import type { RemovedObject, TraitsByKind } from './trait-types.ts';

export const ROUTINE_TRAITS = {
  'create-function': { provides: functionName, requires: functionKeys },
  'replace-function': {
    provides: functionName,
    requires: functionKeys,
    removes: ({ live }) => removedBody(live),
  },
  'recreate-function': {
    provides: functionName,
    requires: functionKeys,
    removes: ({ live }) => removedFunction(live),
    alters: ({ live, fn }) => live && { class: 'pg_proc', oid: live.oid, number: 0, at: fn.at, goes: false },
  },
  'grant-function': { requires: functionKeys },
  // A deferred policy may still call it.
  'drop-function': { requires: () => ['cutover'], removes: ({ live }) => removedFunction(live) },
  'set-on-update': {
    requires: ({ table, trigger }) => [
      ...trigger.values.map((value) => columnKey(table, value.column)),
      ...wordKeys('name', ...trigger.values.map((value) => value.expression)),
    ],
  },
  'drop-on-update': {},
  'set-new-user': {
    requires: ({ trigger }) => [
      newTableKey(trigger.table),
      ...wordKeys('name', ...trigger.values.map((value) => value.expression), trigger.when),
    ],
  },
  'drop-new-user': {},
  'set-trigger': { requires: triggerNames },
  'drop-trigger': {
    requires: droppedTriggerNames,
    removes: ({ table, trigger }) => [{ kind: 'trigger', table: objectKey(table), label: trigger.label }],
    holds: ({ trigger }) => [trigger.definition],
  },
  'set-user-trigger': { requires: triggerNames },
  'drop-user-trigger': {
    requires: droppedTriggerNames,
    removes: ({ trigger }) => [{ kind: 'trigger', table: USERS, label: trigger.label }],
    holds: ({ trigger }) => [trigger.definition],
  },
  'set-view-trigger': { requires: (change) => [`name ${change.view.name}`, ...triggerNames(change)] },
  'drop-view-trigger': {
    requires: (change) => [`name ${change.view.name}`, ...droppedTriggerNames(change)],
    removes: ({ live, trigger }) => [{ kind: 'trigger', table: objectKey(live), label: trigger.label }],
    holds: ({ trigger }) => [trigger.definition],
  },
} satisfies Partial<TraitsByKind>;

type FunctionChange = ChangeOf<
  'create-function' | 'replace-function' | 'recreate-function' | 'grant-function'
>;

function functionName({ fn }: FunctionChange): readonly ObjectKey[] {
  return [`name ${fn.name}`];
}

function functionKeys({ fn, live }: FunctionChange): readonly ObjectKey[] {
  return [
    ...wordKeys('name', fn.head, fn.body),
    ...wordKeys('row-type', fn.head, fn.body, live?.body),
    ...wordKeys('table-name', fn.head, fn.body),
  ];
}

function removedFunction(live: LiveFunction | null): readonly RemovedObject[] {
  return live === null ? [] : [{ kind: 'function', table: '', label: live.oid }, ...removedBody(live)];
}

function removedBody(live: LiveFunction | null): readonly RemovedObject[] {
  return live?.atomic ? [{ kind: 'body', table: '', label: live.oid }] : [];
}

// A trigger and its replacement wait together. Otherwise the new trigger would be dropped after it was created.
function triggerNames({
  trigger,
  found,
  isRemade,
}: ChangeOf<'set-trigger' | 'set-user-trigger' | 'set-view-trigger'>): readonly ObjectKey[] {
  return wordKeys('name', trigger.definition, isRemade ? found?.definition : null);
}

function droppedTriggerNames({
  trigger,
  next,
}: ChangeOf<'drop-trigger' | 'drop-user-trigger' | 'drop-view-trigger'>): readonly ObjectKey[] {
  return wordKeys('name', trigger.definition, next?.definition);
}
