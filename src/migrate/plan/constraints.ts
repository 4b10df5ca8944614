// Keys, checks, foreign keys and indexes as statements. On a large table they are built and validated while others
// write; only the last, short step takes a strong lock.
import { quoteIdent } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import type { DesiredIndex, DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live-schema.ts';
import { keyOf, tableKey } from '../schema/model.ts';
import { nameOf } from '../schema/qualified-name.ts';
import { BUILD_ROWS_PER_MS, onTable, SCAN_ROWS_PER_MS, type StepList } from './step-list.ts';
import { type Hazard, type Lane, PHASE } from './step.ts';

export function addKey(steps: StepList, { table, live, key }: Extract<Change, { kind: 'add-key' }>): void {
  const words = key.kind === 'primary' ? 'primary key' : 'unique';
  const columns = key.columns.map(quoteIdent).join(', ');
  const summary = `${words} (${key.columns.join(', ')})`;
  const label = quoteIdent(key.label);
  const base = { identity: key.at, at: key.at, table: live ? keyOf(table) : null, summary };
  if (steps.isSmall(live, BUILD_ROWS_PER_MS)) {
    const constraint = `constraint ${label} ${words} (${columns})`;
    steps.add({
      ...base,
      sql: `alter table ${nameOf(table)} add ${constraint}`,
      part: live ? undefined : { kind: 'key', table: nameOf(table), sql: constraint },
      phase: PHASE.keys,
      scans: live !== null,
      estimateMs: steps.estimate(live, BUILD_ROWS_PER_MS),
      hazards: live ? ['DATA_DEPENDENT'] : [],
    });
    return;
  }
  steps.add({
    ...base,
    sql: `create unique index concurrently ${label} on ${nameOf(table)} (${columns})`,
    lane: 'concurrent',
    phase: PHASE.keys,
    summary: `${summary}: build index`,
    lock: 'ShareUpdateExclusive',
    estimateMs: steps.estimate(live, BUILD_ROWS_PER_MS),
    hazards: ['DATA_DEPENDENT', 'INDEX_BUILD', 'NON_TX'],
    action: { kind: 'build-index', schema: table.schema, label: key.label },
  });
  steps.add({
    ...base,
    sql: `alter table ${nameOf(table)} add constraint ${label} ${words} using index ${label}`,
    lane: 'concurrent',
    phase: PHASE.keys + 1,
    hazards: ['NON_TX'],
  });
}

export function addCheck(
  steps: StepList,
  { table, live, check, replaces }: Extract<Change, { kind: 'add-check' }>,
): void {
  if (replaces) {
    steps.add({
      ...onTable(table),
      identity: check.expression.at,
      sql: `alter table ${nameOf(table)} drop constraint ${quoteIdent(replaces.label)}`,
      phase: PHASE.clear,
      sign: '-',
      summary: `${check.role} of ${check.column} (replaced)`,
    });
  }
  const small = steps.isSmall(live, SCAN_ROWS_PER_MS);
  const constraint = `constraint ${quoteIdent(check.label)} check (\n${check.expression.sql}\n)`;
  steps.add({
    identity: check.expression.at,
    table: live ? keyOf(table) : null,
    sql: `alter table ${nameOf(table)} add ${constraint}${small ? '' : ' not valid'}`,
    part: live ? undefined : { kind: 'check', table: nameOf(table), sql: constraint },
    phase: PHASE.checks,
    sign: replaces ? '~' : '+',
    summary: `${check.role} of ${check.column}: ${check.expression.written}`,
    scans: small && live !== null,
    estimateMs: small ? steps.estimate(live, SCAN_ROWS_PER_MS) : 1,
    hazards: live ? ['DATA_DEPENDENT'] : [],
  });
  if (!small)
    validate(steps, table, live, check.label, `${check.role} of ${check.column}`, check.expression.at);
}

export function addForeignKey(
  steps: StepList,
  { table, live, foreignKey }: Extract<Change, { kind: 'add-foreign-key' }>,
): void {
  const small = steps.isSmall(live, SCAN_ROWS_PER_MS);
  const action = foreignKey.onDelete === 'set_null' ? 'set null' : foreignKey.onDelete;
  const target = nameOf({ schema: foreignKey.targetSchema, name: foreignKey.targetTable });
  const keyLane = steps.laneOfKey(tableKey(foreignKey.targetSchema, foreignKey.targetTable), [
    foreignKey.targetColumn,
  ]);
  const isLate = keyLane === 'concurrent';
  const constraint = `constraint ${quoteIdent(foreignKey.label)} foreign key (${quoteIdent(foreignKey.column)}) references ${target} (${quoteIdent(foreignKey.targetColumn)}) on delete ${action}`;
  steps.add({
    identity: foreignKey.at,
    table: live ? keyOf(table) : null,
    sql: `alter table ${nameOf(table)} add ${constraint}${small ? '' : ' not valid'}`,
    part: live || keyLane ? undefined : { kind: 'reference', table: nameOf(table), target, sql: constraint },
    lane: isLate ? 'concurrent' : 'metadata',
    phase: PHASE.foreignKeys,
    summary: `foreign key ${foreignKey.column} → ${foreignKey.targetTable}.${foreignKey.targetColumn} on delete ${action}`,
    lock: 'ShareRowExclusive',
    scans: small && live !== null,
    estimateMs: small ? steps.estimate(live, SCAN_ROWS_PER_MS) : 1,
    hazards: [...(live ? (['DATA_DEPENDENT'] as const) : []), ...(isLate ? (['NON_TX'] as const) : [])],
  });
  if (!small)
    validate(
      steps,
      table,
      live,
      foreignKey.label,
      `foreign key ${foreignKey.column}`,
      foreignKey.at,
      isLate ? 'concurrent' : 'online',
    );
}

export function validate(
  steps: StepList,
  table: DesiredTable,
  live: LiveTable | null,
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
    phase: PHASE.foreignKeys,
    sign: '~',
    summary: `${what}: check rows`,
    lock: 'ShareUpdateExclusive',
    scans: true,
    estimateMs: steps.estimate(live, SCAN_ROWS_PER_MS),
    hazards: ['DATA_DEPENDENT', 'NON_TX'],
  });
}

