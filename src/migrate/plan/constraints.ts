// Statements for keys, checks, foreign keys and indexes. On large tables they are built and validated concurrently with
// writes. Only the last, short step takes a strong lock.
import type { ChangeOf } from '../diff/change-kinds.ts';
import type { DesiredIndex } from '../schema/indexes.ts';
import { quoteIdent } from '../../postgres/sql.ts';
import type { DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { describeIndex, indexBodySql } from '../schema/sql/index-sql.ts';
import { deferrableSql, describeForeignKey, foreignKeySql } from '../schema/sql/foreign-key-sql.ts';
import { indexLabel, transientLabel } from '../schema/label.ts';
import { objectKey, quoteName, tableKey } from '../schema/model.ts';
import type { LivePartitioning } from '../schema/partitions.ts';
import {
  BUILD_ROWS_PER_MS,
  onTable,
  type Planners,
  REFERENCE_ROWS_PER_MS,
  SCAN_ROWS_PER_MS,
  type StepList,
} from './step-list.ts';
import type { Hazard, Lane, Stage } from './step.ts';

export const CONSTRAINTS = {
  'add-key': addKey,
  'drop-key': (steps, { table, key }) => {
    const what = `${key.kind} key (${key.columns.join(', ')})`;
    dropConstraint(steps, table, key.label, what, 'drop-keys', ['BREAKS_OLD_CODE']);
  },
  'add-check': addCheck,
  'drop-check': (steps, { table, check: { label } }) =>
    dropConstraint(steps, table, label, `check ${label}`, 'drop-keys'),
  'add-exclusion': (steps, { table, live, exclusion: { label, sql, describe, at } }) =>
    steps.add({
      identity: at,
      table: live ? objectKey(table) : null,
      sql: `alter table ${quoteName(table)} add constraint ${quoteIdent(label)} ${sql}`,
      stage: 'checks',
      summary: describe,
      scans: live !== null,
      estimateMs: steps.estimate(live, BUILD_ROWS_PER_MS),
      hazards: live ? ['DATA_DEPENDENT'] : [],
    }),
  'drop-exclusion': (steps, { table, exclusion: { label } }) =>
    dropConstraint(steps, table, label, `exclusion constraint ${label}`, 'drop-keys'),
  'validate-check': (steps, change) => validate(steps, change, change.check.label, 'check'),
  'add-foreign-key': addForeignKey,
  'drop-foreign-key': (steps, { table, foreignKey }) =>
    steps.add({
      ...onTable(table),
      otherTables: steps.targetsOf(foreignKey, objectKey(table)),
      sql: `alter table ${quoteName(table)} drop constraint ${quoteIdent(foreignKey.label)}`,
      stage: 'drop-dependants',
      sign: '-',
      summary: `foreign key ${foreignKey.label}`,
    }),
  'validate-foreign-key': (steps, change) =>
    validate(steps, change, change.foreignKey.label, 'foreign key', change.table.at, {
      rate: REFERENCE_ROWS_PER_MS,
    }),
  'add-index': addIndex,
  'drop-index': dropIndex,
  'rename-index': (steps, { table, index, label }) => renameIndex(steps, table, index.label, label),
} satisfies Partial<Planners>;

function addKey(steps: StepList, { table, live, key }: ChangeOf<'add-key'>): void {
  const words = key.kind === 'primary' ? 'primary key' : 'unique';
  const columns = key.columns.map(quoteIdent).join(', ');
  const nulls = key.nullsNotDistinct ? ' nulls not distinct' : '';
  const deferrable = deferrableSql(key.deferrable);
  const summary = `${words} (${key.columns.join(', ')})${nulls}${deferrable}`;
  const label = quoteIdent(key.label);
  const base = { identity: key.at, table: live ? objectKey(table) : null, summary, stage: 'keys' } as const;
  if (inOneStep(steps, live)) {
    const constraint = `constraint ${label} ${words}${nulls} (${columns})${deferrable}`;
    steps.add({
      ...base,
      sql: `alter table ${quoteName(table)} add ${constraint}`,
      scans: live !== null,
      estimateMs: steps.estimate(live, BUILD_ROWS_PER_MS),
      hazards: live ? ['DATA_DEPENDENT'] : [],
    });
    return;
  }
  steps.add({
    ...base,
    sql: `create unique index concurrently ${label} on ${quoteName(table)} (${columns})${nulls}`,
    lane: 'concurrent',
    summary: `${summary}: build index`,
    lock: 'ShareUpdateExclusive',
    estimateMs: steps.estimate(live, BUILD_ROWS_PER_MS),
    hazards: ['DATA_DEPENDENT', 'INDEX_BUILD', 'NON_TX'],
    action: { kind: 'build-index', schema: table.schema, label: key.label },
  });
  steps.add({
    ...base,
    sql: `alter table ${quoteName(table)} add constraint ${label} ${words} using index ${label}${deferrable}`,
    lane: 'concurrent',
    hazards: ['NON_TX'],
  });
}

function addCheck(steps: StepList, change: ChangeOf<'add-check'>): void {
  const { table, live, check, replaces } = change;
  const { at } = check.expression;
  const what = `${check.role} of ${check.column ?? table.name}`;
  if (replaces) {
    steps.add({
      identity: at,
      table: objectKey(table),
      sql: `alter table ${quoteName(table)} drop constraint ${quoteIdent(replaces.label)}`,
      stage: 'drop-dependants',
      sign: '-',
      summary: `${what} (replaced)`,
    });
  }
  const small = !check.notValid && steps.isSmall(live, SCAN_ROWS_PER_MS);
  const constraint = `constraint ${quoteIdent(check.label)} check (\n${check.expression.sql}\n)`;
  steps.add({
    identity: at,
    table: live ? objectKey(table) : null,
    sql: `alter table ${quoteName(table)} add ${constraint}${small ? '' : ' not valid'}`,
    stage: 'checks',
    sign: replaces ? '~' : '+',
    summary: `${what}: ${check.expression.written}`,
    scans: small && live !== null,
    estimateMs: small ? steps.estimate(live, SCAN_ROWS_PER_MS) : 1,
    hazards: live ? ['DATA_DEPENDENT'] : [],
  });
  if (!small && !check.notValid) validate(steps, change, check.label, what, at);
}

function addForeignKey(steps: StepList, change: ChangeOf<'add-foreign-key'>): void {
  const { table, live, foreignKey } = change;
  const { at, targetSchema, targetTable, targetColumns } = foreignKey;
  const small = !foreignKey.notValid && checksRowsAtOnce(steps, table, live);
  const keyLane = steps.laneOfKey(tableKey(targetSchema, targetTable), targetColumns);
  const isLate = keyLane === 'concurrent';
  const what = describeForeignKey(foreignKey);
  const constraint = `constraint ${quoteIdent(foreignKey.label)} ${foreignKeySql(foreignKey)}`;
  const hazards: Hazard[] = live ? ['DATA_DEPENDENT'] : [];
  steps.add({
    identity: at,
    table: live ? objectKey(table) : null,
    sql: `alter table ${quoteName(table)} add ${constraint}${small ? '' : ' not valid'}`,
    lane: isLate ? 'concurrent' : 'metadata',
    stage: 'foreign-keys',
    summary: what,
    otherTables: steps.targetsOf(foreignKey, objectKey(table)),
    lock: 'ShareRowExclusive',
    scans: small && live !== null,
    estimateMs: small ? steps.estimate(live, REFERENCE_ROWS_PER_MS) : 1,
    hazards: isLate ? [...hazards, 'NON_TX'] : hazards,
  });
  if (!small && !foreignKey.notValid) {
    const lane = isLate ? 'concurrent' : 'online';
    validate(steps, change, foreignKey.label, `foreign key ${foreignKey.columns.join(', ')}`, at, {
      lane,
      rate: REFERENCE_ROWS_PER_MS,
    });
  }
}

/**
 * The transaction that drops a former key blocks readers of both tables until it commits. So the rows are validated
 * afterwards, unless the table is small.
 */
function checksRowsAtOnce(steps: StepList, table: DesiredTable, live: LiveTable | null): boolean {
  if (checksAtOnce(live, steps.facts.serverVersion)) return true;
  const isLocked = live !== null && steps.dropsForeignKeyOf(objectKey(table));
  if (!isLocked) return steps.isSmall(live, REFERENCE_ROWS_PER_MS);
  return steps.isNegligible(steps.estimate(live, REFERENCE_ROWS_PER_MS));
}

function validate(
  steps: StepList,
  { table, live }: { readonly table: DesiredTable; readonly live: LiveTable | null },
  label: string,
  what: string,
  at: string = table.at,
  { lane = 'online', rate = SCAN_ROWS_PER_MS }: { readonly lane?: Lane; readonly rate?: number } = {},
): void {
  steps.add({
    identity: at,
    table: objectKey(table),
    sql: `alter table ${quoteName(table)} validate constraint ${quoteIdent(label)}`,
    lane,
    stage: 'foreign-keys',
    sign: '~',
    summary: `${what}: check rows`,
    lock: 'ShareUpdateExclusive',
    scans: true,
    estimateMs: steps.estimate(live, rate),
    hazards: ['DATA_DEPENDENT', 'NON_TX'],
  });
}

function dropConstraint(
  steps: StepList,
  table: DesiredTable,
  label: string,
  summary: string,
  stage: Stage,
  hazards: readonly Hazard[] = [],
): void {
  const sql = `alter table ${quoteName(table)} drop constraint ${quoteIdent(label)}`;
  steps.add({ ...onTable(table), sql, stage, sign: '-', summary, hazards });
}

/** Returns whether a foreign key can refer to the columns of this index. */
export function isKeyIndex(index: DesiredIndex): boolean {
  return index.plain && index.unique && index.predicate === null;
}

function addIndex(steps: StepList, { table, live, index, holder }: ChangeOf<'add-index'>): void {
  const small = steps.isSmall(live, BUILD_ROWS_PER_MS);
  // A large index is built before the index with its label is dropped, so that readers always have an index.
  const label = holder && !small ? transientLabel('b', JSON.stringify([table.at, index.label])) : index.label;
  if (!small && isPartitioned(live)) {
    addPartitionedIndex(steps, { table, index }, live, label);
    if (label !== index.label) renameIndex(steps, table, label, index.label);
    return;
  }
  const where = index.predicate === null ? '' : ` where (\n${index.predicate.sql}\n)`;
  const unique = index.unique ? 'unique ' : '';
  const hazards: Hazard[] = live && index.unique ? ['DATA_DEPENDENT'] : [];
  steps.add({
    identity: index.at,
    table: live ? objectKey(table) : null,
    sql: `create ${unique}index ${small ? '' : 'concurrently '}${quoteIdent(label)} on ${quoteName(table)} ${indexBodySql(index.model)}${where}`,
    lane: small ? 'metadata' : index.unique ? 'concurrent' : 'background',
    stage: isKeyIndex(index) ? 'keys' : 'indexes',
    summary: `${unique}index ${describeIndex(index.model)}${index.predicate ? ` where ${index.predicate.written}` : ''}`,
    lock: small ? 'Share' : 'ShareUpdateExclusive',
    scans: live !== null,
    estimateMs: steps.estimate(live, BUILD_ROWS_PER_MS),
    hazards: small ? hazards : [...hazards, 'INDEX_BUILD', 'NON_TX'],
    action: small ? { kind: 'sql' } : { kind: 'build-index', schema: table.schema, label },
  });
  if (label !== index.label) renameIndex(steps, table, label, index.label);
}

function renameIndex(steps: StepList, table: DesiredTable, from: string, to: string): void {
  const name = quoteName({ schema: table.schema, name: from });
  steps.add({
    identity: `${table.at}.indexes`,
    table: objectKey(table),
    sql: `alter index ${name} rename to ${quoteIdent(to)}`,
    lane: 'background',
    stage: 'rename-indexes',
    sign: '~',
    summary: `index ${to}: put in place`,
    lock: 'ShareUpdateExclusive',
    hazards: ['NON_TX'],
  });
}

/** PostgreSQL has neither ADD CONSTRAINT USING INDEX nor DROP INDEX CONCURRENTLY for partitioned tables. */
function inOneStep(steps: StepList, live: LiveTable | null): boolean {
  return isPartitioned(live) || steps.isSmall(live, BUILD_ROWS_PER_MS);
}

/** Before version 18, PostgreSQL checks all rows when a foreign key is added to a partitioned table. */
export function checksAtOnce(live: LiveTable | null, serverVersion: number): boolean {
  return isPartitioned(live) && serverVersion < 180_000;
}

export function isPartitioned(live: LiveTable | null): live is LiveTable & {
  readonly partitioning: LivePartitioning;
} {
  return live !== null && live.partitioning !== null;
}

/**
 * Builds an index of a large partitioned table: first an invalid index of the table alone, then an index of each
 * partition, built concurrently and attached. Attaching the last one makes the index valid.
 */
function addPartitionedIndex(
  steps: StepList,
  { table, index }: Pick<ChangeOf<'add-index'>, 'table' | 'index'>,
  live: LiveTable,
  label: string,
): void {
  const unique = index.unique ? 'unique ' : '';
  const where = index.predicate === null ? '' : ` where (\n${index.predicate.sql}\n)`;
  const body = `${indexBodySql(index.model)}${where}`;
  const summary = `${unique}index ${describeIndex(index.model)}`;
  const base = {
    identity: index.at,
    table: objectKey(table),
    lane: index.unique ? 'concurrent' : 'background',
    stage: isKeyIndex(index) ? 'keys' : 'indexes',
  } as const;
  const hazards: Hazard[] = index.unique ? ['DATA_DEPENDENT', 'NON_TX'] : ['NON_TX'];
  const alone = (name: string, of: { readonly schema: string; readonly name: string }): string =>
    `create ${unique}index ${quoteIdent(name)} on only ${quoteName(of)} ${body}`;
  steps.add({ ...base, sql: alone(label, table), summary: `${summary}: begun`, lock: 'Share', hazards });
  const partitions = steps.partitionsOf(live);
  const leaves = partitions.filter(({ isLeaf }) => isLeaf).length;
  const labels = new Map<string | null, string>([[null, label]]);
  for (const part of partitions) {
    const own = indexLabel(part.name, index.columns, index.unique, index.model.where, body);
    labels.set(part.name, own);
    if (!part.isLeaf)
      steps.add({
        ...base,
        sql: alone(own, part),
        summary: `${summary} of ${part.name}: begun`,
        lock: 'Share',
        hazards,
      });
    else
      steps.add({
        ...base,
        sql: `create ${unique}index concurrently ${quoteIdent(own)} on ${quoteName(part)} ${body}`,
        summary: `${summary} of ${part.name}`,
        lock: 'ShareUpdateExclusive',
        scans: true,
        estimateMs: steps.estimate(live, BUILD_ROWS_PER_MS) / leaves,
        hazards: [...hazards, 'INDEX_BUILD'],
        action: { kind: 'build-index', schema: part.schema, label: own },
      });
    const whole = quoteName({ schema: table.schema, name: labels.get(part.parent) ?? label });
    steps.add({
      ...base,
      sql: `alter index ${whole} attach partition ${quoteName({ schema: part.schema, name: own })}`,
      sign: '~',
      summary: `${summary} of ${part.name}: in place`,
      lock: 'ShareUpdateExclusive',
      hazards,
    });
  }
}

function dropIndex(steps: StepList, { table, live, index, isReplaced }: ChangeOf<'drop-index'>): void {
  const { label, valid } = index;
  const small = inOneStep(steps, live);
  const name = quoteName({ schema: table.schema, name: label });
  steps.add({
    identity: `${table.at}.indexes`,
    table: objectKey(table),
    sql: small ? `drop index ${name}` : `drop index concurrently if exists ${name}`,
    lane: small ? 'metadata' : isReplaced ? 'background' : 'concurrent',
    stage: isReplaced && !small ? 'drop-indexes' : 'drop-keys',
    sign: '-',
    summary: `index ${label}${valid ? '' : ' (half built)'}`,
    lock: small ? 'AccessExclusive' : 'ShareUpdateExclusive',
    hazards: small ? ['INDEX_DROPPED'] : ['INDEX_DROPPED', 'NON_TX'],
    action: small ? { kind: 'sql' } : { kind: 'drop-index', schema: table.schema, label },
  });
}
