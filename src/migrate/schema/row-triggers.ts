// The two triggers that the file asks for without naming one: columns that follow each update of their row, and a row for
// each new user. Both functions are in svc_meta, one a table; their comments say what the file said, for `pull`.
import { quoteIdent } from '../../postgres/sql.ts';
import { expression, type Expression } from './expression.ts';
import { newUserLabel, shortHash } from './label.ts';
import { keyOf, nameOf, type SchemaModel, type TableModel } from './model.ts';
import { isConstantTime } from '../../lib/sql/sql-text.ts';

/** A trigger with a function of its own. */
export type RowTrigger = {
  readonly label: string;
  /** `svc_meta.on_update_0123abcd` */
  readonly fn: string;
  /** Of the function, up to its body. */
  readonly attributes: string;
  readonly body: string;
  readonly comment: string;
  /** Up to and without EXECUTE. */
  readonly head: string;
  /** What the user wrote, by column. */
  readonly values: ReadonlyArray<{ readonly column: string; readonly expression: Expression }>;
  readonly at: string;
};

export type NewUserTrigger = RowTrigger & {
  readonly table: { readonly schema: string; readonly name: string };
  readonly when: Expression | null;
};

export const ON_UPDATE = 'svc_on_update';

/** While it is `on`, rows change by migrations: `svc_on_update` stays silent. */
export const BACKFILL_SETTING = 'svc.backfill';

export function onUpdateOf(table: TableModel): RowTrigger | null {
  const values = table.columns.flatMap(({ name, onUpdate, at }) =>
    onUpdate === undefined ? [] : [{ column: name, expression: expression(onUpdate, `${at}.on_update`) }],
  );
  if (values.length === 0) return null;
  const assignments = values.map(
    (one) => `  new.${quoteIdent(one.column)} := (\n${one.expression.sql}\n);\n`,
  );
  // What pg_catalog has is found anyway, and setting a search path costs time for each row.
  const needsPath = values.some((one) => !isConstantTime(one.expression.sql));
  // A trigger before the update does not know the new values of generated columns, and its condition may not name them.
  const generated = table.columns.filter((column) => column.generated !== undefined);
  const unknown = generated.map(({ name }) => `  new.${quoteIdent(name)} := old.${quoteIdent(name)};\n`);
  const isUnchanged = unknown.length > 0 ? '  if not old.* *<> new.* then return new; end if;\n' : '';
  // By bytes: not every type has an equality.
  const hasChanged = unknown.length > 0 ? '' : 'old.* *<> new.* and ';
  return {
    label: ON_UPDATE,
    fn: `svc_meta.on_update_${shortHash(keyOf(table), 8)}`,
    attributes: needsPath
      ? 'returns trigger language plpgsql set search_path = public, extensions'
      : 'returns trigger language plpgsql',
    body: `begin\n${unknown.join('')}${isUnchanged}${assignments.join('')}  return new;\nend`,
    comment: JSON.stringify(Object.fromEntries(values.map((one) => [one.column, one.expression.written]))),
    head: `before update on ${nameOf(table)} for each row when (${hasChanged}current_setting('${BACKFILL_SETTING}', true) is distinct from 'on')`,
    values,
    at: table.at,
  };
}

/** What an expression of `on_new_user` sees of the user, and the type of each. */
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

/** A user whose every column is null, as a FROM item: what the server checks the expressions with. */
export const NO_USER = `(select ${Object.entries(USER_COLUMNS)
  .map(([name, type]) => `null::${type} as ${name}`)
  .join(', ')}) as new_user`;

export function newUsersOf(model: SchemaModel): NewUserTrigger[] {
  return model.tables.flatMap((table) => newUserOf(table) ?? []);
}

export function newUserOf(table: TableModel): NewUserTrigger | null {
  if (table.onNewUser === undefined) return null;
  const { set, when, at } = table.onNewUser;
  const values = Object.entries(set).map(([column, text]) => ({
    column,
    expression: expression(text, `${at}.${column}`),
  }));
  const condition = when === null ? null : expression(when, `${at}.when`);
  const insert = [
    `insert into ${nameOf(table)} (${values.map((one) => quoteIdent(one.column)).join(', ')})`,
    `select ${values.map((one) => `(\n${one.expression.sql}\n)`).join(', ')}`,
    `from (select ${NAMES.map((name) => `new.${name}`).join(', ')}) as new_user`,
    ...(condition === null ? [] : [`where (\n${condition.sql}\n)`]),
    'on conflict do nothing;',
  ].join('\n');
  return {
    table,
    label: newUserLabel(table.name),
    fn: `svc_meta.new_user_${shortHash(keyOf(table), 8)}`,
    attributes: `returns trigger language plpgsql security definer set search_path = ''`,
    body: `#variable_conflict use_column\nbegin\n${insert}\nreturn null;\nend`,
    comment: JSON.stringify({ table: keyOf(table), set, when }),
    head: 'after insert on auth.users for each row',
    values,
    when: condition,
    at,
  };
}

/** How the server prints the call at the end of a trigger. */
export function callOf({ fn }: RowTrigger): string {
  return `EXECUTE FUNCTION ${fn}()`;
}

/** The function of a trigger that svc made, by the trigger's print. */
export function functionOf(definition: string): string | null {
  return /EXECUTE FUNCTION (svc_meta\.(?:on_update|new_user)_[0-9a-f]{8})\(\)$/.exec(definition)?.[1] ?? null;
}
