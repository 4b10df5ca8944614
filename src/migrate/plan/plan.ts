// Changes into ordered statements. Small tables take the direct form; on large ones whatever would scan, build or
// rewrite under a strong lock takes the form that does not, and moves out of the blocking transaction.
import { quoteIdent } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { trackCall } from '../diff/references.ts';
import { keyOf } from '../schema/model.ts';
import { planOnlineTypeChanges, type OnlineTypeChanges } from './online-type-change.ts';
import {
  addReference,
  createPolicy,
  dropReference,
  grantTable,
  liftReference,
  dropRetired,
  retireTable,
} from './access.ts';
import {
  addColumn,
  changeType,
  createTable,
  planBackfill,
  grantSequence,
  makeSerial,
  setNotNull,
} from './columns.ts';
import {
  addCheck,
  addForeignKey,
  addIndex,
  addKey,
  dropConstraint,
  isKeyIndex,
  dropIndex,
  validate,
} from './constraints.ts';
import {
  dropFormerFunctions,
  dropFunction,
  grantFunction,
  inOrderOfCalls,
  planFunction,
} from './functions.ts';
import { removalOf, type Removal } from './removal.ts';
import { nameOf } from '../schema/qualified-name.ts';
import {
  alterColumn,
  BUILD_ROWS_PER_MS,
  type TableFacts,
  columnsKey,
  isSmall,
  type KeyLane,
  onColumn,
  onTable,
  type PlanSettings,
  StepList,
} from './step-list.ts';
import { PHASE, type Step } from './step.ts';

export function planSteps(
  changes: readonly Change[],
  foresight: TableFacts,
  online: OnlineTypeChanges,
  settings: PlanSettings,
): Step[] {
  const steps = new StepList(foresight, settings, newKeys(changes, settings));
  dropFormerFunctions(
    steps,
    changes.filter((change) => !online.deferred.has(change)),
  );
  steps.whileDeferred(() =>
    dropFormerFunctions(
      steps,
      changes.filter((change) => online.deferred.has(change)),
    ),
  );
  for (const change of inOrderOfCalls(changes)) {
    if (isMadeBeside(change, online)) continue;
    if (online.deferred.has(change)) steps.whileDeferred(() => planChange(steps, change));
    else planChange(steps, change);
  }
  planOnlineTypeChanges(steps, online);
  return steps.ordered();
}

/** What refers to a key comes after it. One that is part of its table is there as soon as the table is. */
function newKeys(changes: readonly Change[], settings: PlanSettings): ReadonlyMap<string, KeyLane> {
  const keys = new Map<string, KeyLane>();
  for (const change of changes) {
    if (change.kind !== 'add-key' && change.kind !== 'add-index') continue;
    if (change.kind === 'add-index' && !isKeyIndex(change.index)) continue;
    const { columns } = change.kind === 'add-key' ? change.key : change.index;
    if (!isSmall(change.live, BUILD_ROWS_PER_MS, settings))
      keys.set(columnsKey(keyOf(change.table), columns), 'concurrent');
    else if (change.kind === 'add-index') keys.set(columnsKey(keyOf(change.table), columns), 'metadata');
  }
  return keys;
}

/** The new column comes with its type, and required when it must be. */
function isMadeBeside(change: Change, online: OnlineTypeChanges): boolean {
  const made =
    change.kind === 'change-type' || change.kind === 'set-not-null' || change.kind === 'resume-backfill';
  return made && online.columns.has(change.column.at);
}

