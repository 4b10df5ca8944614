// Statements for access: schemas, grants, row-level security, policies, and triggers that follow references to stored
// objects.
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import { trackCall } from '../diff/references.ts';
import type { ChangeOf } from '../diff/change-kinds.ts';
import type { DesiredTable } from '../schema/desired.ts';
import { referenceTriggerLabels } from '../schema/label.ts';
import { PUBLIC } from '../schema/rights/roles.ts';
import { objectKey, quoteName } from '../schema/model.ts';
import { describeGrants, grantsSql, sequenceUsers, wantedGrants } from '../schema/rights/grants.ts';
import { BLOCKS } from '../schema/rights/hosts.ts';
import { primaryKeyColumns } from '../schema/relation.ts';
import { grantSequence } from './columns.ts';
import { describePolicy } from './objects/policy-text.ts';
import { onTable, type Planners, type StepList } from './step-list.ts';
import type { Hazard } from './step.ts';

export const ACCESS = {
  'create-schema': (steps, { schema }) =>
    steps.add({
      sql: `create schema if not exists ${quoteIdent(schema)}`,
      stage: 'schemas',
      identity: `schemas.${schema}`,
      summary: `schema ${schema}`,
    }),
  'grant-schema': (steps, { schema }) =>
    steps.add({
      sql: `grant usage on schema ${quoteIdent(schema)} to anon, authenticated, service_role`,
      stage: 'schemas',
      identity: `schemas.${schema}`,
      sign: '~',
      summary: `usage of schema ${schema} for the API roles`,
    }),
  'grant-table': grantTable,
  'enable-rls': (steps, { table, live }) =>
    live
      ? rowSecurity(steps, table, 'enable', 'row-level security on', ['AUTHZ_NARROW'])
      : steps.add({
          identity: table.at,
          sql: `alter table ${quoteName(table)} enable row level security`,
          stage: 'row-security',
          summary: 'row-level security on',
        }),
  'disable-rls': (steps, { table }) =>
    rowSecurity(steps, table, 'disable', 'row-level security OFF: open to every key holder', ['AUTHZ_OPEN']),
  'unforce-rls': (steps, { table }) =>
    rowSecurity(steps, table, 'no force', 'row-level security no longer forced on the owner', [
      'AUTHZ_CHANGE',
    ]),
  'create-policy': (steps, change) =>
    createPolicy(
      steps,
      quoteName(change.table),
      change.live ? objectKey(change.table) : null,
      change.table.at,
      change,
    ),
  'drop-policy': (steps, { table, policy }) =>
    steps.add({
      ...onTable(table),
      identity: `${table.at}.rls`,
      sql: `drop policy ${quoteIdent(policy.label)} on ${quoteName(table)}`,
      stage: 'drop-dependants',
      sign: '-',
      summary: `policy ${policy.label} (${policy.command})`,
      hazards: ['AUTHZ_CHANGE'],
    }),
  'create-hosted-policy': (steps, change) =>
    createPolicy(steps, change.host, change.host, change.policy.home, { ...change, replaces: null }),
  'drop-hosted-policy': (steps, { host, policy }) =>
    steps.add({
      identity: `${BLOCKS[host]}.rls`,
      sql: `drop policy ${quoteIdent(policy.label)} on ${host}`,
      stage: 'drop-dependants',
      table: host,
      sign: '-',
      summary: `${BLOCKS[host]} policy ${policy.label}`,
      hazards: ['AUTHZ_CHANGE'],
    }),
  'add-reference': addReference,
  // PostgreSQL does not change the type of a column that a trigger names.
  'suspend-reference': (steps, { table, reference: { column } }) => {
    const labels = referenceTriggerLabels(column);
    steps.add({
      ...onTable(table),
      sql: [labels.row, labels.truncate]
        .map((label) => `drop trigger if exists ${quoteIdent(label)} on ${quoteName(table)}`)
        .join('; '),
      stage: 'drop-dependants',
      sign: '~',
      summary: `reference triggers of ${column} are dropped during the change`,
    });
  },
  'drop-reference': (steps, { table, live, trigger: { label, definition } }) => {
    const column = /track_ref\('((?:[^']|'')*)'/.exec(definition)?.[1]?.replaceAll("''", "'");
    const forget =
      column === undefined || !live
        ? ''
        : `; select storage.forget_refs(${live.oid}::oid, ${quoteLiteral(column)})`;
    steps.add({
      ...onTable(table),
      sql: `drop trigger ${quoteIdent(label)} on ${quoteName(table)}${forget}`,
      stage: 'drop-dependants',
      sign: '-',
      summary: `reference trigger ${label}`,
    });
  },
} satisfies Partial<Planners>;

