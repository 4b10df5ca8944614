// What left the file: retired with its data kept, or dropped where the settings say so.
import type { Queryable } from '../../postgres/owner-database.ts';
import { quoteIdent, raw } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { keyOf, nameOf } from '../schema/model.ts';
import { detachPartitionSql, retirePartitionSql } from '../schema/partitions.ts';
import { unpublishSql } from '../schema/publication.ts';
import { functionOf } from '../schema/row-triggers.ts';
import { alterColumn, type ChangeOf, type Planners, type StepList } from './step-list.ts';

export type Removal = ChangeOf<'retire-table' | 'retire-column' | 'retire-partition'>;

export const REMOVALS = {
  'retire-table': remove,
  'retire-column': remove,
  'retire-partition': remove,
  'drop-retired': dropRetired,
} satisfies Partial<Planners>;

function remove(steps: StepList, change: Removal): void {
  const { table, identity, at, what } = removalOf(change);
  const { drops } = steps.facts;
  steps.add({
    identity,
    at,
    table: keyOf(table),
    sql: drops ? dropSql(change) : retireSql(change),
    // Its rows leave their place before others may take it.
    stage: change.kind === 'retire-partition' ? 'columns' : 'retire',
    sign: '-',
    summary: drops ? `${what} dropped` : `${what} retired, data kept`,
    hazards: drops ? ['DATA_LOSS', 'BREAKS_OLD_CODE'] : ['BREAKS_OLD_CODE'],
  });
}

function dropSql(change: Removal): string {
  if (change.kind === 'retire-table') {
    const functions = change.live.triggers.flatMap(({ definition }) => functionOf(definition) ?? []);
    return [
      `drop table ${nameOf(change.live)}`,
      ...functions.map((fn) => `drop function if exists ${fn}()`),
    ].join('; ');
  }
  if (change.kind === 'retire-partition')
    return `${detachPartitionSql(change.table, change.partition)}; drop table ${nameOf(change.partition)}`;
  return `alter table ${nameOf(change.table)} drop column ${quoteIdent(change.liveColumn.name)}`;
}

function retireSql(change: Removal): string {
  if (change.kind === 'retire-column') {
    const { notNull, serial, default: value } = change.liveColumn;
    const blocksInserts = notNull && value === null && !serial;
    return blocksInserts ? `${alterColumn(change.table, change.liveColumn)} drop not null` : 'select';
  }
  if (change.kind === 'retire-partition') return retirePartitionSql(change.table, change.partition);
  // Its foreign keys must go: rows nobody sees any more would block deletes elsewhere.
  const name = nameOf(change.live);
  const drops = change.live.foreignKeys.map(
    (one) => `; alter table ${name} drop constraint if exists ${quoteIdent(one.label)}`,
  );
  const quiet = change.live.published === 'no' ? '' : `${unpublishSql(change.live)}; `;
  return `${quiet}revoke all on ${name} from anon, authenticated, service_role, public${drops.join('')}`;
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
    const alter = alterColumn(home, { name: label });
    steps.add({ ...base, sql: `${alter} drop default`, stage: 'drop-dependants' });
    // Without its default, a required column would refuse every new row.
    steps.add({ ...base, sql: `${alter} drop not null`, stage: 'retire' });
    return;
  }
  const sql = {
    policy: `drop policy ${quoteIdent(label)} on ${name}`,
    check: `alter table ${name} drop constraint ${quoteIdent(label)}`,
    'foreign key': `alter table ${name} drop constraint ${quoteIdent(label)}`,
    trigger: `drop trigger ${quoteIdent(label)} on ${name}`,
    index: `drop index ${quoteIdent(home.schema)}.${quoteIdent(label)}`,
  }[what];
  steps.add({ ...base, sql, stage: 'drop-dependants' });
}

export function isRemoval(change: Change): change is Removal {
  return (
    change.kind === 'retire-table' || change.kind === 'retire-column' || change.kind === 'retire-partition'
  );
}

export function removalOf(change: Removal): {
  readonly table: { readonly schema: string; readonly name: string };
  readonly identity: string;
  readonly at: string;
  readonly what: string;
} {
  if (change.kind === 'retire-table') {
    const identity = `tables.${change.live.name}`;
    return { table: change.live, identity, at: identity, what: `table ${change.live.name}` };
  }
  if (change.kind === 'retire-partition') {
    const { table, partition } = change;
    const identity = `${table.at}.partitions.${partition.name}`;
    return { table, identity, at: table.at, what: `partition ${partition.name}` };
  }
  const { table, liveColumn } = change;
  const { name } = liveColumn;
  return { table, identity: `${table.at}.fields.${name}`, at: table.at, what: `column ${name}` };
}

/** Rows of removed tables and values of removed columns, by identity. */
export async function countRemoved(
  session: Queryable,
  changes: readonly Change[],
): Promise<Map<string, number>> {
  const values = new Map<string, number>();
  for (const change of changes) {
    if (!isRemoval(change)) continue;
    const counted = change.kind === 'retire-column' ? quoteIdent(change.liveColumn.name) : '*';
    const { identity } = removalOf(change);
    const table = change.kind === 'retire-partition' ? change.partition : removalOf(change).table;
    const [row] = await session.query<{ values: string }>(
      raw(`select count(${counted})::text as values from ${nameOf(table)}`),
    );
    values.set(identity, Number(row?.values ?? 0));
  }
  return values;
}
