// Checks the values of columns that change their type: whether they can be cast without loss, and whether the rows
// satisfy their constraints afterwards.
import { quoteIdent, quoteLiteral, raw, sql } from '../../postgres/sql.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { groupBy } from '../../lib/group-by.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import type { Change, TypeChange } from '../diff/change.ts';
import type { DesiredCheck, DesiredTable, DesiredType } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { objectKey, quoteName } from '../schema/model.ts';
import { describeTypeChange } from '../schema/label.ts';
import { conversionByText, createTypeSql, domainChecks } from '../schema/types.ts';
import { sqlWords } from '../../lib/sql/sql-text.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import {
  formatQuantity,
  countRows,
  countWhere,
  exampleValue,
  findRowsSql,
  formatCount,
  keyNote,
  pasteableSql,
  updateRowsSql,
} from './samples.ts';
import { checkUnique, tableUniqueRules } from './unique-check.ts';

type LiveTypeChange = TypeChange & { readonly live: LiveTable };

export type TypeChecks = {
  /** Problem if casts succeed but would round or truncate values. */
  readonly loss: MigrationProblem | null;
  readonly problems: readonly MigrationProblem[];
};

export async function checkTypeChange(
  session: Queryable,
  change: LiveTypeChange,
  converted: ConvertedRows,
): Promise<TypeChecks> {
  const removed = await checkRemovedValues(session, change);
  if (removed.length > 0) return { loss: null, problems: removed };
  const casts = await checkCast(session, change, converted);
  if (casts.problems.length > 0) return casts;
  return { loss: casts.loss, problems: await checkConvertedRows(session, change, converted) };
}

async function checkCast(
  session: Queryable,
  change: LiveTypeChange,
  converted: ConvertedRows,
): Promise<TypeChecks> {
  const { table, column } = change;
  const using = column.model.using ?? `${quoteIdent(column.name)}::${column.typeSql}`;
  await session.query(raw('savepoint svc_cast'));
  try {
    await session.query(raw(`select count((\n${using}\n)::${column.typeSql}) from ${quoteName(table)}`));
  } catch (error) {
    // A domain reports an invalid value as a constraint violation.
    if (!isDatabaseError(error, 'data_exception', 'integrity_constraint_violation')) throw error;
    await session.query(raw('rollback to savepoint svc_cast'));
    return { loss: null, problems: [await failingCasts(session, change, { using, converted })] };
  }
  const loss = column.model.using === null ? await checkLoss(session, change) : null;
  return { loss, problems: loss ? [] : await checkStored(session, change, converted) };
}

/** Reports rows with values that an enum no longer has. */
async function checkRemovedValues(
  session: Queryable,
  { table, live, column, liveColumn }: LiveTypeChange,
): Promise<MigrationProblem[]> {
  const byText = conversionByText(column.name, liveColumn.type, column.typeSql);
  // A USING expression of the file may convert these values.
  if (byText === null || column.model.using !== byText) return [];
  const name = quoteIdent(column.name);
  const type = column.typeSql.replace(/(\[\d*\])+$/, '');
  const isArray = type !== column.typeSql;
  const known = `enum_range(null::${type})::text[]`;
  const held = isArray ? `not ${name}::text[] <@ ${known}` : `${name}::text <> all (${known})`;
  return skipIfUndefined(session, async () => {
    const { bad, all } = await countRows(session, table, held);
    if (bad === 0) return [];
    const kept = await readEnumLabels(session, type);
    const list = kept.join(', ');
    const where = isArray
      ? `not ${name}::text[] <@ array[${list}]::text[]`
      : `${name}::text <> all (array[${list}]::text[])`;
    const value = column.notNull ? (isArray ? "'{}'" : kept[0]) : undefined;
    const update = updateRowsSql(table, { ...column, type }, { value, where });
    return [
      problem(
        'MIG-204',
        column.at,
        `${formatCount(bad)} of ${formatCount(all)} rows hold a value that ${type} no longer has${keyNote(live)}`,
        'Keep the value, add it to renamed_values, or update these rows first: ' +
          `${update} Find them: ${findRowsSql(quoteName(table), where)}`,
      ),
    ];
  });
}

