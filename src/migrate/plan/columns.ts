// Statements for tables and columns: create them, change their types, defaults and NOT NULL, and backfill rows. A
// backfill runs in batches if one statement would block writers for too long.
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { AddColumnChange } from '../diff/change.ts';
import type { ChangeOf } from '../diff/change-kinds.ts';
import type { DesiredColumn, DesiredTable } from '../schema/desired.ts';
import { columnDefinitionSql, columnTypeSql } from '../schema/sql/column-sql.ts';
import { createAttributes } from '../schema/sql/table-attributes.ts';
import { describeTypeChange, sequenceLabel, transientLabel } from '../schema/label.ts';
import { objectKey, quoteName } from '../schema/model.ts';
import { partitionBySql } from '../schema/partitions.ts';
import { sequenceUsers } from '../schema/rights/grants.ts';
import {
  alterColumn,
  onColumn,
  type Planners,
  FILL_ROWS_PER_MS,
  REWRITE_ROWS_PER_MS,
  SCAN_ROWS_PER_MS,
  type StepList,
  usingOf,
} from './step-list.ts';
import type { Hazard, Stage, Step } from './step.ts';

export const COLUMNS = {
  'create-table': createTable,
  'add-column': addColumn,
  'change-type': changeType,
  'set-default': (steps, { table, column }) => setDefault(steps, table, column, { sign: '~' }),
  'drop-default': (steps, { table, column, liveColumn }) =>
    steps.add({
      ...onColumn(table, column),
      sql: `${alterColumn(table, column)} drop default`,
      stage: 'drop-dependants',
      sign: '-',
      summary: `column ${column.name} default ${liveColumn.default ?? ''}`,
    }),
  'make-serial': makeSerial,
  'drop-serial': (steps, { table, column, liveColumn }) => {
    const alter = alterColumn(table, column);
    steps.add({
      ...onColumn(table, column),
      sql: liveColumn.identity
        ? `${alter} drop identity`
        : `${alter} drop default; drop sequence if exists ${liveColumn.sequence ?? ''}`,
      stage: 'drop-dependants',
      sign: '-',
      summary: `column ${column.name} no longer serial`,
    });
  },
  'grant-sequence': grantSequence,
  'set-not-null': (steps, change) => setNotNull(steps, change),
  'drop-not-null': (steps, { table, column }) =>
    steps.add({
      ...onColumn(table, column),
      sql: `${alterColumn(table, column)} drop not null`,
      // After `drop-keys`: a primary key keeps its columns NOT NULL.
      stage: 'columns',
      sign: '~',
      summary: `column ${column.name} no longer required`,
    }),
  'resume-backfill': (steps, change) => backfill(steps, change, change.value),
} satisfies Partial<Planners>;

/** A column of a table; `live` is null for a table that this run creates. */
type On = Omit<AddColumnChange, 'kind'>;

function createTable(steps: StepList, { table }: ChangeOf<'create-table'>): void {
  const definition = (column: DesiredColumn): string =>
    `${quoteIdent(column.name)} ${columnDefinitionSql(column)}${column.notNull ? ' not null' : ''}`;
  const columns = table.columns.filter((column) => !column.callsDeclaredFunction).map(definition);
  const { before, after, actions } = createAttributes(table.model);
  const name = quoteName(table);
  steps.add({
    sql: [
      `create ${before}table ${name} (${columns.join(', ')})${partitionBySql(table.partitioning)}${after}`,
      ...actions.map((action) => `alter table ${name} ${action}`),
    ].join('; '),
    stage: 'columns',
    identity: table.at,
    summary: `table ${table.name} (${table.columns.length} columns)`,
  });
  for (const column of table.columns) {
    if (hasOwnSequence(column)) grantSequence(steps, { table, column });
    setDefault(steps, table, column, { table: null });
    if (column.callsDeclaredFunction)
      steps.add({
        ...onColumn(table, column),
        table: null,
        sql: `alter table ${quoteName(table)} add column ${definition(column)}`,
        stage: 'columns-with-default',
        summary: `column ${column.name} ${column.typeSql}`,
      });
  }
}

function setDefault(
  steps: StepList,
  table: DesiredTable,
  column: DesiredColumn,
  more: Partial<Pick<Step, 'table' | 'sign'>> = {},
): void {
  if (column.default === null || column.generated !== null) return;
  steps.add({
    ...onColumn(table, column),
    sql: `${alterColumn(table, column)} set default ${column.default.sql}`,
    stage: 'defaults',
    summary: `column ${column.name} default ${column.default.written}`,
    ...more,
  });
}

