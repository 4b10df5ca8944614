// Checks the rows before anything is changed: whatever a step could fail on is counted here, with samples, and becomes a
// refusal that says which line to add. Reads only, in transactions that are rolled back.
import { quoteIdent, quoteLiteral, raw } from '../../postgres/sql.ts';
import { inDiscardedTransaction, type Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import type { Change, RemakeChange } from '../diff/change.ts';
import type { DesiredColumn, DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { nameOf } from '../schema/model.ts';
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
import { checkBackfill, checkDefault } from './backfill-checks.ts';
import type { Prelude } from './table-facts.ts';
import { checkTypeChange, ConvertedRows } from './type-checks.ts';
import { checkPartitionRows } from './partitions.ts';
import { checkUnique, uniqueOfIndex, uniqueOfKey } from './unique-check.ts';

const TIMEOUT_MS = 30_000;

export type RowChecks = {
  readonly problems: readonly MigrationProblem[];
  /** Those of the problems that are a loss of values, which can be accepted, with the column. */
  readonly losses: ReadonlyMap<MigrationProblem, string>;
  /** Sentences for the plan. */
  readonly notes: readonly string[];
};

/** `filled`: columns whose nulls this run fills. */
export async function checkRows(
  session: Queryable,
  changes: readonly Change[],
  searchPath: string,
  prelude: Prelude,
  filled: ReadonlySet<string>,
): Promise<RowChecks> {
  const problems: MigrationProblem[] = [];
  const losses = new Map<MigrationProblem, string>();
  const notes: string[] = [];
  const converted = new ConvertedRows(changes);
  const hasNewValues = changes.some((change) => change.kind === 'add-values');
  const settings = { statement_timeout: TIMEOUT_MS, search_path: raw(searchPath), timezone: 'UTC' };
  for (const change of changes) {
    if (!isOnRows(change) || (change.kind === 'set-not-null' && filled.has(change.column.at))) continue;
    try {
      await inDiscardedTransaction(session, settings, async () => {
        await prelude(session, change.table);
        if (change.kind === 'change-type') {
          const { loss, others } = await checkTypeChange(session, change, converted);
          if (loss) losses.set(loss, change.column.at);
          problems.push(...(loss ? [loss] : []), ...others);
        } else if (change.kind === 'remake-column') {
          const loss = await checkReplacedValues(session, change);
          if (loss) losses.set(loss, change.column.at);
          problems.push(...(loss ? [loss] : []));
        } else problems.push(...(await checkChange(session, change, converted)));
      });
    } catch (error) {
      // Out of time: the online form validates instead, and new rows are guarded meanwhile.
      if (isDatabaseError(error, 'query_canceled'))
        notes.push(`${change.kind}: the rows were not checked within ${TIMEOUT_MS / 1_000} s`);
      // A check that needs what this run only creates, such as a function or a value, is left to the step itself.
      else if (
        !isDatabaseError(error, 'syntax_error_or_access_rule_violation') &&
        !(hasNewValues && isDatabaseError(error, 'data_exception'))
      )
        throw error;
    }
  }
  return { problems, losses, notes };
}

type RowChange = Extract<Change, { readonly table: DesiredTable; readonly live: LiveTable | null }> & {
  readonly live: LiveTable;
};

type ColumnOnRows = Pick<Extract<RowChange, { kind: 'add-column' }>, 'table' | 'live' | 'column'>;

const ON_ROWS: ReadonlySet<Change['kind']> = new Set<Change['kind']>([
  'add-column',
  'set-not-null',
  'add-key',
  'add-index',
  'add-foreign-key',
  'add-check',
  'add-partition',
  'change-type',
  'remake-column',
]);

// A table that this run creates has no rows.
function isOnRows(change: Change): change is RowChange {
  return ON_ROWS.has(change.kind) && 'live' in change && change.live !== null;
}

async function checkChange(
  session: Queryable,
  change: RowChange,
  converted: ConvertedRows,
): Promise<readonly MigrationProblem[]> {
  const { table, live } = change;
  // A column of this very run has no values yet; values of a new type are checked with the change of the type.
  const holdsValues = (columns: readonly string[]): boolean =>
    columns.every((column) => live.columns.has(column) && !converted.has(table, column));
  switch (change.kind) {
    case 'add-column':
      return checkNewColumn(session, change);
    case 'set-not-null':
      return converted.has(table, change.column.name) ? [] : checkNulls(session, change);
    case 'add-key': {
      const { columns, at } = change.key;
      return holdsValues(columns) ? checkUnique(session, table, uniqueOfKey(change.key), at) : [];
    }
    case 'add-index': {
      const { columns, unique, at } = change.index;
      if (!unique || !holdsValues(columns)) return [];
      return checkUnique(session, table, uniqueOfIndex(change.index), at);
    }
    case 'add-foreign-key':
      return !change.foreignKey.notValid &&
        change.foreignKey.columns.every((column) => live.columns.has(column))
        ? checkReferences(session, change, converted)
        : [];
    case 'add-check':
      return !change.check.notValid && holdsValues(change.check.columns)
        ? checkExpression(session, change)
        : [];
    case 'add-partition':
      return checkPartitionRows(session, change);
    default:
      return [];
  }
}

async function checkNewColumn(
  session: Queryable,
  { table, live, column }: ColumnOnRows,
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
      `required, but ${counted(all, 'row needs', 'rows need')} a value`,
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

/** Values that somebody wrote into a column whose values are computed from now on. */
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
    `${formatCount(bad)} of ${formatCount(all)} rows hold another value than the expression gives, which would be lost`,
    `Call the generated column otherwise, or accept it: --allow data_loss=${column.at}`,
  );
}

async function checkNulls(
  session: Queryable,
  { table, live, column }: ColumnOnRows,
): Promise<MigrationProblem[]> {
  const isNull = `${quoteIdent(column.name)} is null`;
  const { bad, all } = await countRows(session, table, isNull);
  if (bad === 0) return [];
  if (column.model.backfill !== null) return checkBackfill(session, table, live, column);
  const keys = await sampleKeys(session, table, live, isNull);
  return [
    problem(
      'MIG-201',
      `${column.at}.${column.model.primaryKey ? 'primary_key' : 'required'}`,
      `required, but ${formatCount(bad)} of ${formatCount(all)} rows are NULL${keys}`,
      `Add backfill: "${exampleValue(column.typeSql)}", or update these rows.`,
    ),
  ];
}

async function checkReferences(
  session: Queryable,
  { table, foreignKey }: Extract<RowChange, { kind: 'add-foreign-key' }>,
  converted: ConvertedRows,
): Promise<MigrationProblem[]> {
  const { columns, targetColumns, matchFull } = foreignKey;
  const names = columns.map((column) => `svc_row.${quoteIdent(column)}`);
  const referred = { schema: foreignKey.targetSchema, name: foreignKey.targetTable };
  const target = nameOf(referred);
  const [exists] = await session.query<{ found: boolean }>(
    raw(`select to_regclass(${quoteLiteral(target)}) is not null as found`),
  );
  const isWhole = names.map((name) => `${name} is not null`).join(' and ');
  const isEqual = names.map((name, n) => `svc_target.${quoteIdent(targetColumns[n] ?? '')} = ${name}`);
  const dangles = exists?.found
    ? `${isWhole} and not exists (select from ${converted.rowsOf(referred)} svc_target where ${isEqual.join(' and ')})`
    : isWhole;
  const isMixed = `num_nulls(${names.join(', ')}) between 1 and ${names.length - 1}`;
  const missing = matchFull && names.length > 1 ? `(${dangles}) or ${isMixed}` : dangles;
  const from = `${converted.rowsOf(table)} svc_row`;
  const bad = await countWhere(session, from, missing);
  if (bad === 0) return [];
  const shown = names.length === 1 ? (names[0] ?? '') : `concat_ws(', ', ${names.join(', ')})`;
  const { values, more } = await sampleValues(session, from, shown, missing);
  const said = columns.length === 1 ? (columns[0] ?? '') : `(${columns.join(', ')})`;
  const clear = columns.map((column) => `${quoteIdent(column)} = null`).join(', ');
  return [
    problem(
      'MIG-203',
      foreignKey.at,
      `${counted(bad, 'row points', 'rows point')} to missing ${foreignKey.targetTable} (${said} ${values.join(columns.length === 1 ? ', ' : '; ')}${more})`,
      `Remove them, or clear the column: update ${nameOf(table)} svc_row set ${clear} where ${missing};`,
    ),
  ];
}

async function checkExpression(
  session: Queryable,
  { table, live, check }: Extract<RowChange, { kind: 'add-check' }>,
): Promise<MigrationProblem[]> {
  const violated = `not coalesce((\n${check.expression.sql}\n), true)`;
  const { bad, all } = await countRows(session, table, violated);
  if (bad === 0) return [];
  const keys = await sampleKeys(session, table, live, violated);
  const at = check.expression.at;
  if (check.column === null)
    return [
      problem(
        'MIG-204',
        at,
        `${formatCount(bad)} of ${formatCount(all)} rows are against the check ${check.expression.written}${keys}`,
        `Update these rows first, or write not_valid: true to leave them: select * from ${nameOf(table)} where ${violated.replaceAll('\n', '')};`,
      ),
    ];
  const name = quoteIdent(check.column);
  const values = await session.query<{ value: string; times: string }>(
    raw(
      `select ${name}::text as value, count(*)::text as times from ${nameOf(table)} where ${violated} group by 1 order by count(*) desc, 1 limit ${SAMPLES}`,
    ),
  );
  const shown = values
    .map((one) => `"${clip(one.value)}" (${formatCount(Number(one.times))} rows)`)
    .join(', ');
  const what = check.role === 'enum' ? 'not in the enum' : `against the ${check.role}`;
  const remedy =
    check.role === 'enum'
      ? 'Keep the value in the enum, or update these rows first'
      : 'Update these rows first';
  return [
    problem(
      'MIG-204',
      check.expression.at,
      `${formatCount(bad)} of ${formatCount(all)} rows are ${what} ${check.expression.written}: ${shown}${keys}`,
      `${remedy}: update ${nameOf(table)} set ${name} = … where ${violated.replaceAll('\n', '')};`,
    ),
  ];
}