// Casts that round or truncate succeed. A value is lossy if casting it back does not restore it.
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
    return problem(
      'MIG-208',
      `${column.at}.type`,
      `${describeTypeChange(from, column.type)}: ` +
        `${formatQuantity(bad, 'row', 'rows')} would lose part of the value${keyNote(live)}`,
      `To accept the loss, add using: "${name.replaceAll('"', '')}::${column.typeSql}", or run with ` +
        `--allow data_loss=${column.at}. Find the rows: ${findRowsSql(quoteName(table), changed)}`,
    );
  } catch (error) {
    // Without a cast from the new to the old type, the values cannot be compared.
    if (!isDatabaseError(error)) throw error;
    await session.query(raw('rollback to savepoint svc_loss'));
    return null;
  }
}

/**
 * Reports values that are too long for the new type. An explicit cast truncates to `varchar(20)`, but ALTER COLUMN TYPE
 * uses an assignment cast and fails. An assignment in PL/pgSQL behaves the same way.
 */
async function checkStored(
  session: Queryable,
  change: LiveTypeChange,
  converted: ConvertedRows,
): Promise<MigrationProblem[]> {
  const { table, live, column, liveColumn } = change;
  const value = column.model.using ?? quoteIdent(column.name);
  if (!/^(character|bit)(?: varying)?\(\d+\)/.test(column.type) && !(await isDomain(session, column.typeSql)))
    return [];
  return skipIfUndefined(session, async () => {
    const rows = `${quoteName(table)} svc_row`;
    const attempt = attemptSql(change, `svc_stored ${column.typeSql} := (select (\n${value}\n) from ROW)`);
    await session.query(raw(attempt));
    const bad = await countWhere(session, rows, ATTEMPT_FAILS);
    if (bad === 0) return [];
    const cut = column.model.using === null ? column.name.replaceAll('"', '') : `(${column.model.using})`;
    return [
      problem(
        'MIG-208',
        `${column.at}.${column.model.using === null ? 'type' : 'using'}`,
        `${describeTypeChange(liveColumn.type, column.type)}: ` +
          `${formatQuantity(bad, 'value does', 'values do')} not fit${keyNote(live)}`,
        `Update these rows, or truncate the values with using: "${cut}::${column.typeSql}". ` +
          findFailing(attempt, rows, converted.creationStatements(column.typeSql)),
      ),
    ];
  });
}

async function isDomain(session: Queryable, type: string): Promise<boolean> {
  const [row] = await session.query<{ found: boolean }>(
    sql`select exists (select from pg_type where oid = to_regtype(${type}) and typtype = 'd') as found`,
  );
  return row?.found ?? false;
}

async function failingCasts(
  session: Queryable,
  change: LiveTypeChange,
  { using, converted }: { readonly using: string; readonly converted: ConvertedRows },
): Promise<MigrationProblem> {
  const { table, live, column, liveColumn } = change;
  const declaration = `svc_stored ${column.typeSql} := (select (\n${using}\n)::${column.typeSql} from ROW)`;
  const attempt = attemptSql(change, declaration);
  await session.query(raw(attempt));
  const rows = `${quoteName(table)} svc_row`;
  const bad = await countWhere(session, rows, ATTEMPT_FAILS);
  return problem(
    'MIG-208',
    `${column.at}.type`,
    `${describeTypeChange(liveColumn.type, column.type)}: ` +
      `${formatQuantity(bad, 'row', 'rows')} cannot be cast${keyNote(live)}`,
    'Update these rows, or define the conversion: using: "case when … then … end". ' +
      findFailing(attempt, rows, converted.creationStatements(column.typeSql)),
  );
}

const ATTEMPT_FAILS = 'pg_temp.svc_cast_fails(svc_row)';

/**
 * Returns a statement that creates the function of ATTEMPT_FAILS. It converts one row in a subtransaction and returns
 * whether that fails. `declaration` reads the row from `ROW`.
 */
