// What left the file: retired with its data kept, or dropped where the settings say so.
import type { Queryable } from '../../postgres/owner-database.ts';
import { quoteIdent, raw } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { keyOf } from '../schema/model.ts';
import { nameOf } from '../schema/qualified-name.ts';
import type { ChangeOf, Planners, StepList } from './step-list.ts';

export type Removal = ChangeOf<'retire-table' | 'retire-column'>;

export const REMOVALS = {
  'retire-table': (steps, change) => (steps.facts.drops ? drop(steps, change) : retireTable(steps, change)),
  'retire-column': (steps, change) => (steps.facts.drops ? drop(steps, change) : retireColumn(steps, change)),
  'drop-retired': dropRetired,
} satisfies Partial<Planners>;

function retireTable(steps: StepList, { live }: ChangeOf<'retire-table'>): void {
  const name = nameOf(live);
  const drops = live.foreignKeys.map(
    (one) => `; alter table ${name} drop constraint if exists ${quoteIdent(one.label)}`,
  );
  steps.add({
    // Its foreign keys must go: rows nobody sees any more would block deletes elsewhere.
    sql: `revoke all on ${name} from anon, authenticated, service_role, public${drops.join('')}`,
    stage: 'retire',
    identity: `tables.${live.name}`,
    table: keyOf(live),
    sign: '-',
    summary: `table ${live.name} retired, data kept`,
    hazards: ['BREAKS_OLD_CODE'],
  });
}

function retireColumn(steps: StepList, { table, liveColumn }: ChangeOf<'retire-column'>): void {
  const { name, notNull, serial } = liveColumn;
  const blocksInserts = notNull && liveColumn.default === null && !serial;
  steps.add({
    sql: blocksInserts
      ? `alter table ${nameOf(table)} alter column ${quoteIdent(name)} drop not null`
      : 'select',
    stage: 'retire',
    identity: `${table.at}.fields.${name}`,
    at: table.at,
    table: keyOf(table),
    sign: '-',
    summary: `column ${name} retired, data kept`,
    hazards: ['BREAKS_OLD_CODE'],
  });
}

function drop(steps: StepList, change: Removal): void {
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
    stage: 'retire',
    sign: '-',
    summary: `${what} dropped`,
    hazards: ['DATA_LOSS', 'BREAKS_OLD_CODE'],
  });
}

function dropRetired(steps: StepList, { what, home, label }: ChangeOf<'drop-retired'>): void {
  const name = nameOf(home);
  const base = {
    identity: `tables.${home.name}`,
    table: keyOf(home),
    sign: '-',
    summary: `${what} ${label} of ${home.name}, in the way of a change`,
  } as const;
  if (what === 'default') {
    const alter = `alter table ${name} alter column ${quoteIdent(label)}`;
    steps.add({ ...base, sql: `${alter} drop default`, stage: 'drop-dependants' });
    // Without its default, a required column would refuse every new row.
    steps.add({ ...base, sql: `${alter} drop not null`, stage: 'retire' });
    return;
  }
  const sql = {
    policy: `drop policy ${quoteIdent(label)} on ${name}`,
    check: `alter table ${name} drop constraint ${quoteIdent(label)}`,
    'foreign key': `alter table ${name} drop constraint ${quoteIdent(label)}`,
    index: `drop index ${quoteIdent(home.schema)}.${quoteIdent(label)}`,
  }[what];
  steps.add({ ...base, sql, stage: 'drop-dependants' });
}

export function removalOf(change: Removal): { identity: string; at: string; what: string } {
  if (change.kind === 'retire-table') {
    const identity = `tables.${change.live.name}`;
    return { identity, at: identity, what: `table ${change.live.name}` };
  }
  const { name } = change.liveColumn;
  return { identity: `${change.table.at}.fields.${name}`, at: change.table.at, what: `column ${name}` };
}

/** Rows of removed tables and values of removed columns, by identity. */
export async function countRemoved(
  session: Queryable,
  changes: readonly Change[],
): Promise<Map<string, number>> {
  const values = new Map<string, number>();
  for (const change of changes) {
    if (change.kind !== 'retire-table' && change.kind !== 'retire-column') continue;
    const counted = change.kind === 'retire-table' ? '*' : quoteIdent(change.liveColumn.name);
    const table = change.kind === 'retire-table' ? change.live : change.table;
    const [row] = await session.query<{ values: string }>(
      raw(`select count(${counted})::text as values from ${nameOf(table)}`),
    );
    values.set(removalOf(change).identity, Number(row?.values ?? 0));
  }
  return values;
}