export function grantSequence(steps: StepList, { table, column }: Pick<On, 'table' | 'column'>): void {
  const users = sequenceUsers(table.model.grants);
  if (users.length === 0) return;
  steps.add({
    ...onColumn(table, column),
    table: null,
    sql: `do ${quoteLiteral(
      `begin execute 'grant usage, select on sequence ' || pg_get_serial_sequence(${quoteLiteral(quoteName(table))}, ${quoteLiteral(column.name)}) || ' to ${users.join(', ')}'; end`,
    )}`,
    stage: 'grants',
    summary: `sequence of ${column.name} for ${users.join(', ')}`,
  });
}

/** Grants the use of a sequence. Inserting roles need it for serial columns, but not for identity columns. */
function hasOwnSequence(column: DesiredColumn): boolean {
  return column.serial && column.model.identity === undefined;
}

function addColumn(steps: StepList, change: ChangeOf<'add-column'>): void {
  const { table, live, column } = change;
  const hasRows = steps.facts.nonEmpty.has(objectKey(table));
  const rewrites = hasRows && steps.facts.rewriting.has(column.at);
  const add = `alter table ${quoteName(table)} add column ${quoteIdent(column.name)}`;
  const summary = `column ${column.name} ${column.typeSql}`;
  const inBatches = rewrites && !steps.isSmall(live, REWRITE_ROWS_PER_MS);
  const value = (hasRows ? column.model.backfill : null) ?? (inBatches ? volatileValue(table, column) : null);
  if (value !== null) {
    steps.add({
      ...onColumn(table, column),
      sql: `${add} ${columnTypeSql(column)}`,
      stage: 'columns',
      summary,
    });
    if (column.serial) makeSerial(steps, change);
    else setDefault(steps, table, column);
    backfill(steps, change, value);
    if (column.notNull) setNotNull(steps, change, value);
    return;
  }
  const withDefault =
    column.default === null || column.generated !== null ? '' : ` default ${column.default.sql}`;
  const hazards: Hazard[] = [];
  if (rewrites) hazards.push('REWRITE');
  else if (hasRows && withDefault !== '' && isStable(column.default?.sql ?? '')) hazards.push('SEMANTIC');
  steps.add({
    ...onColumn(table, column),
    sql: `${add} ${columnDefinitionSql(column)}${withDefault}${column.notNull ? ' not null' : ''}`,
    stage: column.default === null ? 'columns' : 'columns-with-default',
    summary: `${summary}${column.notNull ? ' required' : ''}${column.default ? ` ${column.generated === null ? 'default' : 'generated as'} ${column.default.written}` : ''}`,
    rewrites,
    estimateMs: rewrites ? steps.estimate(live, REWRITE_ROWS_PER_MS) : 1,
    hazards,
  });
  if (hasOwnSequence(column)) grantSequence(steps, { table, column });
}

function backfill(
  steps: StepList,
  { table, live, column }: On,
  value: string,
  stage: Stage = 'backfill',
): void {
  const small = steps.isSmall(live, REWRITE_ROWS_PER_MS);
  const name = quoteIdent(column.name);
  const update = `update ${quoteName(table)} set ${name} = (\n${value}\n) where ${name} is null`;
  const quiet = steps.facts.mayQuiet && mayBeQuiet({ table, live, column });
  steps.add({
    ...onColumn(table, column),
    sql: small && quiet ? quietly(update) : update,
    stage,
    sign: '~',
    summary:
      stage === 'not-null'
        ? `fill ${column.name} of rows written during the backfill`
        : `fill ${column.name}`,
    lane: small ? 'metadata' : 'online',
    lock: 'RowExclusive',
    scans: true,
    estimateMs: steps.estimate(live, small ? REWRITE_ROWS_PER_MS : FILL_ROWS_PER_MS),
    hazards: small ? [] : ['NON_TX'],
    action: small
      ? { kind: 'sql' }
      : { kind: 'backfill', schema: table.schema, table: table.name, column: column.name, value, quiet },
  });
}

/** The setting that suppresses triggers also suppresses foreign keys and storage references. */
function mayBeQuiet({ table, live, column }: On): boolean {
  return (
    !table.references.some((one) => one.column === column.name) &&
    !table.foreignKeys.some((one) => one.columns.includes(column.name)) &&
    !live?.foreignKeys.some((one) => one.columns.includes(column.name))
  );
}

function quietly(update: string): string {
  return `set local session_replication_role = replica; ${update}; set local session_replication_role = origin`;
}

function makeSerial(steps: StepList, { table, column }: Pick<On, 'table' | 'column'>): void {
  const sequence = sequenceOf(table, column);
  const name = quoteIdent(column.name);
  steps.add({
    ...onColumn(table, column),
    sql: [
      `create sequence ${sequence} as ${column.typeSql} owned by ${quoteName(table)}.${name}`,
      `select setval(${quoteLiteral(sequence)}, coalesce((select max(${name}) from ${quoteName(table)}), 0) + 1, false)`,
      `${alterColumn(table, column)} set default nextval(${quoteLiteral(sequence)}::regclass)`,
    ].join('; '),
    stage: 'defaults',
    sign: '~',
    summary: `column ${column.name} serial`,
  });
  grantSequence(steps, { table, column });
}

