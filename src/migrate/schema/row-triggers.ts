// Triggers for `on_update` and `on_new_user`. Each table has its own trigger functions in svc_meta. A comment on the
// function contains the declaration, which `pull` reads.
import { quoteIdent } from '../../postgres/sql.ts';
import { expression, type Expression } from './expression.ts';
import { newUserLabel, shortHash } from './label.ts';
import { objectKey, quoteName, type SchemaModel, type TableModel } from './model.ts';
import { isConstantTime } from '../../lib/sql/sql-text.ts';

/** Trigger with its function. */
export type RowTrigger = {
  readonly label: string;
  /** Name of the function: `svc_meta.on_update_0123abcd`. */
  readonly fn: string;
  /** Text of CREATE FUNCTION between the arguments and the body. */
  readonly attributes: string;
  readonly body: string;
  readonly comment: string;
  /** Text of CREATE TRIGGER before EXECUTE. */
  readonly head: string;
  /** Declared expressions by column. */
  readonly values: ReadonlyArray<{ readonly column: string; readonly expression: Expression }>;
  readonly at: string;
};

export type NewUserTrigger = RowTrigger & {
  readonly table: { readonly schema: string; readonly name: string };
  readonly when: Expression | null;
};

export const ON_UPDATE = 'svc_on_update';

/** Setting that is `on` while a migration updates rows. `svc_on_update` does not fire then. */
export const BACKFILL_SETTING = 'svc.backfill';

export function toOnUpdateTrigger(table: TableModel): RowTrigger | null {
  const values = table.columns.flatMap(({ name, onUpdate, at }) =>
    onUpdate === undefined ? [] : [{ column: name, expression: expression(onUpdate, `${at}.on_update`) }],
  );
  if (values.length === 0) return null;
  const assignments = values.map(
    (value) => `  new.${quoteIdent(value.column)} := (\n${value.expression.sql}\n);\n`,
  );
  // Functions of pg_catalog need no search path, and setting one costs time for each row.
  const needsPath = values.some((value) => !isConstantTime(value.expression.sql));
  // Generated columns have no new values in a BEFORE trigger, and the condition cannot refer to them.
  const generated = table.columns.filter((column) => column.generated !== undefined);
  const resets = generated.map(({ name }) => `  new.${quoteIdent(name)} := old.${quoteIdent(name)};\n`);
  const isUnchanged = resets.length > 0 ? '  if not old.* *<> new.* then return new; end if;\n' : '';
  // Compare the binary form, because some types have no equality operator.
  const hasChanged = resets.length > 0 ? '' : 'old.* *<> new.* and ';
  return {
    label: ON_UPDATE,
    fn: `svc_meta.on_update_${shortHash(objectKey(table), 8)}`,
    attributes: needsPath
      ? 'returns trigger language plpgsql set search_path = public, extensions'
      : 'returns trigger language plpgsql',
    body: `begin\n${resets.join('')}${isUnchanged}${assignments.join('')}  return new;\nend`,
    comment: JSON.stringify(
      Object.fromEntries(values.map((value) => [value.column, value.expression.written])),
    ),
    head:
      `before update on ${quoteName(table)} for each row when ` +
      `(${hasChanged}current_setting('${BACKFILL_SETTING}', true) is distinct from 'on')`,
    values,
    at: table.at,
  };
}

/** Columns of the user that expressions of `on_new_user` can use, with their types. */
const USER_COLUMNS = {
  id: 'uuid',
  email: 'varchar',
  phone: 'text',
  raw_user_meta_data: 'jsonb',
  raw_app_meta_data: 'jsonb',
  is_anonymous: 'boolean',
  created_at: 'timestamptz',
} as const;

const NAMES = Object.keys(USER_COLUMNS);

/** FROM item with a user whose columns are all null. The server checks expressions of `on_new_user` against it. */
export const NO_USER = `(select ${Object.entries(USER_COLUMNS)
  .map(([name, type]) => `null::${type} as ${name}`)
  .join(', ')}) as new_user`;

export function toNewUserTriggers(model: SchemaModel): NewUserTrigger[] {
  return model.tables.flatMap((table) => toNewUserTrigger(table) ?? []);
}

export function toNewUserTrigger(table: TableModel): NewUserTrigger | null {
  if (table.onNewUser === undefined) return null;
  const { set, when, at } = table.onNewUser;
  const values = Object.entries(set).map(([column, text]) => ({
    column,
    expression: expression(text, `${at}.${column}`),
  }));
  const condition = when === null ? null : expression(when, `${at}.when`);
  const insert = [
    `insert into ${quoteName(table)} (${values.map((value) => quoteIdent(value.column)).join(', ')})`,
    `select ${values.map((value) => `(\n${value.expression.sql}\n)`).join(', ')}`,
    `from (select ${NAMES.map((name) => `new.${name}`).join(', ')}) as new_user`,
    ...(condition === null ? [] : [`where (\n${condition.sql}\n)`]),
    'on conflict do nothing;',
  ].join('\n');
  return {
    table,
    label: newUserLabel(table.name),
    fn: `svc_meta.new_user_${shortHash(objectKey(table), 8)}`,
    attributes: `returns trigger language plpgsql security definer set search_path = ''`,
    body: `#variable_conflict use_column\nbegin\n${insert}\nreturn null;\nend`,
    comment: JSON.stringify({ table: objectKey(table), set, when }),
    head: 'after insert on auth.users for each row',
    values,
    when: condition,
    at,
  };
}

/** Returns the last part of the trigger as printed by the server. */
export function printedCall({ fn }: RowTrigger): string {
  return `EXECUTE FUNCTION ${fn}()`;
}

/** Returns the function of a printed trigger, or null unless svc created the function. */
export function parseTriggerFunction(definition: string): string | null {
  return /EXECUTE FUNCTION (svc_meta\.(?:on_update|new_user)_[0-9a-f]{8})\(\)$/.exec(definition)?.[1] ?? null;
}