export function dropConstraint(
  steps: StepList,
  table: DesiredTable,
  label: string,
  what: string,
  hazards: readonly Hazard[],
): void {
  steps.add({
    ...onTable(table),
    sql: `alter table ${nameOf(table)} drop constraint ${quoteIdent(label)}`,
    // Foreign keys before the keys they stand on.
    phase: what.startsWith('foreign') ? PHASE.clear : PHASE.clear + 1,
    sign: '-',
    summary: what,
    hazards,
  });
}

/** Whether a foreign key can refer to what this index keeps unique. */
export function isKeyIndex(index: DesiredIndex): boolean {
  return index.unique && index.predicate === null;
}

export function addIndex(
  steps: StepList,
  { table, live, index }: Extract<Change, { kind: 'add-index' }>,
): void {
  const small = steps.isSmall(live, BUILD_ROWS_PER_MS);
  const columns = index.columns.map(quoteIdent).join(', ');
  const where = index.predicate === null ? '' : ` where (\n${index.predicate.sql}\n)`;
  const shape = `${quoteIdent(index.label)} on ${nameOf(table)} (${columns})${where}`;
  const unique = index.unique ? 'unique ' : '';
  const hazards: Hazard[] = live && index.unique ? ['DATA_DEPENDENT'] : [];
  steps.add({
    identity: index.at,
    table: live ? keyOf(table) : null,
    sql: `create ${unique}index ${small ? '' : 'concurrently '}${shape}`,
    lane: small ? 'metadata' : index.unique ? 'concurrent' : 'background',
    // A foreign key may stand on it.
    phase: isKeyIndex(index) ? PHASE.keys + 1 : PHASE.indexes,
    summary: `${unique}index (${index.columns.join(', ')})${index.predicate ? ` where ${index.predicate.written}` : ''}`,
    lock: small ? 'Share' : 'ShareUpdateExclusive',
    scans: live !== null,
    estimateMs: steps.estimate(live, BUILD_ROWS_PER_MS),
    hazards: small ? hazards : [...hazards, 'INDEX_BUILD', 'NON_TX'],
    action: small ? { kind: 'sql' } : { kind: 'build-index', schema: table.schema, label: index.label },
  });
}

export function dropIndex(
  steps: StepList,
  table: DesiredTable,
  live: LiveTable | null,
  label: string,
  valid: boolean,
): void {
  const small = steps.isSmall(live, BUILD_ROWS_PER_MS);
  const name = `${quoteIdent(table.schema)}.${quoteIdent(label)}`;
  steps.add({
    identity: `${table.at}.indexes`,
    table: keyOf(table),
    sql: small ? `drop index ${name}` : `drop index concurrently if exists ${name}`,
    lane: small ? 'metadata' : 'concurrent',
    // Behind the foreign keys that stand on it.
    phase: PHASE.clear + 1,
    sign: '-',
    summary: `index ${label}${valid ? '' : ' (half built)'}`,
    lock: small ? 'AccessExclusive' : 'ShareUpdateExclusive',
    hazards: ['INDEX_DROPPED', ...(small ? [] : (['NON_TX'] as const))],
    action: small ? { kind: 'sql' } : { kind: 'drop-index', schema: table.schema, label },
  });
}