function planChange(steps: StepList, change: Change): void {
  switch (change.kind) {
    case 'create-schema':
      return steps.add({
        sql: `create schema if not exists ${quoteIdent(change.schema)}`,
        phase: PHASE.schema,
        identity: `schemas.${change.schema}`,
        summary: `schema ${change.schema}`,
      });
    case 'grant-schema':
      return steps.add({
        sql: `grant usage on schema ${quoteIdent(change.schema)} to anon, authenticated, service_role`,
        phase: PHASE.schema,
        identity: `schemas.${change.schema}`,
        sign: '~',
        summary: `usage of schema ${change.schema} for the API roles`,
      });
    case 'create-table':
      return createTable(steps, change.table);
    case 'retire-table':
      if (steps.facts.drops) return dropRemoved(steps, change);
      return retireTable(steps, change.live);
    case 'grant-table':
      return grantTable(steps, change.table, change.live);
    case 'add-column':
      return addColumn(steps, change.table, change.live, change.column);
    case 'change-type':
      return changeType(steps, change);
    case 'set-default':
      return steps.add({
        ...onColumn(change.table, change.column),
        sql: `${alterColumn(change.table, change.column)} set default ${change.column.default?.sql ?? 'null'}`,
        phase: PHASE.defaults,
        sign: '~',
        summary: `column ${change.column.name} default ${change.column.default?.written ?? ''}`,
      });
    case 'drop-default':
      return steps.add({
        ...onColumn(change.table, change.column),
        sql: `${alterColumn(change.table, change.column)} drop default`,
        phase: PHASE.clear,
        sign: '-',
        summary: `column ${change.column.name} default ${change.liveColumn.default ?? ''}`,
      });
    case 'make-serial':
      return makeSerial(steps, change.table, change.column);
    case 'drop-serial':
      return steps.add({
        ...onColumn(change.table, change.column),
        sql: change.liveColumn.identity
          ? `${alterColumn(change.table, change.column)} drop identity`
          : `${alterColumn(change.table, change.column)} drop default; drop sequence if exists ${change.liveColumn.sequence ?? ''}`,
        phase: PHASE.clear,
        sign: '-',
        summary: `column ${change.column.name} no longer serial`,
      });
    case 'grant-sequence':
      return grantSequence(steps, change.table, change.column);
    case 'set-not-null':
      return setNotNull(steps, change.table, change.live, change.column);
    case 'drop-not-null':
      return steps.add({
        ...onColumn(change.table, change.column),
        sql: `${alterColumn(change.table, change.column)} drop not null`,
        // After the old primary key is gone, which would hold on to it.
        phase: PHASE.columns,
        sign: '~',
        summary: `column ${change.column.name} no longer required`,
      });
    case 'retire-column':
      if (steps.facts.drops) return dropRemoved(steps, change);
      return steps.add({
        sql:
          change.liveColumn.notNull && change.liveColumn.default === null && !change.liveColumn.serial
            ? `alter table ${nameOf(change.table)} alter column ${quoteIdent(change.liveColumn.name)} drop not null`
            : 'select',
        phase: PHASE.retire,
        identity: `${change.table.at}.fields.${change.liveColumn.name}`,
        at: change.table.at,
        table: keyOf(change.table),
        sign: '-',
        summary: `column ${change.liveColumn.name} retired, data kept`,
        hazards: ['BREAKS_OLD_CODE'],
      });
    case 'resume-backfill':
      return planBackfill(steps, change.table, change.live, change.column, change.value);
    case 'add-key':
      return addKey(steps, change);
    case 'drop-key':
      return dropConstraint(
        steps,
        change.table,
        change.key.label,
        `${change.key.kind} key (${change.key.columns.join(', ')})`,
        ['BREAKS_OLD_CODE'],
      );
    case 'add-check':
      return addCheck(steps, change);
    case 'drop-check':
      return dropConstraint(steps, change.table, change.check.label, `check ${change.check.label}`, []);
    case 'validate-check':
      return validate(steps, change.table, change.live, change.check.label, 'check');
    case 'add-foreign-key':
      return addForeignKey(steps, change);
    case 'drop-foreign-key':
      return dropConstraint(
        steps,
        change.table,
        change.foreignKey.label,
        `foreign key ${change.foreignKey.label}`,
        [],
      );
    case 'validate-foreign-key':
      return validate(steps, change.table, change.live, change.foreignKey.label, 'foreign key');
    case 'add-index':
      return addIndex(steps, change);
    case 'drop-index':
      return dropIndex(steps, change.table, change.live, change.index.label, change.index.valid);
    case 'enable-rls':
      return steps.add({
        ...onTable(change.table),
        sql: `alter table ${nameOf(change.table)} enable row level security`,
        phase: PHASE.rowSecurity,
        sign: '~',
        summary: 'row-level security on',
        hazards: change.live ? ['AUTHZ_NARROW'] : [],
      });
    case 'disable-rls':
      return steps.add({
        ...onTable(change.table),
        sql: `alter table ${nameOf(change.table)} disable row level security`,
        phase: PHASE.rowSecurity,
        sign: '~',
        summary: 'row-level security OFF: open to every key holder',
        hazards: ['AUTHZ_OPEN'],
      });
    case 'unforce-rls':
      return steps.add({
        ...onTable(change.table),
        sql: `alter table ${nameOf(change.table)} no force row level security`,
        phase: PHASE.rowSecurity,
        sign: '~',
        summary: 'row-level security no longer forced on the owner',
        hazards: ['AUTHZ_CHANGE'],
      });
    case 'create-policy':
      return createPolicy(steps, nameOf(change.table), keyOf(change.table), change, change.table.at);
    case 'drop-policy':
      return steps.add({
        ...onTable(change.table),
        identity: `${change.table.at}.rls`,
        sql: `drop policy ${quoteIdent(change.policy.label)} on ${nameOf(change.table)}`,
        phase: PHASE.clear,
        sign: '-',
        summary: `policy ${change.policy.label} (${change.policy.command})`,
        hazards: ['AUTHZ_CHANGE'],
      });
    case 'create-storage-policy':
      return createPolicy(
        steps,
        'storage.objects',
        'storage.objects',
        { ...change, replaces: null },
        `storage.${change.bucket}`,
      );
    case 'drop-storage-policy':
      return steps.add({
        identity: 'storage.rls',
        sql: `drop policy ${quoteIdent(change.policy.label)} on storage.objects`,
        phase: PHASE.clear,
        table: 'storage.objects',
        sign: '-',
        summary: `storage policy ${change.policy.label}`,
        hazards: ['AUTHZ_CHANGE'],
      });
    case 'add-reference': {
      addReference(
        steps,
        change.table,
        change.reference.column,
        trackCall(change.table, change.reference),
        change,
      );
      return;
    }
    case 'suspend-reference':
      return liftReference(steps, change.table, change.reference.column);
    case 'drop-reference':
      return dropReference(steps, change.table, change.live, change.trigger.label, change.trigger.definition);
    case 'drop-retired':
      return dropRetired(steps, change);
    case 'create-function':
    case 'replace-function':
    case 'recreate-function':
      return planFunction(steps, change);
    case 'grant-function':
      return grantFunction(steps, change.fn);
    case 'drop-function':
    case 'retire-function':
      return dropFunction(steps, change.live);
  }
}

function dropRemoved(steps: StepList, change: Removal): void {
  const { identity, at, what } = removalOf(change);
  const table = change.kind === 'retire-table' ? change.live : change.table;
  steps.add({
    identity,
    at,
    table: keyOf(table),
    sql:
      change.kind === 'retire-table'
        ? `drop table ${nameOf(table)}`
        : `alter table ${nameOf(table)} drop column ${quoteIdent(change.liveColumn.name)}`,
    phase: PHASE.retire,
    sign: '-',
    summary: `${what} dropped`,
    hazards: ['DATA_LOSS', 'BREAKS_OLD_CODE'],
  });
}