function attemptSql({ table }: LiveTypeChange, declaration: string): string {
  const row = `(select (r).*) as ${quoteIdent(table.name)}`;
  const body =
    `begin declare ${declaration.replace('from ROW', () => `from ${row}`)}; begin return false; end; ` +
    'exception when data_exception or integrity_constraint_violation then return true; end';
  const quoted = body.includes('$') ? quoteLiteral(body) : `$$${body}$$`;
  return `create function pg_temp.svc_cast_fails(r ${quoteName(table)}) returns boolean language plpgsql as ${quoted}`;
}

/**
 * Returns statements that find the failing rows. They need a function, because no expression can test a cast on all
 * supported versions. `creation`: statements that create a new type of this run.
 */
function findFailing(attempt: string, rows: string, creation: readonly string[]): string {
  const find = `${pasteableSql(attempt)}; ${findRowsSql(rows, ATTEMPT_FAILS)}`;
  if (creation.length === 0) return `Find them in one session: ${find}`;
  return (
    'Find them in one session: begin; ' +
    `${creation.map((statement) => `${pasteableSql(statement)}; `).join('')}${find} rollback;`
  );
}

/** Returns the labels of an enum type as SQL literals. */
async function readEnumLabels(session: Queryable, type: string): Promise<string[]> {
  const rows = await session.query<{ label: string }>(
    sql`select enumlabel as label from pg_enum where enumtypid = to_regtype(${type}) order by enumsortorder`,
  );
  return rows.map(({ label }) => quoteLiteral(label));
}

// A change between types of one group preserves equality and order, so satisfied constraints stay satisfied.
const COMPATIBLE_TYPES = [/^(smallint|integer|bigint)$/, /^(text|character varying(\(\d+\))?)$/];

type Converted = {
  readonly change: LiveTypeChange;
  readonly isCompatible: boolean;
  /** FROM item with the converted rows, under the name of the table. */
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
    isCompatible:
      using === null &&
      COMPATIBLE_TYPES.some((types) => types.test(liveColumn.type) && types.test(column.type)),
    rows: `${converted.rowsSql(table)} as ${quoteIdent(table.name)}`,
    at: `${column.at}.${using === null ? 'type' : 'using'}`,
  };
  const problems: MigrationProblem[] = [];
  const run = async (check: () => Promise<MigrationProblem[]>): Promise<void> => {
    problems.push(...(await skipIfUndefined(session, check)));
  };
  if (column.notNull && !(after.isCompatible && liveColumn.notNull))
    await run(() => checkConvertedNulls(session, after));
  const isKnownKey = (columns: readonly string[]): boolean =>
    [...live.keys, ...live.indexes].some(
      (constraint) =>
        ('kind' in constraint || (constraint.unique && constraint.plain)) &&
        constraint.columns.join() === columns.join(),
    );
  for (const unique of tableUniqueRules(table)) {
    const { columns } = unique;
    if (!columns.includes(column.name) || !columns.every((columnName) => live.columns.has(columnName)))
      continue;
    if (after.isCompatible && unique.plain && isKnownKey(columns)) continue;
    await run(() => checkUnique(session, table, unique, after.at, after.rows));
  }
  for (const check of table.checks) {
    const found = live.checks.find((liveCheck) => liveCheck.label === check.label);
    const isSame = found?.validated === true && found.expression === check.expression.normal;
    const concerns = check.column === column.name || sqlWords(check.expression.sql).has(column.name);
    if (concerns && !(after.isCompatible && isSame))
      await run(() => checkConvertedExpression(session, after, check));
  }
  return problems;
}

async function checkConvertedNulls(
  session: Queryable,
  { change: { column, live, liveColumn }, rows, at }: Converted,
): Promise<MigrationProblem[]> {
  const bad = await countWhere(session, rows, `${quoteIdent(column.name)} is null`);
  if (bad === 0) return [];
  return [
    problem(
      'MIG-201',
      liveColumn.notNull ? at : `${column.at}.required`,
      `required, but ${formatQuantity(bad, 'row would', 'rows would')} be NULL as ${column.type}${keyNote(live)}`,
      liveColumn.notNull
        ? 'Make the expression give every row a value, for example with coalesce.'
        : `Add backfill: "${exampleValue(column.typeSql)}", or update these rows.`,
    ),
  ];
}

