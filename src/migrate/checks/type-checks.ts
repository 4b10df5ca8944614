// Checks the values of columns that change their type: whether each can be cast, whether a cast would lose something,
// and whether the rows still satisfy their constraints afterwards.
import { quoteIdent, quoteLiteral, raw } from '../../postgres/sql.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { groupBy } from '../../lib/group-by.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import type { Change, TypeChange } from '../diff/change.ts';
import type { DesiredCheck, DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { nameOf } from '../schema/model.ts';
import { conversionByText } from '../schema/types.ts';
import { wordsOf } from '../../lib/sql/sql-text.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import {
  clip,
  counted,
  countRows,
  countWhere,
  exampleValue,
  formatCount,
  sampleKeys,
  SAMPLES,
  sampleValues,
} from './samples.ts';
import { checkUnique, uniquesOf } from './unique-check.ts';

type LiveTypeChange = TypeChange & { readonly live: LiveTable };

export type TypeChecks = {
  /** Casts succeed, but values would be rounded or cut. */
  readonly loss: MigrationProblem | null;
  readonly others: readonly MigrationProblem[];
};

export async function checkTypeChange(
  session: Queryable,
  change: LiveTypeChange,
  converted: ConvertedRows,
): Promise<TypeChecks> {
  const removed = await checkRemovedValues(session, change);
  if (removed.length > 0) return { loss: null, others: removed };
  const casts = await checkCast(session, change);
  if (casts.others.length > 0) return casts;
  return { loss: casts.loss, others: await checkConvertedRows(session, change, converted) };
}

async function checkCast(session: Queryable, change: LiveTypeChange): Promise<TypeChecks> {
  const { table, column } = change;
  const using = column.model.using ?? `${quoteIdent(column.name)}::${column.typeSql}`;
  await session.query(raw('savepoint svc_cast'));
  try {
    await session.query(raw(`select count((\n${using}\n)::${column.typeSql}) from ${nameOf(table)}`));
  } catch (error) {
    if (!isDatabaseError(error, 'data_exception')) throw error;
    await session.query(raw('rollback to savepoint svc_cast'));
    return { loss: null, others: [await failingCasts(session, change, using)] };
  }
  const loss = column.model.using === null ? await checkLoss(session, change) : null;
  return { loss, others: loss ? [] : await checkLength(session, change, using) };
}

/** An enum that loses values: no row may hold one of them. */
async function checkRemovedValues(
  session: Queryable,
  { table, live, column, liveColumn }: LiveTypeChange,
): Promise<MigrationProblem[]> {
  const byText = conversionByText(column.name, liveColumn.type, column.typeSql);
  // The file may say what becomes of them.
  if (byText === null || column.model.using !== byText) return [];
  const name = quoteIdent(column.name);
  const type = column.typeSql.replace(/(\[\d*\])+$/, '');
  const isArray = type !== column.typeSql;
  const known = `enum_range(null::${type})::text[]`;
  const held = isArray ? `not ${name}::text[] <@ ${known}` : `${name}::text <> all (${known})`;
  return unlessUnknown(session, async () => {
    const { bad, all } = await countRows(session, table, held);
    if (bad === 0) return [];
    const { values, more } = await sampleValues(session, nameOf(table), name, held);
    const keys = await sampleKeys(session, table, live, held);
    return [
      problem(
        'MIG-204',
        column.at,
        `${formatCount(bad)} of ${formatCount(all)} rows hold a value that ${type} no longer has: ${quoted(values)}${more}${keys}`,
        `Keep the value, say under renamed_values what it is called now, or update these rows first: update ${nameOf(table)} set ${name} = … where ${isArray ? `… = any (${name})` : `${name} = ${quoteLiteral(values[0] ?? '')}`};`,
      ),
    ];
  });
}

// Casts that round or cut succeed silently: a value that a cast back does not restore would lose something.
async function checkLoss(
  session: Queryable,
  { table, live, column, liveColumn: { type: from } }: LiveTypeChange,
): Promise<MigrationProblem | null> {
  const name = quoteIdent(column.name);
  const changed = `(${name}::${column.typeSql})::${from} is distinct from ${name}`;
  await session.query(raw('savepoint svc_loss'));
  try {
    const { bad } = await countRows(session, table, changed);
    if (bad === 0) return null;
    const values = await session.query<{ value: string; after: string }>(
      raw(
        `select distinct ${name}::text as value, (${name}::${column.typeSql})::text as after from ${nameOf(table)} where ${changed} order by 1 limit ${SAMPLES}`,
      ),
    );
    const keys = await sampleKeys(session, table, live, changed);
    const shown = values.map((one) => `"${clip(one.value)}" would become "${clip(one.after)}"`).join(', ');
    return problem(
      'MIG-208',
      `${column.at}.type`,
      `${from} → ${column.type}: ${formatCount(bad)} rows would lose something (${shown})${keys}`,
      `Say that it is meant: using: "${name.replaceAll('"', '')}::${column.typeSql}", or --allow data_loss=${column.at}`,
    );
  } catch (error) {
    // Without a cast back from the new type there is nothing to compare with.
    if (!isDatabaseError(error)) throw error;
    await session.query(raw('rollback to savepoint svc_loss'));
    return null;
  }
}