function changeType(steps: StepList, change: ChangeOf<'change-type'>): void {
  const { table, live, column, liveColumn } = change;
  const rewrites = steps.facts.rewriting.has(column.at);
  const using = usingOf(steps, column);
  const hazards: Hazard[] = ['DATA_DEPENDENT'];
  if (rewrites && !steps.isSmall(live, REWRITE_ROWS_PER_MS)) hazards.push('REWRITE');
  if (using !== null || column.type.startsWith('timestamp') !== liveColumn.type.startsWith('timestamp'))
    hazards.push('SEMANTIC');
  steps.add({
    ...onColumn(table, column),
    sql: `${alterColumn(table, column)} type ${columnTypeSql(column)}${using === null ? '' : ` using (\n${using}\n)`}${widenSequence(change)}`,
    stage: using !== null && steps.callsNewFunction(using) ? 'columns-with-default' : 'types',
    sign: '~',
    summary: `column ${column.name} ${describeTypeChange(liveColumn.type, column.type)}${column.collateSql}`,
    rewrites,
    scans: rewrites,
    estimateMs: rewrites ? steps.estimate(live, REWRITE_ROWS_PER_MS) : 1,
    hazards,
  });
}

/**
 * Changes the type of a serial column's sequence, which limits its numbers. PostgreSQL does so for identity columns.
 */
function widenSequence({ column, liveColumn }: ChangeOf<'change-type'>): string {
  const follows = column.serial && liveColumn.serial && !liveColumn.identity && liveColumn.sequence !== null;
  return follows ? `; alter sequence ${liveColumn.sequence} as ${column.typeSql}` : '';
}

/** `filling`: the value that the same change already backfills. */
function setNotNull(steps: StepList, on: On, filling?: string): void {
  const { table, live, column } = on;
  const set = `${alterColumn(table, column)} set not null`;
  const summary = `column ${column.name} required`;
  const hasNulls = live?.columns.has(column.name) && steps.facts.toBackfill.has(column.at);
  const begun = steps.facts.begunBackfills.get(column.at);
  const value = filling ?? begun ?? (hasNulls ? column.model.backfill : null) ?? null;
  if (value !== null && filling === undefined) backfill(steps, on, value);
  if (steps.isSmall(live, value === null ? SCAN_ROWS_PER_MS : REWRITE_ROWS_PER_MS)) {
    steps.add({
      ...onColumn(table, column),
      sql: set,
      stage: 'not-null',
      sign: '~',
      summary,
      scans: true,
      estimateMs: steps.estimate(live, SCAN_ROWS_PER_MS),
      hazards: ['DATA_DEPENDENT'],
    });
    return;
  }
  // With a valid CHECK, SET NOT NULL does not scan the table, so it does not block writers for long.
  const guard = quoteIdent(transientLabel('nn', column.at));
  const online = { ...onColumn(table, column), lane: 'online', stage: 'not-null', sign: '~' } as const;
  steps.add({
    ...online,
    // During the backfill the guard would reject updates of rows that are not filled yet.
    lane: value === null ? 'metadata' : 'online',
    sql: `alter table ${quoteName(table)} drop constraint if exists ${guard}, add constraint ${guard} check (${quoteIdent(column.name)} is not null) not valid`,
    summary: `${summary}: guard for new rows`,
    hazards: ['DATA_DEPENDENT'],
  });
  // Fills rows that are written between the backfill and the guard.
  if (value !== null) backfill(steps, on, value, 'not-null');
  steps.add({
    ...online,
    sql: `alter table ${quoteName(table)} validate constraint ${guard}`,
    summary: `${summary}: check rows`,
    lock: 'ShareUpdateExclusive',
    scans: true,
    estimateMs: steps.estimate(live, SCAN_ROWS_PER_MS),
    hazards: ['DATA_DEPENDENT', 'NON_TX'],
  });
  steps.add({
    ...online,
    sql: `${set}; alter table ${quoteName(table)} drop constraint ${guard}`,
    summary,
    hazards: ['NON_TX'],
  });
}

function volatileValue(table: DesiredTable, column: DesiredColumn): string | null {
  // Generated columns cannot be filled in batches, and a column is filled before it becomes an identity column.
  if (column.generated !== null || column.model.identity !== undefined) return null;
  if (column.serial) return `nextval(${quoteLiteral(sequenceOf(table, column))}::regclass)`;
  return column.default?.sql ?? null;
}

function sequenceOf(table: DesiredTable, column: DesiredColumn): string {
  return quoteName({ schema: table.schema, name: sequenceLabel(table.name, column.name) });
}

function isStable(text: string): boolean {
  return !/^\s*E?'(?:[^']|'')*'$/.test(text);
}