async function checkConvertedExpression(
  session: Queryable,
  { change: { column, live }, rows }: Converted,
  { role, expression }: DesiredCheck,
): Promise<MigrationProblem[]> {
  const violated = `not coalesce((\n${expression.sql}\n), true)`;
  const bad = await countWhere(session, rows, violated);
  if (bad === 0) return [];
  const violation =
    role === 'enum'
      ? `${formatQuantity(bad, 'row is', 'rows are')} not in the enum`
      : `${formatQuantity(bad, 'row violates', 'rows violate')} the ${role}`;
  return [
    problem(
      'MIG-204',
      expression.at,
      `as ${column.type}, ${violation} ${expression.written}${keyNote(live)}`,
      `Update these rows first, or convert them to another value with using. Find them: ${findRowsSql(rows, violated)}`,
    ),
  ];
}

/** Columns that change their type in this run, and the rows with converted values. */
export class ConvertedRows {
  readonly #byTable: ReadonlyMap<string, readonly TypeChange[]>;
  readonly #newTypes: readonly DesiredType[];

  constructor(changes: readonly Change[]) {
    this.#newTypes = changes.flatMap((change) => (change.kind === 'create-type' ? [change.type] : []));
    const typeChanges = changes.filter((change) => change.kind === 'change-type');
    this.#byTable = groupBy(typeChanges, ({ table }) => quoteName(table));
  }

  has(table: DesiredTable, column: string): boolean {
    return (
      this.#byTable.get(quoteName(table))?.some((typeChange) => typeChange.column.name === column) ?? false
    );
  }

  /** Returns the statements that create a type, if this run creates it. */
  creationStatements(typeSql: string): string[] {
    const name = typeSql.replace(/(\[\d*\])+$/, '').replaceAll('"', '');
    const type = this.#newTypes.find((newType) => objectKey(newType) === name);
    if (!type) return [];
    return [
      createTypeSql(type),
      ...domainChecks(type).map(
        ({ expression }) => `alter domain ${quoteName(type)} add check (\n${expression.sql}\n)`,
      ),
    ];
  }

  /** Returns an unnamed sub-select with converted values, or the name of the table if no type changes. */
  rowsSql(table: { readonly schema: string; readonly name: string }): string {
    const changes = this.#byTable.get(quoteName(table)) ?? [];
    const live = changes[0]?.live;
    if (!live) return quoteName(table);
    const columns = [...live.columns.keys()].map((name) => {
      const change = changes.find((typeChange) => typeChange.column.name === name);
      return change ? `${convertedValue(change)} as ${quoteIdent(name)}` : quoteIdent(name);
    });
    return `(select ${columns.join(', ')} from ${quoteName(table)})`;
  }
}

function convertedValue({ column, liveColumn }: TypeChange): string {
  const value = `(\n${column.model.using ?? quoteIdent(column.name)}\n)::${column.typeSql}`;
  // A backfill applies only to nulls of a column that becomes required.
  const { backfill } = column.model;
  if (backfill === null || !column.notNull || liveColumn.notNull) return value;
  return `coalesce(${value}, (\n${backfill}\n)::${column.typeSql})`;
}

/**
 * Runs a check. Returns no problems if it needs an object that this run creates. The step itself reports a violation.
 */
async function skipIfUndefined(
  session: Queryable,
  check: () => Promise<MigrationProblem[]>,
): Promise<MigrationProblem[]> {
  await session.query(raw('savepoint svc_ask'));
  try {
    return await check();
  } catch (error) {
    if (!isDatabaseError(error, 'data_exception', 'syntax_error_or_access_rule_violation')) throw error;
    await session.query(raw('rollback to savepoint svc_ask'));
    return [];
  }
}