// An explicit cast cuts what is too long; a value that is stored must fit.
async function checkLength(
  session: Queryable,
  { table, live, column, liveColumn: { type: from } }: LiveTypeChange,
  using: string,
): Promise<MigrationProblem[]> {
  const shape = /^(character|bit)(?: varying)?\(\d+\)((?:\[\])*)$/.exec(column.type);
  if (!shape) return [];
  const whole = `(\n${using}\n)::${shape[1] === 'bit' ? 'bit varying' : 'text'}${shape[2] ?? ''}`;
  const stored = `(\n${using}\n)::${column.typeSql}`;
  const name = quoteIdent(column.name);
  const tooLong = `rtrim((${whole})::text) is distinct from rtrim((${stored})::text)`;
  return unlessUnknown(session, async () => {
    const { bad } = await countRows(session, table, tooLong);
    if (bad === 0) return [];
    const { values } = await sampleValues(session, nameOf(table), `(${whole})`, tooLong);
    const keys = await sampleKeys(session, table, live, tooLong);
    return [
      problem(
        'MIG-208',
        `${column.at}.${column.model.using === null ? 'type' : 'using'}`,
        `${from} → ${column.type}: ${counted(bad, 'value does', 'values do')} not fit (${quoted(values)})${keys}`,
        `If cutting them is meant: using: "${column.model.using === null ? name.replaceAll('"', '') : `(${column.model.using})`}::${column.typeSql}"`,
      ),
    ];
  });
}

async function failingCasts(
  session: Queryable,
  { table, column, liveColumn: { type: from } }: LiveTypeChange,
  using: string,
): Promise<MigrationProblem> {
  // One attempt per row, each in a subtransaction of its own: slower, but it finds every value that fails.
  const attempt = `pg_temp.svc_cast_fails(svc_row)`;
  await session.query(
    raw(
      `create function pg_temp.svc_cast_fails(r ${nameOf(table)}) returns boolean language plpgsql as ${quoteLiteral(
        `begin perform (\n${using}\n)::${column.typeSql} from (select (r).*) as ${quoteIdent(table.name)}; return false; exception when data_exception then return true; end`,
      )}`,
    ),
  );
  const rows = `${nameOf(table)} svc_row`;
  const bad = await countWhere(session, rows, attempt);
  const { values, more } = await sampleValues(session, rows, quoteIdent(column.name), attempt);
  return problem(
    'MIG-208',
    `${column.at}.type`,
    `${from} → ${column.type}: ${counted(bad, 'row', 'rows')} cannot be cast (${quoted(values)}${more})`,
    `Update these rows, or say how: using: "case when … then … end"`,
  );
}

// Among these, values are equal afterwards only if they were before, and no constraint that held is violated.
const KINDRED = [/^(smallint|integer|bigint)$/, /^(text|character varying(\(\d+\))?)$/];

type Converted = {
  readonly change: LiveTypeChange;
  readonly isKindred: boolean;
  /** The rows with their new values, under the name of the table. */
  readonly rows: string;
  readonly at: string;
};

