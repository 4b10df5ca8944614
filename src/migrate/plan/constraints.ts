// Keys, checks, foreign keys and indexes as statements. On a large table they are built and validated while others
// write; only the last, short step takes a strong lock.
import type { DesiredIndex } from '../schema/indexes.ts';
import { quoteIdent } from '../../postgres/sql.ts';
import type { DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { describeIndex, indexBodySql } from '../schema/sql/index-sql.ts';
import { deferrableSql, describeForeignKey, foreignKeySql } from '../schema/sql/foreign-key-sql.ts';
import { indexLabel, transientLabel } from '../schema/label.ts';
import { keyOf, nameOf, tableKey } from '../schema/model.ts';
import type { LivePartitioning } from '../schema/partitions.ts';
import {
  BUILD_ROWS_PER_MS,
  type ChangeOf,
  onTable,
  type Planners,
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
      table: live ? keyOf(table) : null,
      sql: `alter table ${nameOf(table)} add constraint ${quoteIdent(label)} ${sql}`,
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
  'drop-foreign-key': (steps, { table, foreignKey: { label } }) =>
    dropConstraint(steps, table, label, `foreign key ${label}`, 'drop-dependants'),
  'validate-foreign-key': (steps, change) => validate(steps, change, change.foreignKey.label, 'foreign key'),
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
  const base = { identity: key.at, table: live ? keyOf(table) : null, summary, stage: 'keys' } as const;
  if (inOneStep(steps, live)) {
    const constraint = `constraint ${label} ${words}${nulls} (${columns})${deferrable}`;
    steps.add({
      ...base,
      sql: `alter table ${nameOf(table)} add ${constraint}`,
      scans: live !== null,
      estimateMs: steps.estimate(live, BUILD_ROWS_PER_MS),
      hazards: live ? ['DATA_DEPENDENT'] : [],
    });
    return;
  }
  steps.add({
    ...base,
    sql: `create unique index concurrently ${label} on ${nameOf(table)} (${columns})${nulls}`,
    lane: 'concurrent',
    summary: `${summary}: build index`,
    lock: 'ShareUpdateExclusive',
    estimateMs: steps.estimate(live, BUILD_ROWS_PER_MS),
    hazards: ['DATA_DEPENDENT', 'INDEX_BUILD', 'NON_TX'],
    action: { kind: 'build-index', schema: table.schema, label: key.label },
  });
  steps.add({
    ...base,
    sql: `alter table ${nameOf(table)} add constraint ${label} ${words} using index ${label}${deferrable}`,
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
      table: keyOf(table),
      sql: `alter table ${nameOf(table)} drop constraint ${quoteIdent(replaces.label)}`,
      stage: 'drop-dependants',
      sign: '-',
      summary: `${what} (replaced)`,
    });
  }
  const small = !check.notValid && steps.isSmall(live, SCAN_ROWS_PER_MS);
  const constraint = `constraint ${quoteIdent(check.label)} check (\n${check.expression.sql}\n)`;
  steps.add({
    identity: at,
    table: live ? keyOf(table) : null,
    sql: `alter table ${nameOf(table)} add ${constraint}${small ? '' : ' not valid'}`,
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
  const isWhole = steps.isSmall(live, SCAN_ROWS_PER_MS) || checksAtOnce(live, steps.facts.serverVersion);
  const small = !foreignKey.notValid && isWhole;
  const keyLane = steps.laneOfKey(tableKey(targetSchema, targetTable), targetColumns);
  const isLate = keyLane === 'concurrent';
  const what = describeForeignKey(foreignKey);
  const constraint = `constraint ${quoteIdent(foreignKey.label)} ${foreignKeySql(foreignKey)}`;
  const hazards: Hazard[] = live ? ['DATA_DEPENDENT'] : [];
  steps.add({
    identity: at,
    table: live ? keyOf(table) : null,
    sql: `alter table ${nameOf(table)} add ${constraint}${small ? '' : ' not valid'}`,
    lane: isLate ? 'concurrent' : 'metadata',
    stage: 'foreign-keys',
    summary: what,
    lock: 'ShareRowExclusive',
    scans: small && live !== null,
    estimateMs: small ? steps.estimate(live, SCAN_ROWS_PER_MS) : 1,
    hazards: isLate ? [...hazards, 'NON_TX'] : hazards,
  });
  if (!small && !foreignKey.notValid) {
    const lane = isLate ? 'concurrent' : 'online';
    validate(steps, change, foreignKey.label, `foreign key ${foreignKey.columns.join(', ')}`, at, lane);
  }
}

function validate(
  steps: StepList,
  { table, live }: { readonly table: DesiredTable; readonly live: LiveTable | null },
  label: string,
  what: string,
  at: string = table.at,
  lane: Lane = 'online',
): void {
  steps.add({
    identity: at,
    table: keyOf(table),
    sql: `alter table ${nameOf(table)} validate constraint ${quoteIdent(label)}`,
    lane,
    stage: 'foreign-keys',
    sign: '~',
    summary: `${what}: check rows`,
    lock: 'ShareUpdateExclusive',
    scans: true,
    estimateMs: steps.estimate(live, SCAN_ROWS_PER_MS),
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
  const sql = `alter table ${nameOf(table)} drop constraint ${quoteIdent(label)}`;
  steps.add({ ...onTable(table), sql, stage, sign: '-', summary, hazards });
}

/** Whether a foreign key can refer to what this index keeps unique. */
export function isKeyIndex(index: DesiredIndex): boolean {
  return index.plain && index.unique && index.predicate === null;
}

function addIndex(steps: StepList, { table, live, index, holder }: ChangeOf<'add-index'>): void {
  const small = steps.isSmall(live, BUILD_ROWS_PER_MS);
  // A large one is built beside the one that has its label, so that readers always have an index.
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
    table: live ? keyOf(table) : null,
    sql: `create ${unique}index ${small ? '' : 'concurrently '}${quoteIdent(label)} on ${nameOf(table)} ${indexBodySql(index.model)}${where}`,
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
  const name = nameOf({ schema: table.schema, name: from });
  steps.add({
    identity: `${table.at}.indexes`,
    table: keyOf(table),
    sql: `alter index ${name} rename to ${quoteIdent(to)}`,
    lane: 'background',
    stage: 'rename-indexes',
    sign: '~',
    summary: `index ${to}: put in place`,
    lock: 'ShareUpdateExclusive',
    hazards: ['NON_TX'],
  });
}

/** PostgreSQL makes no key of a partitioned table from an index, and drops no index of one concurrently. */
function inOneStep(steps: StepList, live: LiveTable | null): boolean {
  return isPartitioned(live) || steps.isSmall(live, BUILD_ROWS_PER_MS);
}

/** Before 18, PostgreSQL adds no foreign key to a partitioned table without checking its rows at once. */
export function checksAtOnce(live: LiveTable | null, serverVersion: number): boolean {
  return isPartitioned(live) && serverVersion < 180_000;
}

export function isPartitioned(live: LiveTable | null): live is LiveTable & {
  readonly partitioning: LivePartitioning;
} {
  return live !== null && live.partitioning !== null;
}

/**
 * Of a large partitioned table: an index of the table alone, which is not valid yet, then one of each partition, built
 * while others write and attached. The last one makes it valid.
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
    table: keyOf(table),
    lane: index.unique ? 'concurrent' : 'background',
    stage: isKeyIndex(index) ? 'keys' : 'indexes',
  } as const;
  const hazards: Hazard[] = index.unique ? ['DATA_DEPENDENT', 'NON_TX'] : ['NON_TX'];
  const alone = (name: string, of: { readonly schema: string; readonly name: string }): string =>
    `create ${unique}index ${quoteIdent(name)} on only ${nameOf(of)} ${body}`;
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
        sql: `create ${unique}index concurrently ${quoteIdent(own)} on ${nameOf(part)} ${body}`,
        summary: `${summary} of ${part.name}`,
        lock: 'ShareUpdateExclusive',
        scans: true,
        estimateMs: steps.estimate(live, BUILD_ROWS_PER_MS) / leaves,
        hazards: [...hazards, 'INDEX_BUILD'],
        action: { kind: 'build-index', schema: part.schema, label: own },
      });
    const whole = nameOf({ schema: table.schema, name: labels.get(part.parent) ?? label });
    steps.add({
      ...base,
      sql: `alter index ${whole} attach partition ${nameOf({ schema: part.schema, name: own })}`,
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
  const name = nameOf({ schema: table.schema, name: label });
  steps.add({
    identity: `${table.at}.indexes`,
    table: keyOf(table),
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
