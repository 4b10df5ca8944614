// Tables and columns as statements: making them, changing their type, default and NOT NULL, and filling rows in
// batches where one statement would hold writers too long.
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { TypeChange } from '../diff/change.ts';
import type { DesiredColumn, DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live-schema.ts';
import { sequenceLabel, transientLabel } from '../schema/label.ts';
import { keyOf } from '../schema/model.ts';
import { nameOf } from '../schema/qualified-name.ts';
import {
  alterColumn,
  onColumn,
  REWRITE_ROWS_PER_MS,
  SCAN_ROWS_PER_MS,
  type StepList,
  usingOf,
} from './step-list.ts';
import { type Hazard, PHASE } from './step.ts';

export function createTable(steps: StepList, table: DesiredTable): void {
  const columns = table.columns.map((column) => {
    const type = column.serial ? (column.model.type ?? column.typeSql) : column.typeSql;
    return { name: column.name, sql: `${quoteIdent(column.name)} ${type}`, notNull: column.notNull };
  });
  const clauses = columns.map((column) => `${column.sql}${column.notNull ? ' not null' : ''}`);
  steps.add({
    sql: `create table ${nameOf(table)} (${clauses.join(', ')})`,
    part: { kind: 'table', table: nameOf(table), columns },
    phase: PHASE.columns,
    identity: table.at,
    summary: `table ${table.name} (${table.columns.length} columns)`,
  });
  for (const column of table.columns) {
    if (column.serial) grantSequence(steps, table, column);
    if (column.default === null) continue;
    steps.add({
      ...onColumn(table, column),
      table: null,
      sql: `${alterColumn(table, column)} set default ${column.default.sql}`,
      part: { kind: 'default', table: nameOf(table), column: column.name, sql: column.default.sql },
      phase: PHASE.defaults,
      summary: `column ${column.name} default ${column.default.written}`,
    });
  }
}

export function grantSequence(steps: StepList, table: DesiredTable, column: DesiredColumn): void {
  steps.add({
    ...onColumn(table, column),
    table: null,
    sql: `do ${quoteLiteral(
      `begin execute 'grant usage, select on sequence ' || pg_get_serial_sequence(${quoteLiteral(nameOf(table))}, ${quoteLiteral(column.name)}) || ' to anon, authenticated, service_role'; end`,
    )}`,
    phase: PHASE.grants,
    summary: `sequence of ${column.name} for the API roles`,
  });
}

export function addColumn(
  steps: StepList,
  table: DesiredTable,
  live: LiveTable | null,
  column: DesiredColumn,
): void {
  const identity = column.at;
  const type = column.serial ? (column.model.type ?? column.typeSql) : column.typeSql;
  const filled = steps.facts.nonEmpty.has(keyOf(table));
  const rewrites = filled && steps.facts.rewriting.has(identity);
  const add = `alter table ${nameOf(table)} add column ${quoteIdent(column.name)}`;
  const describe = `column ${column.name} ${column.typeSql}`;
  const backfill = filled ? column.model.backfill : null;
  const value =
    backfill ?? (rewrites && !steps.isSmall(live, REWRITE_ROWS_PER_MS) ? volatileValue(table, column) : null);
  if (column.serial && value !== null) {
    steps.add({
      ...onColumn(table, column),
      sql: `${add} ${column.typeSql}`,
      phase: PHASE.columns,
      summary: describe,
    });
    makeSerial(steps, table, column);
    planBackfill(steps, table, live, column, value);
    setNotNull(steps, table, live, column, value);
    return;
  }
  if (value !== null) {
    steps.add({
      ...onColumn(table, column),
      sql: `${add} ${column.typeSql}`,
      phase: PHASE.columns,
      summary: describe,
    });
    if (column.default) {
      steps.add({
        ...onColumn(table, column),
        sql: `${alterColumn(table, column)} set default ${column.default.sql}`,
        phase: PHASE.defaults,
        summary: `column ${column.name} default ${column.default.written}`,
      });
    }
    planBackfill(steps, table, live, column, value);
    if (column.notNull) setNotNull(steps, table, live, column, value);
    return;
  }
  const hazards: Hazard[] = [];
  if (rewrites) hazards.push('REWRITE');
  else if (filled && column.default !== null && isStable(column.default.sql)) hazards.push('SEMANTIC');
  const withDefault = column.default === null ? '' : ` default ${column.default.sql}`;
  steps.add({
    ...onColumn(table, column),
    sql: `${add} ${type}${withDefault}${column.notNull ? ' not null' : ''}`,
    // Behind the functions: adding the default later would leave the rows that are there without it.
    phase: column.default === null ? PHASE.columns : PHASE.defaultedColumns,
    summary: `${describe}${column.notNull ? ' required' : ''}${column.default ? ` default ${column.default.written}` : ''}`,
    rewrites,
    estimateMs: rewrites ? steps.estimate(live, REWRITE_ROWS_PER_MS) : 1,
    hazards,
  });
  if (column.serial) grantSequence(steps, table, column);
}

export function planBackfill(
  steps: StepList,
  table: DesiredTable,
  live: LiveTable | null,
  column: DesiredColumn,
  value: string,
  phase: number = PHASE.fill,
): void {
  const small = steps.isSmall(live, REWRITE_ROWS_PER_MS);
  const name = quoteIdent(column.name);
  const update = `update ${nameOf(table)} set ${name} = (\n${value}\n) where ${name} is null`;
  const quiet = steps.facts.mayQuiet && mayFillQuietly(table, live, column);
  steps.add({
    ...onColumn(table, column),
    sql: small && quiet ? quietly(update) : update,
    phase,
    sign: '~',
    summary: `fill ${column.name}`,
    lane: small ? 'metadata' : 'online',
    lock: 'RowExclusive',
    scans: true,
    estimateMs: steps.estimate(live, REWRITE_ROWS_PER_MS),
    hazards: small ? [] : ['NON_TX'],
    action: small
      ? { kind: 'sql' }
      : { kind: 'backfill', schema: table.schema, table: table.name, column: column.name, value, quiet },
  });
}

/** The same switch that keeps triggers quiet turns foreign keys and storage references off. */
function mayFillQuietly(table: DesiredTable, live: LiveTable | null, column: DesiredColumn): boolean {
  return (
    !table.references.some((one) => one.column === column.name) &&
    !table.foreignKeys.some((one) => one.column === column.name) &&
    !live?.foreignKeys.some((one) => one.columns.includes(column.name))
  );
}

function quietly(update: string): string {
  return `set local session_replication_role = replica; ${update}; set local session_replication_role = origin`;
}

export function makeSerial(steps: StepList, table: DesiredTable, column: DesiredColumn): void {
  const sequence = `${quoteIdent(table.schema)}.${quoteIdent(sequenceLabel(table.name, column.name))}`;
  const name = quoteIdent(column.name);
  steps.add({
    ...onColumn(table, column),
    sql: [
      `create sequence ${sequence} as ${column.typeSql} owned by ${nameOf(table)}.${name}`,
      `select setval(${quoteLiteral(sequence)}, coalesce((select max(${name}) from ${nameOf(table)}), 0) + 1, false)`,
      `${alterColumn(table, column)} set default nextval(${quoteLiteral(sequence)}::regclass)`,
    ].join('; '),
    phase: PHASE.defaults,
    sign: '~',
    summary: `column ${column.name} serial`,
  });
  grantSequence(steps, table, column);
}

export function changeType(steps: StepList, change: TypeChange): void {
  const { table, live, column, liveColumn } = change;
  const rewrites = steps.facts.rewriting.has(column.at);
  const using = usingOf(steps, column);
  const hazards: Hazard[] = ['DATA_DEPENDENT'];
  if (rewrites && !steps.isSmall(live, REWRITE_ROWS_PER_MS)) hazards.push('REWRITE');
  if (using !== null || column.type.startsWith('timestamp') !== liveColumn.type.startsWith('timestamp'))
    hazards.push('SEMANTIC');
  steps.add({
    ...onColumn(table, column),
    sql: `${alterColumn(table, column)} type ${column.typeSql}${using === null ? '' : ` using (\n${using}\n)`}${widenSequence(change)}`,
    phase: PHASE.types,
    sign: '~',
    summary: `column ${column.name} ${liveColumn.type} → ${column.type}`,
    rewrites,
    scans: rewrites,
    estimateMs: rewrites ? steps.estimate(live, REWRITE_ROWS_PER_MS) : 1,
    hazards,
  });
}

/** A serial's sequence would end where the old type did; an identity column's follows by itself. */
function widenSequence({ column, liveColumn }: TypeChange): string {
  const follows = column.serial && liveColumn.serial && !liveColumn.identity && liveColumn.sequence !== null;
  return follows ? `; alter sequence ${liveColumn.sequence} as ${column.typeSql}` : '';
}

export function setNotNull(
  steps: StepList,
  table: DesiredTable,
  live: LiveTable | null,
  column: DesiredColumn,
  filling?: string,
): void {
  const set = `${alterColumn(table, column)} set not null`;
  const summary = `column ${column.name} required`;
  const waits = live?.columns.has(column.name) && steps.facts.toBackfill.has(column.at);
  const begun = steps.facts.begunBackfills.get(column.at);
  const value = filling ?? begun ?? (waits ? column.model.backfill : null) ?? null;
  if (value !== null && filling === undefined) planBackfill(steps, table, live, column, value);
  if (steps.isSmall(live, value === null ? SCAN_ROWS_PER_MS : REWRITE_ROWS_PER_MS)) {
    steps.add({
      ...onColumn(table, column),
      sql: set,
      phase: PHASE.notNull,
      sign: '~',
      summary,
      scans: true,
      estimateMs: steps.estimate(live, SCAN_ROWS_PER_MS),
      hazards: ['DATA_DEPENDENT'],
    });
    return;
  }
  // A valid CHECK lets SET NOT NULL skip its scan, so writers are never held while rows are read.
  const guard = quoteIdent(transientLabel('nn', column.at));
  const online = { ...onColumn(table, column), lane: 'online', sign: '~' } as const;
  steps.add({
    ...online,
    // While rows are still being filled, the guard would refuse an update of any row not reached yet.
    lane: value === null ? 'metadata' : 'online',
    sql: `alter table ${nameOf(table)} drop constraint if exists ${guard}, add constraint ${guard} check (${quoteIdent(column.name)} is not null) not valid`,
    phase: PHASE.notNull,
    summary: `${summary}: guard for new rows`,
    hazards: ['DATA_DEPENDENT'],
  });
  // What was written between the fill and the guard.
  if (value !== null) planBackfill(steps, table, live, column, value, PHASE.notNull + 1);
  steps.add({
    ...online,
    sql: `alter table ${nameOf(table)} validate constraint ${guard}`,
    phase: PHASE.notNull + 2,
    summary: `${summary}: check rows`,
    lock: 'ShareUpdateExclusive',
    scans: true,
    estimateMs: steps.estimate(live, SCAN_ROWS_PER_MS),
    hazards: ['DATA_DEPENDENT', 'NON_TX'],
  });
  steps.add({
    ...online,
    sql: `${set}; alter table ${nameOf(table)} drop constraint ${guard}`,
    phase: PHASE.notNull + 3,
    summary,
    hazards: ['NON_TX'],
  });
}

function volatileValue(table: DesiredTable, column: DesiredColumn): string | null {
  if (column.serial) {
    const sequence = `${quoteIdent(table.schema)}.${quoteIdent(sequenceLabel(table.name, column.name))}`;
    return `nextval(${quoteLiteral(sequence)}::regclass)`;
  }
  return column.default?.sql ?? null;
}

function isStable(text: string): boolean {
  return !/^\s*E?'(?:[^']|'')*'$/.test(text);
}
