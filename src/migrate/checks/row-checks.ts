// Checks existing rows before anything is changed. Rows that would make a step fail are counted and reported with a
// hint. The checks run in transactions that are rolled back.
import { quoteIdent, quoteLiteral, raw } from '../../postgres/sql.ts';
import { inDiscardedTransaction, type Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import type { Change, RemakeChange } from '../diff/change.ts';
import type { ChangeOf } from '../diff/change-kinds.ts';
import type { DesiredColumn, DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { quoteName } from '../schema/model.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import {
  formatQuantity,
  countRows,
  countWhere,
  exampleValue,
  findRowsSql,
  formatCount,
  keyNote,
  updateRowsSql,
} from './samples.ts';
import { checkBackfill, checkDefault } from './backfill-checks.ts';
import type { Prelude } from './table-facts.ts';
import { checkTypeChange, ConvertedRows } from './type-checks.ts';
import { checkPartitionRows } from './partitions.ts';
import { checkUnique, indexRule, keyRule } from './unique-check.ts';
import { isWithheld, withholdValues } from './rows/withheld-values.ts';

const TIMEOUT_MS = 30_000;

export type RowChecks = {
  readonly problems: readonly MigrationProblem[];
  /** Problems about a loss of values, which the user can allow, with the path of the column. */
  readonly losses: ReadonlyMap<MigrationProblem, string>;
  /** Notes for the plan. */
  readonly notes: readonly string[];
};

/** `filled`: paths of columns whose nulls this run fills. */
export async function checkRows(
  owner: Queryable,
  changes: readonly Change[],
  searchPath: string,
  prelude: Prelude,
  filled: ReadonlySet<string>,
): Promise<RowChecks> {
  const session = withholdValues(owner);
  const problems: MigrationProblem[] = [];
  const losses = new Map<MigrationProblem, string>();
  const notes: string[] = [];
  const converted = new ConvertedRows(changes);
  const hasNewValues = changes.some((change) => change.kind === 'add-values');
  const settings = { statement_timeout: TIMEOUT_MS, search_path: raw(searchPath), timezone: 'UTC' };
  for (const change of changes) {
    const check = ROW_CHECKS[change.kind] as RowCheck | undefined;
    // A new table has no rows.
    if (check === undefined || !affectsRows(change)) continue;
    const at = check.at(change);
    try {
      await inDiscardedTransaction(session, settings, async () => {
        await prelude(session, change.table);
        const { loss = null, problems: found } = await check.find(session, change, { converted, filled });
        if (loss) losses.set(loss, at);
        problems.push(...(loss ? [loss] : []), ...found);
      });
    } catch (error) {
      // After a timeout, the rows are validated when the plan runs. New rows are checked from the start.
      if (isDatabaseError(error, 'query_canceled'))
        notes.push(`${change.kind}: the rows were not checked within ${TIMEOUT_MS / 1_000} s`);
      // The check needs an object that this run creates, such as a function. The step itself reports a violation.
      else if (
        isDatabaseError(error, 'syntax_error_or_access_rule_violation') ||
        (hasNewValues && isDatabaseError(error, 'data_exception'))
      )
        continue;
      else if (isWithheld(error)) problems.push(evaluationProblem(at, change.table, error));
      else throw error;
    }
  }
  return { problems, losses, notes };
}

function evaluationProblem(at: string, table: DesiredTable, { message }: Error): MigrationProblem {
  return problem(
    'MIG-208',
    at,
    `the expression fails on rows of ${table.name}: ${message}`,
    'Correct the expression or these rows. The text of the error is withheld, because it can contain values of rows.',
  );
}

type OnRows = { readonly table: DesiredTable; readonly live: LiveTable };

function affectsRows(change: Change): change is Change & OnRows {
  return 'table' in change && 'live' in change && change.live !== null;
}

type ColumnChange = OnRows & { readonly column: DesiredColumn };

/** The check of one kind of change. */
type RowCheck<C = Change> = {
  /** Place in the file. For a loss of values, the column. */
  readonly at: (change: C) => string;
  readonly find: (session: Queryable, change: C & OnRows, context: Context) => Promise<Found>;
};

type Found = {
  /** A loss of values that the user can accept. */
  readonly loss?: MigrationProblem | null;
  readonly problems: readonly MigrationProblem[];
};

type Context = { readonly converted: ConvertedRows; readonly filled: ReadonlySet<string> };

const OK: Found = { problems: [] };

const ROW_CHECKS: { readonly [Kind in Change['kind']]?: RowCheck<ChangeOf<Kind>> } = {
  'add-column': {
    at: ({ column }) => column.at,
    find: async (session, change) => ({ problems: await checkNewColumn(session, change) }),
  },
  'set-not-null': {
    at: ({ column }) => column.at,
    find: async (session, change, { converted, filled }) => {
      const { table, column } = change;
      if (filled.has(column.at) || converted.has(table, column.name)) return OK;
      return { problems: await checkNulls(session, change) };
    },
  },
  'change-type': {
    at: ({ column }) => column.at,
    find: (session, change, { converted }) => checkTypeChange(session, change, converted),
  },
  'remake-column': {
    at: ({ column }) => column.at,
    find: async (session, change) => ({ loss: await checkReplacedValues(session, change), problems: [] }),
  },
  'add-key': {
    at: ({ key }) => key.at,
    find: async (session, change, { converted }) => {
      const { table, key } = change;
      if (!holdsValues(change, key.columns, converted)) return OK;
      return { problems: await checkUnique(session, table, keyRule(key), key.at) };
    },
  },
  'add-index': {
    at: ({ index }) => index.at,
    find: async (session, change, { converted }) => {
      const { table, index } = change;
      if (!index.unique || !holdsValues(change, index.columns, converted)) return OK;
      return { problems: await checkUnique(session, table, indexRule(index), index.at) };
    },
  },
  'add-foreign-key': {
    at: ({ foreignKey }) => foreignKey.at,
    find: async (session, change, { converted }) => {
      const { live, foreignKey } = change;
      if (foreignKey.notValid || !foreignKey.columns.every((column) => live.columns.has(column))) return OK;
      return { problems: await checkReferences(session, change, converted) };
    },
  },
  'add-check': {
    at: ({ check }) => check.expression.at,
    find: async (session, change, { converted }) => {
      const { check } = change;
      if (check.notValid || !holdsValues(change, check.columns, converted)) return OK;
      return { problems: await checkExpression(session, change) };
    },
  },
  'add-partition': {
    at: ({ table }) => table.at,
    find: async (session, change) => ({ problems: await checkPartitionRows(session, change) }),
  },
};

/** A new column has no values yet. Values of a changed type are checked with the change of the type. */
function holdsValues({ table, live }: OnRows, columns: readonly string[], converted: ConvertedRows): boolean {
  return columns.every((column) => live.columns.has(column) && !converted.has(table, column));
}

async function checkNewColumn(
  session: Queryable,
  { table, live, column }: ColumnChange,
): Promise<MigrationProblem[]> {
  if (column.model.backfill !== null) return checkBackfill(session, table, live, column);
  if (column.generated !== null && column.notNull) return checkGeneratedNulls(session, table, column);
  const hasValue = column.default !== null || column.serial;
  if (!column.notNull || hasValue) {
    return column.generated === null && !column.serial ? checkDefault(session, table, live, column) : [];
  }
  const { all } = await countRows(session, table, 'false');
  if (all === 0) return [];
  return [
    problem(
      'MIG-205',
      `${column.at}.required`,
      `required, but ${formatQuantity(all, 'row needs', 'rows need')} a value`,
      `Add backfill: "${exampleValue(column.typeSql)}", a default, or required: false.`,
    ),
  ];
}

async function checkGeneratedNulls(
  session: Queryable,
  table: DesiredTable,
  column: DesiredColumn,
): Promise<MigrationProblem[]> {
  const { bad, all } = await countRows(session, table, `(\n${column.default?.sql ?? ''}\n) is null`);
  if (bad === 0) return [];
  return [
    problem(
      'MIG-201',
      `${column.at}.required`,
      `required, but the expression gives NULL for ${formatCount(bad)} of ${formatCount(all)} rows`,
      'Use coalesce, or required: false.',
    ),
  ];
}

/** Reports stored values of a column that becomes generated, if they differ from the expression. */
async function checkReplacedValues(
  session: Queryable,
  { table, column, liveColumn }: RemakeChange,
): Promise<MigrationProblem | null> {
  if (liveColumn.generated !== null || column.default === null) return null;
  const name = quoteIdent(column.name);
  const replaced = `${name} is not null and ${name}::text is distinct from (\n${column.default.sql}\n)::text`;
  const { bad, all } = await countRows(session, table, replaced);
  if (bad === 0) return null;
  return problem(
    'MIG-208',
    `${column.at}.generated`,
    `${formatCount(bad)} of ${formatCount(all)} rows hold a value that differs from the expression and would be lost`,
    'Give the generated column another name, or accept the loss: --allow ' +
      `data_loss=${column.at}. Find the rows: ${findRowsSql(quoteName(table), replaced)}`,
  );
}

async function checkNulls(
  session: Queryable,
  { table, live, column }: ColumnChange,
): Promise<MigrationProblem[]> {
  const isNull = `${quoteIdent(column.name)} is null`;
  const { bad, all } = await countRows(session, table, isNull);
  if (bad === 0) return [];
  if (column.model.backfill !== null) return checkBackfill(session, table, live, column);
  return [
    problem(
      'MIG-201',
      `${column.at}.${column.model.primaryKey ? 'primary_key' : 'required'}`,
      `required, but ${formatCount(bad)} of ${formatCount(all)} rows are NULL${keyNote(live)}`,
      `Add backfill: "${exampleValue(column.typeSql)}", or update these rows. ` +
        `Find them: ${findRowsSql(quoteName(table), isNull)}`,
    ),
  ];
}

async function checkReferences(
  session: Queryable,
  { table, live, foreignKey }: ChangeOf<'add-foreign-key'> & OnRows,
  converted: ConvertedRows,
): Promise<MigrationProblem[]> {
  const { columns, targetColumns, matchFull } = foreignKey;
  const names = columns.map((column) => `svc_row.${quoteIdent(column)}`);
  const referred = { schema: foreignKey.targetSchema, name: foreignKey.targetTable };
  const target = quoteName(referred);
  const [exists] = await session.query<{ found: boolean }>(
    raw(`select to_regclass(${quoteLiteral(target)}) is not null as found`),
  );
  const isWhole = names.map((name) => `${name} is not null`).join(' and ');
  const isEqual = names.map((name, n) => `svc_target.${quoteIdent(targetColumns[n] ?? '')} = ${name}`);
  const dangles = exists?.found
    ? `${isWhole} and not exists (select from ${converted.rowsSql(referred)} svc_target where ${isEqual.join(' and ')})`
    : isWhole;
  const isMixed = `num_nulls(${names.join(', ')}) between 1 and ${names.length - 1}`;
  const missing = matchFull && names.length > 1 ? `(${dangles}) or ${isMixed}` : dangles;
  const from = `${converted.rowsSql(table)} svc_row`;
  const bad = await countWhere(session, from, missing);
  if (bad === 0) return [];
  const clear = columns.map((column) => `${quoteIdent(column)} = null`).join(', ');
  // The condition uses values of the new type, which the table does not contain yet.
  const isConverted = columns.some((column) => converted.has(table, column));
  const update = isConverted ? '.' : `: update ${quoteName(table)} svc_row set ${clear} where ${missing};`;
  return [
    problem(
      'MIG-203',
      foreignKey.at,
      `${formatQuantity(bad, 'row points', 'rows point')} to missing ${foreignKey.targetTable}${keyNote(live)}`,
      `Find them: ${findRowsSql(from, missing)} Remove them, or clear the column${update}`,
    ),
  ];
}

async function checkExpression(
  session: Queryable,
  { table, live, check }: ChangeOf<'add-check'> & OnRows,
): Promise<MigrationProblem[]> {
  const violated = `not coalesce((\n${check.expression.sql}\n), true)`;
  const { bad, all } = await countRows(session, table, violated);
  if (bad === 0) return [];
  const find = findRowsSql(quoteName(table), violated);
  const at = check.expression.at;
  if (check.column === null)
    return [
      problem(
        'MIG-204',
        at,
        `${formatCount(bad)} of ${formatCount(all)} rows violate the check ${check.expression.written}${keyNote(live)}`,
        `Update these rows first, or set not_valid: true to keep them. Find them: ${find}`,
      ),
    ];
  const column = table.columns.find((candidate) => candidate.name === check.column);
  const first = column?.model.enum?.[0];
  const update = updateRowsSql(
    table,
    { name: check.column, type: column?.typeSql ?? '', notNull: column?.notNull ?? false },
    {
      value: check.role === 'enum' && first !== undefined ? quoteLiteral(first) : undefined,
      where: violated,
    },
  );
  const violation = check.role === 'enum' ? 'are not in the enum' : `violate the ${check.role}`;
  const remedy =
    check.role === 'enum'
      ? 'Keep the value in the enum, or give these rows another one first'
      : 'Give these rows another value first';
  return [
    problem(
      'MIG-204',
      check.expression.at,
      `${formatCount(bad)} of ${formatCount(all)} rows ${violation} ${check.expression.written}${keyNote(live)}`,
      `${remedy}: ${update} Find them: ${find}`,
    ),
  ];
}
