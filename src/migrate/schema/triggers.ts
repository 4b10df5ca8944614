// Declared triggers of tables, views and auth.users, and their SQL.
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import { expression, type Expression } from './expression.ts';
import { triggerLabel } from './label.ts';
import { quoteName, type SchemaModel, type TriggerModel } from './model.ts';

export type DesiredTrigger = {
  readonly label: string;
  readonly model: TriggerModel;
  readonly when: Expression | null;
  readonly state: TriggerState;
  /** Normal form: the whole trigger as printed by the server. Empty before normalisation. */
  readonly definition: string;
  readonly at: string;
};

export type LiveTrigger = {
  readonly label: string;
  readonly definition: string;
  readonly enabled: boolean;
  readonly state: TriggerState;
  /** Body of the trigger function. */
  readonly body: string;
  readonly comment: string | null;
};

/** Value of `pg_trigger.tgenabled`: enabled, disabled, only for replicated rows, or always. */
export type TriggerState = 'O' | 'D' | 'R' | 'A';

/** Table of the users. The file does not declare it, so all its triggers form one declaration. */
export const USERS = 'auth.users';

const STATES = { disabled: 'D', replica: 'R', always: 'A' } as const;

export function toTriggers(table: {
  readonly name: string;
  readonly triggers?: readonly TriggerModel[];
}): DesiredTrigger[] {
  return (table.triggers ?? []).map((model) => toTrigger(table.name, model));
}

export function toUserTriggers(model: SchemaModel): DesiredTrigger[] {
  return (model.userTriggers ?? []).map((trigger) => toTrigger('users', trigger));
}

function toTrigger(table: string, model: TriggerModel): DesiredTrigger {
  return {
    label: declaredTriggerLabel(table, model),
    model,
    when: model.when === null ? null : expression(model.when, `${model.at}.when`),
    state: model.enabled === undefined ? 'O' : STATES[model.enabled],
    definition: '',
    at: model.at,
  };
}

export function declaredTriggerLabel(table: string, { name, timing, events, call }: TriggerModel): string {
  return name ?? triggerLabel(table, timing, events, call.name);
}

/** Returns text such as `before insert or update of title`. */
export function triggerTimingSql({ timing, events, of }: TriggerModel): string {
  const named = events.map((event) =>
    event === 'update' && of !== undefined ? `update of ${of.map(quoteIdent).join(', ')}` : event,
  );
  return `${timing.replace('_', ' ')} ${named.join(' or ')}`;
}

/** `relation` is a quoted name. Constraint triggers do not support OR REPLACE. */
export function createTriggerSql({ label, model, when }: DesiredTrigger, relation: string): string {
  const { constraint, call, each, oldTable, newTable, args = [] } = model;
  const tables = [
    ...(oldTable === undefined ? [] : [`old table as ${quoteIdent(oldTable)}`]),
    ...(newTable === undefined ? [] : [`new table as ${quoteIdent(newTable)}`]),
  ];
  return [
    `create ${constraint === undefined ? 'or replace' : 'constraint'} trigger ${quoteIdent(label)}`,
    triggerTimingSql(model),
    `on ${relation}`,
    ...(constraint === undefined || constraint === 'no' ? [] : [`deferrable initially ${constraint}`]),
    ...(tables.length === 0 ? [] : [`referencing ${tables.join(' ')}`]),
    `for each ${each ?? 'row'}`,
    ...(when === null ? [] : [`when (\n${when.sql}\n)`]),
    `execute function ${quoteName(call)}(${args.map((arg) => quoteLiteral(arg)).join(', ')})`,
  ].join(' ');
}

const FIRING: Record<TriggerState, string> = {
  O: 'enable',
  D: 'disable',
  R: 'enable replica',
  A: 'enable always',
};

export function enableTriggerSql({ label, state }: DesiredTrigger, relation: string): string {
  return `alter table ${relation} ${FIRING[state]} trigger ${quoteIdent(label)}`;
}

/** Returns whether a printed trigger is a constraint trigger, which cannot be replaced. */
export function isConstraintTrigger(definition: string): boolean {
  return definition.startsWith('CREATE CONSTRAINT TRIGGER');
}
