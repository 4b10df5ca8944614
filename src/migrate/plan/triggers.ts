// Statements for declared triggers. CREATE OR REPLACE keeps a trigger active while it changes. Constraint triggers are
// dropped and created again.
import type { LiveTrigger } from '../schema/triggers.ts';
import { quoteIdent } from '../../postgres/sql.ts';
import { quoteName } from '../schema/model.ts';
import {
  createTriggerSql,
  type DesiredTrigger,
  enableTriggerSql,
  isConstraintTrigger,
  triggerTimingSql,
  USERS,
} from '../schema/triggers.ts';
import { type Draft, onTable, type Planners } from './step-list.ts';

export const TRIGGERS = {
  'set-trigger': (steps, { table, live, ...change }) => {
    const on = onTable(table);
    steps.add({ ...on, table: live ? on.table : null, ...setTrigger(change, quoteName(table)) });
  },
  'drop-trigger': (steps, { table, ...change }) =>
    steps.add({ ...onTable(table), ...dropTrigger(change, quoteName(table)) }),
  'set-view-trigger': (steps, { view, live: _live, ...change }) =>
    steps.add({ identity: view.at, ...setTrigger(change, quoteName(view)) }),
  'drop-view-trigger': (steps, { view, live: _live, ...change }) =>
    steps.add({ identity: view.at, ...dropTrigger(change, quoteName(view)) }),
  'set-user-trigger': (steps, change) =>
    steps.add({ identity: change.trigger.at, table: USERS, ...setTrigger(change, USERS) }),
  'drop-user-trigger': (steps, change) =>
    steps.add({ identity: 'auth.triggers', table: USERS, ...dropTrigger(change, USERS) }),
} satisfies Partial<Planners>;

type Setting = {
  readonly trigger: DesiredTrigger;
  readonly found: LiveTrigger | null;
  readonly isRemade: boolean;
};
type Drop = { readonly trigger: LiveTrigger; readonly next: DesiredTrigger | null };

function setTrigger(
  { trigger, found, isRemade }: Setting,
  relation: string,
): Omit<Draft, 'identity' | 'table'> {
  const { label, model, definition, state } = trigger;
  const there = isRemade ? null : found;
  const isOnlySwitched = there?.definition === definition;
  const isInTheWay =
    there !== null && (model.constraint !== undefined || isConstraintTrigger(there.definition));
  // New triggers are enabled.
  const isSwitched = there !== null || state !== 'O';
  const sql = [
    ...(isInTheWay && !isOnlySwitched ? [dropTriggerSql(label, relation)] : []),
    ...(isOnlySwitched ? [] : [createTriggerSql(trigger, relation)]),
    ...(isSwitched ? [enableTriggerSql(trigger, relation)] : []),
  ];
  return {
    at: trigger.at,
    sql: sql.join('; '),
    stage: 'references',
    sign: found ? '~' : '+',
    summary: isOnlySwitched ? `trigger ${label}: ${SAID[state]}` : summaryOf(trigger),
    lock: isInTheWay && !isOnlySwitched ? 'AccessExclusive' : 'ShareRowExclusive',
  };
}

const SAID = {
  O: 'on again',
  D: 'off',
  R: 'on for replicated rows only',
  A: 'on for replicated rows too',
} as const;

function summaryOf({ label, model }: DesiredTrigger): string {
  return `trigger ${label}: ${triggerTimingSql(model)}, ${model.call.name}`;
}

function dropTrigger({ trigger, next }: Drop, relation: string): Omit<Draft, 'identity' | 'table'> {
  return {
    sql: dropTriggerSql(trigger.label, relation),
    stage: 'drop-dependants',
    sign: '-',
    summary: `trigger ${trigger.label}${next ? ': made again below' : ''}`,
  };
}

function dropTriggerSql(label: string, relation: string): string {
  return `drop trigger ${quoteIdent(label)} on ${relation}`;
}