async function checkConvertedRows(
  session: Queryable,
  change: LiveTypeChange,
  converted: ConvertedRows,
): Promise<MigrationProblem[]> {
  const { table, live, column, liveColumn } = change;
  const { using } = column.model;
  const after: Converted = {
    change,
    isKindred:
      using === null && KINDRED.some((types) => types.test(liveColumn.type) && types.test(column.type)),
    rows: `${converted.rowsOf(table)} as ${quoteIdent(table.name)}`,
    at: `${column.at}.${using === null ? 'type' : 'using'}`,
  };
  const problems: MigrationProblem[] = [];
  const ask = async (check: () => Promise<MigrationProblem[]>): Promise<void> => {
    problems.push(...(await unlessUnknown(session, check)));
  };
  if (column.notNull && !(after.isKindred && liveColumn.notNull))
    await ask(() => checkConvertedNulls(session, after));
  const isKnownKey = (columns: readonly string[]): boolean =>
    [...live.keys, ...live.indexes].some(
      (one) => ('kind' in one || (one.unique && one.plain)) && one.columns.join() === columns.join(),
    );
  for (const unique of uniquesOf(table)) {
    const { columns } = unique;
    if (!columns.includes(column.name) || !columns.every((one) => live.columns.has(one))) continue;
    if (after.isKindred && unique.plain && isKnownKey(columns)) continue;
    await ask(() => checkUnique(session, table, unique, after.at, after.rows));
  }
  for (const check of table.checks) {
    const found = live.checks.find((one) => one.label === check.label);
    const isSame = found?.validated === true && found.expression === check.expression.normal;
    const concerns = check.column === column.name || wordsOf(check.expression.sql).has(column.name);
    if (concerns && !(after.isKindred && isSame))
      await ask(() => checkConvertedExpression(session, after, check));
  }
  return problems;
}

async function checkConvertedNulls(
  session: Queryable,
  { change: { column, liveColumn }, rows, at }: Converted,
): Promise<MigrationProblem[]> {
  const bad = await countWhere(session, rows, `${quoteIdent(column.name)} is null`);
  if (bad === 0) return [];
  return [
    problem(
      'MIG-201',
      liveColumn.notNull ? at : `${column.at}.required`,
      `required, but ${counted(bad, 'row would', 'rows would')} be NULL as ${column.type}`,
      liveColumn.notNull
        ? 'Make the expression give every row a value, for example with coalesce.'
        : `Add backfill: "${exampleValue(column.typeSql)}", or update these rows.`,
    ),
  ];
}

async function checkConvertedExpression(
  session: Queryable,
  { change: { column }, rows }: Converted,
  { role, expression }: DesiredCheck,
): Promise<MigrationProblem[]> {
  const violated = `not coalesce((\n${expression.sql}\n), true)`;
  const bad = await countWhere(session, rows, violated);
  if (bad === 0) return [];
  const { values } = await sampleValues(session, rows, quoteIdent(column.name), violated);
  return [
    problem(
      'MIG-204',
      expression.at,
      `as ${column.type}, ${counted(bad, 'row is', 'rows are')} ${role === 'enum' ? 'not in the enum' : `against the ${role}`} ${expression.written}: ${quoted(values)}`,
      'Update these rows first, or give them another value with using.',
    ),
  ];
}

/** The columns that change their type, and the rows as they are once they have. */
export class ConvertedRows {
  readonly #byTable: ReadonlyMap<string, readonly TypeChange[]>;

  constructor(changes: readonly Change[]) {
    const typeChanges = changes.filter((change) => change.kind === 'change-type');
    this.#byTable = groupBy(typeChanges, ({ table }) => nameOf(table));
  }

  has(table: DesiredTable, column: string): boolean {
    return this.#byTable.get(nameOf(table))?.some((one) => one.column.name === column) ?? false;
  }

  /** A sub-select without a name where a type changes, else the table. */
  rowsOf(table: { readonly schema: string; readonly name: string }): string {
    const changes = this.#byTable.get(nameOf(table)) ?? [];
    const live = changes[0]?.live;
    if (!live) return nameOf(table);
    const columns = [...live.columns.keys()].map((name) => {
      const change = changes.find((one) => one.column.name === name);
      return change ? `${valueAfter(change)} as ${quoteIdent(name)}` : quoteIdent(name);
    });
    return `(select ${columns.join(', ')} from ${nameOf(table)})`;
  }
}

function valueAfter({ column, liveColumn }: TypeChange): string {
  const value = `(\n${column.model.using ?? quoteIdent(column.name)}\n)::${column.typeSql}`;
  // Only rows without a value get one, and only while the column becomes required.
  const { backfill } = column.model;
  if (backfill === null || !column.notNull || liveColumn.notNull) return value;
  return `coalesce(${value}, (\n${backfill}\n)::${column.typeSql})`;
}

/** A check that needs a column or function which this run only creates is left to the step itself. */
async function unlessUnknown(
  session: Queryable,
  ask: () => Promise<MigrationProblem[]>,
): Promise<MigrationProblem[]> {
  await session.query(raw('savepoint svc_ask'));
  try {
    return await ask();
  } catch (error) {
    if (!isDatabaseError(error, 'data_exception', 'syntax_error_or_access_rule_violation')) throw error;
    await session.query(raw('rollback to savepoint svc_ask'));
    return [];
  }
}

function quoted(values: readonly string[]): string {
  return values.map((value) => `"${value}"`).join(', ');
}
