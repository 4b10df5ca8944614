// Who may do what, as statements: grants, policies, retirement, and the triggers that follow storage references.
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { Change, DropRetiredChange } from '../diff/change.ts';
import type { DesiredTable } from '../schema/desired.ts';
import type { LiveTable } from '../schema/live-schema.ts';
import { referenceTriggerLabels } from '../schema/label.ts';
import { keyOf, tableKey } from '../schema/model.ts';
import { grantSequence } from './columns.ts';
import { nameOf } from '../schema/qualified-name.ts';
import { onTable, type StepList } from './step-list.ts';
import { PHASE } from './step.ts';

export function retireTable(steps: StepList, live: LiveTable): void {
  const name = nameOf(live);
  const drops = live.foreignKeys.map(
    (one) => `; alter table ${name} drop constraint if exists ${quoteIdent(one.label)}`,
  );
  steps.add({
    // Its foreign keys must go: rows nobody sees any more would block deletes elsewhere.
    sql: `revoke all on ${name} from anon, authenticated, service_role, public${drops.join('')}`,
    phase: PHASE.retire,
    identity: `tables.${live.name}`,
    table: keyOf(live),
    sign: '-',
    summary: `table ${live.name} retired, data kept`,
    hazards: ['BREAKS_OLD_CODE'],
  });
}

export function dropRetired(steps: StepList, { what, home, label }: DropRetiredChange): void {
  const name = nameOf(home);
  const base = {
    identity: `tables.${home.name}`,
    table: tableKey(home.schema, home.name),
    sign: '-',
    summary: `${what} ${label} of ${home.name}, in the way of a change`,
  } as const;
  if (what === 'default') {
    const alter = `alter table ${name} alter column ${quoteIdent(label)}`;
    steps.add({ ...base, sql: `${alter} drop default`, phase: PHASE.clear });
    // Without it no row could be written to the table it is in.
    steps.add({ ...base, sql: `${alter} drop not null`, phase: PHASE.retire });
    return;
  }
  const sql = {
    policy: `drop policy ${quoteIdent(label)} on ${name}`,
    check: `alter table ${name} drop constraint ${quoteIdent(label)}`,
    'foreign key': `alter table ${name} drop constraint ${quoteIdent(label)}`,
    index: `drop index ${quoteIdent(home.schema)}.${quoteIdent(label)}`,
  }[what];
  steps.add({ ...base, sql, phase: PHASE.clear });
}

/** What the three API roles may do with a table; rows are the policies' business. */
export function grantTablesSql(tables: readonly string[]): string {
  const names = tables.join(', ');
  return `revoke all on ${names} from public, anon, authenticated, service_role; grant select, insert, update, delete on ${names} to anon, authenticated; grant all on ${names} to service_role`;
}

export function grantTable(steps: StepList, table: DesiredTable, live: LiveTable | null): void {
  const name = nameOf(table);
  const sequences = live
    ? table.columns.filter(
        (column) =>
          column.serial &&
          live.columns.get(column.name)?.serial &&
          live.columns.get(column.name)?.sequenceGranted === false,
      )
    : [];
  steps.add({
    ...onTable(table),
    table: null,
    sql: grantTablesSql([name]),
    part: live ? undefined : { kind: 'grant', table: name },
    phase: PHASE.grants,
    sign: live ? '~' : '+',
    summary: 'grants of the API roles',
    hazards: live ? ['AUTHZ_CHANGE'] : [],
  });
  for (const column of sequences) grantSequence(steps, table, column);
}

export function createPolicy(
  steps: StepList,
  relation: string,
  table: string,
  change: Pick<Extract<Change, { kind: 'create-policy' }>, 'policy' | 'label' | 'replaces'>,
  identity: string,
): void {
  const { policy, label, replaces } = change;
  const using = policy.using ? ` using (\n${policy.using.sql}\n)` : '';
  const check = policy.check ? ` with check (\n${policy.check.sql}\n)` : '';
  const written = [policy.using?.written, policy.check && `check ${policy.check.written}`]
    .filter(Boolean)
    .join(' ');
  steps.add({
    identity: `${identity}.rls`,
    at: policy.at,
    table: table === 'storage.objects' || 'live' in change ? table : null,
    sql: `create policy ${quoteIdent(label)} on ${relation} as ${policy.permissive ? 'permissive' : 'restrictive'} for ${policy.command} to anon, authenticated${using}${check}`,
    phase: PHASE.policies,
    sign: replaces ? '~' : '+',
    summary: `policy ${policy.command} ${written}`,
    hazards: ['AUTHZ_CHANGE'],
  });
}

export function addReference(
  steps: StepList,
  table: DesiredTable,
  column: string,
  call: string,
  change: Extract<Change, { kind: 'add-reference' }>,
): void {
  const { reference } = change;
  const labels = referenceTriggerLabels(column);
  const name = nameOf(table);
  const key = table.keys.find((one) => one.kind === 'primary')?.columns ?? [];
  const watched = [...new Set([column, ...key])].map(quoteIdent).join(', ');
  const keyArray = `array[${key.map((one) => quoteLiteral(one)).join(', ')}]::text[]`;
  steps.add({
    identity: `${table.at}.fields.${column}.ref`,
    table: change.live ? keyOf(table) : null,
    sql: [
      `drop trigger if exists ${quoteIdent(labels.row)} on ${name}`,
      `drop trigger if exists ${quoteIdent(labels.truncate)} on ${name}`,
      `create trigger ${quoteIdent(labels.row)} after insert or delete or update of ${watched} on ${name} for each row execute function ${call}`,
      `create trigger ${quoteIdent(labels.truncate)} before truncate on ${name} for each statement execute function storage.truncate_refs(${quoteLiteral(column)})`,
      `select storage.adopt_refs(${quoteLiteral(name)}::regclass, ${quoteLiteral(column)}, ${quoteLiteral(reference.bucket)}, ${quoteLiteral(reference.cascade ? 'cascade' : 'keep')}, ${keyArray})`,
    ].join('; '),
    phase: PHASE.references,
    summary: `reference ${column} → storage.${reference.bucket}${reference.cascade ? ' cascade' : ''}`,
  });
}

/** PostgreSQL changes no type below a trigger that names the column. */
export function liftReference(steps: StepList, table: DesiredTable, column: string): void {
  const labels = referenceTriggerLabels(column);
  steps.add({
    ...onTable(table),
    sql: [labels.row, labels.truncate]
      .map((label) => `drop trigger if exists ${quoteIdent(label)} on ${nameOf(table)}`)
      .join('; '),
    phase: PHASE.clear,
    sign: '~',
    summary: `reference triggers of ${column} step aside`,
  });
}

export function dropReference(
  steps: StepList,
  table: DesiredTable,
  live: LiveTable | null,
  label: string,
  definition: string,
): void {
  const column = /track_ref\('((?:[^']|'')*)'/.exec(definition)?.[1]?.replaceAll("''", "'");
  const forget =
    column === undefined || !live
      ? ''
      : `; select storage.forget_refs(${live.oid}::oid, ${quoteLiteral(column)})`;
  steps.add({
    ...onTable(table),
    sql: `drop trigger ${quoteIdent(label)} on ${nameOf(table)}${forget}`,
    phase: PHASE.clear,
    sign: '-',
    summary: `reference trigger ${label}`,
  });
}
