// Triggers that the file declares, of tables and of auth.users, as statements.
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import { expression, type Expression } from './expression.ts';
import { triggerLabel } from './label.ts';
import { nameOf, type SchemaModel, type TriggerModel } from './model.ts';

export type DesiredTrigger = {
  readonly label: string;
  readonly model: TriggerModel;
  readonly when: Expression | null;
  readonly state: TriggerState;
  /** The normal form: the server's print of the whole trigger. Empty until the server has read it. */
  readonly definition: string;
  readonly at: string;
};

export type LiveTrigger = {
  readonly label: string;
  readonly definition: string;
  readonly enabled: boolean;
  readonly state: TriggerState;
  /** Of its function. */
  readonly body: string;
  readonly comment: string | null;
};

/** When it fires, as `pg_trigger.tgenabled` says it: usually, never, for replicated rows only, always. */
export type TriggerState = 'O' | 'D' | 'R' | 'A';

/** Where the users are. They are no table of the file, so all their triggers are one declaration. */
export const USERS = 'auth.users';

const STATES = { disabled: 'D', replica: 'R', always: 'A' } as const;

export function triggersOf(table: {
  readonly name: string;
  readonly triggers?: readonly TriggerModel[];
}): DesiredTrigger[] {
  return (table.triggers ?? []).map((model) => toTrigger(table.name, model));
}

export function userTriggersOf(model: SchemaModel): DesiredTrigger[] {
  return (model.userTriggers ?? []).map((trigger) => toTrigger('users', trigger));
}

function toTrigger(table: string, model: TriggerModel): DesiredTrigger {
  return {
    label: labelOf(table, model),
    model,
    when: model.when === null ? null : expression(model.when, `${model.at}.when`),
    state: model.enabled === undefined ? 'O' : STATES[model.enabled],
    definition: '',
    at: model.at,
  };
}

export function labelOf(table: string, { name, timing, events, call }: TriggerModel): string {
  return name ?? triggerLabel(table, timing, events, call.name);
}

/** `before insert or update of title` */
export function momentOf({ timing, events, of }: TriggerModel): string {
  const named = events.map((event) =>
    event === 'update' && of !== undefined ? `update of ${of.map(quoteIdent).join(', ')}` : event,
  );
  return `${timing.replace('_', ' ')} ${named.join(' or ')}`;
}

/** `relation`: as SQL names it. What is no constraint trigger may replace another of its name. */
export function createTriggerSql({ label, model, when }: DesiredTrigger, relation: string): string {
  const { constraint, call, each, oldTable, newTable, args = [] } = model;
  const tables = [
    ...(oldTable === undefined ? [] : [`old table as ${quoteIdent(oldTable)}`]),
    ...(newTable === undefined ? [] : [`new table as ${quoteIdent(newTable)}`]),
  ];
  return [
    `create ${constraint === undefined ? 'or replace' : 'constraint'} trigger ${quoteIdent(label)}`,
    momentOf(model),
    `on ${relation}`,
    ...(constraint === undefined || constraint === 'no' ? [] : [`deferrable initially ${constraint}`]),
    ...(tables.length === 0 ? [] : [`referencing ${tables.join(' ')}`]),
    `for each ${each ?? 'row'}`,
    ...(when === null ? [] : [`when (\n${when.sql}\n)`]),
    `execute function ${nameOf(call)}(${args.map((arg) => quoteLiteral(arg)).join(', ')})`,
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

/** Of a trigger that only DROP can change. */
export function isConstraintTrigger(definition: string): boolean {
  return definition.startsWith('CREATE CONSTRAINT TRIGGER');
}