function grantTable(steps: StepList, { table, live, opens }: ChangeOf<'grant-table'>): void {
  const name = quoteName(table);
  const { grants: declared } = table.model;
  steps.add({
    ...onTable(table),
    table: null,
    sql: declared === undefined ? grantTableSql(name) : grantsSql(name, wantedGrants(declared)),
    stage: 'grants',
    sign: live ? '~' : '+',
    summary:
      opens.length > 0
        ? `grants: ${opens.join('; ')}`
        : `grants: ${describeGrants(Object.entries(wantedGrants(declared)))}`,
    hazards: !live ? [] : opens.length > 0 ? ['AUTHZ_OPEN'] : ['AUTHZ_CHANGE'],
  });
  for (const column of table.columns) {
    const found = live?.columns.get(column.name);
    if (!column.serial || !found?.serial) continue;
    if (sequenceUsers(declared).some((role) => !found.sequenceUsers.includes(role)))
      grantSequence(steps, { table, column });
  }
}

function rowSecurity(
  steps: StepList,
  table: DesiredTable,
  what: 'enable' | 'disable' | 'no force',
  summary: string,
  hazards: readonly Hazard[],
): void {
  const sql = `alter table ${quoteName(table)} ${what} row level security`;
  steps.add({ ...onTable(table), sql, stage: 'row-security', sign: '~', summary, hazards });
}

function createPolicy(
  steps: StepList,
  relation: string,
  table: string | null,
  identity: string,
  { policy, label, replaces }: Pick<ChangeOf<'create-policy'>, 'policy' | 'label' | 'replaces'>,
): void {
  const using = policy.using ? ` using (\n${policy.using.sql}\n)` : '';
  const check = policy.check ? ` with check (\n${policy.check.sql}\n)` : '';
  steps.add({
    identity: `${identity}.rls`,
    at: policy.at,
    table,
    sql: `create policy ${quoteIdent(label)} on ${relation} as ${policy.permissive ? 'permissive' : 'restrictive'} for ${policy.command} to ${rolesSql(policy.roles)}${using}${check}`,
    stage: 'policies',
    sign: replaces ? '~' : '+',
    summary: describePolicy(policy),
    hazards: ['AUTHZ_CHANGE'],
  });
}

function rolesSql(roles: string): string {
  return roles === PUBLIC ? PUBLIC : roles.split(',').map(quoteIdent).join(', ');
}

function addReference(steps: StepList, { table, live, reference }: ChangeOf<'add-reference'>): void {
  const { column, bucket, cascade } = reference;
  const labels = referenceTriggerLabels(column);
  const name = quoteName(table);
  const key = primaryKeyColumns(table);
  const watched = [...new Set([column, ...key])].map(quoteIdent).join(', ');
  const keyArray = `array[${key.map((one) => quoteLiteral(one)).join(', ')}]::text[]`;
  steps.add({
    identity: `${table.at}.fields.${column}.ref`,
    table: live ? objectKey(table) : null,
    sql: [
      `drop trigger if exists ${quoteIdent(labels.row)} on ${name}`,
      `drop trigger if exists ${quoteIdent(labels.truncate)} on ${name}`,
      `create trigger ${quoteIdent(labels.row)} after insert or delete or update of ${watched} on ${name} for each row execute function ${trackCall(table, reference)}`,
      `create trigger ${quoteIdent(labels.truncate)} before truncate on ${name} for each statement execute function storage.truncate_refs(${quoteLiteral(column)})`,
      `select storage.adopt_refs(${quoteLiteral(name)}::regclass, ${quoteLiteral(column)}, ${quoteLiteral(bucket)}, ${quoteLiteral(cascade ? 'cascade' : 'keep')}, ${keyArray})`,
    ].join('; '),
    stage: 'references',
    summary: `reference ${column} → storage.${bucket}${cascade ? ' cascade' : ''}`,
  });
}

/** Sets the privileges of the three API roles on a table. Policies restrict the rows. */
function grantTableSql(name: string): string {
  return `revoke all on ${name} from public, anon, authenticated, service_role; grant select, insert, update, delete on ${name} to anon, authenticated; grant all on ${name} to service_role`;
}
