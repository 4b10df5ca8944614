// What keeps a table from its partitions. No migration makes one partitioned, stops that, or cuts it by another key or at
// other bounds, because rows would have to move. And rows may be in the way: those that the default partition holds, and those
// of a table that comes back and no longer fits.
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import type { ChangeOf } from '../plan/step-list.ts';
import { type MigrationProblem, problem } from '../problem.ts';
import type { Desired, DesiredTable } from '../schema/desired.ts';
import type { Live, LiveTable } from '../schema/live/live-schema.ts';
import { ownedOf, type Ownership } from '../schema/managed.ts';
import { keyOf, nameOf } from '../schema/model.ts';
import {
  boundSql,
  type DesiredPartition,
  type DesiredPartitioning,
  type LivePartition,
  type LivePartitioning,
} from '../schema/partitions.ts';
import { counted, countWhere, sampleKeys } from './samples.ts';

export function refusePartitioning({ tables }: Desired, live: Live, owned: Ownership): MigrationProblem[] {
  return tables.flatMap((table) => {
    const found = live.tables.get(keyOf(table));
    if (table.partitioning === null)
      return found?.partitioning && ownedOf(owned, keyOf(table)).attributes?.includes('partitioned')
        ? [noLonger(table)]
        : [];
    if (!found) return takenNames(table.partitioning, live, () => false);
    const taken = takenNames(table.partitioning, live, (key) => owned.retiredTables.has(key));
    if (found.partitioning === null) return [notYet(table, found)];
    const { partitions } = table.partitioning;
    const back = partitions.flatMap((one) =>
      owned.retiredTables.has(keyOf(one))
        ? changedSince(one, partitions, found, live.tables.get(keyOf(one)))
        : [],
    );
    return [...otherwise(table.partitioning, found.partitioning), ...taken, ...back];
  });
}

function noLonger(table: DesiredTable): MigrationProblem {
  return problem(
    'MIG-116',
    table.at,
    `${table.name} is partitioned and no longer says so: its rows would have to move`,
    'Put partition_by and partitions back.',
  );
}

function notYet(table: DesiredTable, { estimatedRows }: LiveTable): MigrationProblem {
  return problem(
    'MIG-116',
    table.partitioning?.at ?? table.at,
    `${table.name} is there and not partitioned: a table cannot become it${estimatedRows > 0 ? ', and its rows would have to move' : ''}`,
    `Give the partitioned table a name of its own and move the rows with a data step; or, if nothing is in it, run drop table ${table.schema}.${table.name} first.`,
  );
}

function otherwise(wanted: DesiredPartitioning, live: LivePartitioning): MigrationProblem[] {
  if (wanted.normal !== live.key)
    return [
      problem(
        'MIG-116',
        wanted.at,
        `the table is partitioned by ${live.key}, and the file says ${wanted.normal}: its rows would have to move`,
        'Write it as it is, or make a table of another name.',
      ),
    ];
  const found = new Map(live.partitions.map((one) => [`${one.schema}.${one.name}`, one]));
  return wanted.partitions.flatMap((one) => {
    const there = found.get(keyOf(one));
    if (!there) return [];
    const [at, is, says] =
      there.bound !== one.values.normal
        ? [`${one.at}.values`, there.bound, one.values.normal]
        : there.parent !== one.parent
          ? [one.at, `part of ${there.parent ?? 'the table'}`, `part of ${one.parent ?? 'the table'}`]
          : [
              `${one.at}.partition_by`,
              there.by?.key ?? 'not cut further',
              one.by?.normal ?? 'not cut further',
            ];
    if (is === says) return [];
    return [
      problem(
        'MIG-116',
        at,
        `the partition ${one.name} is ${is}, and the file says ${says}: its rows would have to move`,
        'Write it as it is. Another partition needs another name: one that leaves the file leaves the table with its rows.',
      ),
    ];
  });
}

/** `comesBack`: what is retired under the name becomes the partition again. */
function takenNames(
  { partitions }: DesiredPartitioning,
  { tables, views }: Live,
  comesBack: (key: string) => boolean,
): MigrationProblem[] {
  return partitions.flatMap((one) => {
    const key = keyOf(one);
    if (!(tables.has(key) && !comesBack(key)) && !views.has(key)) return [];
    return [
      problem(
        'MIG-116',
        one.at,
        `there is a ${tables.has(key) ? 'table' : 'view'} ${one.name} already, which is no partition of this table`,
        `Choose another name${tables.has(key) ? ', or attach it by hand: alter table … attach partition …' : ''}.`,
      ),
    ];
  });
}

/** What left its table can only come back to a table that is as it was. */
function changedSince(
  partition: DesiredPartition,
  partitions: readonly DesiredPartition[],
  table: LiveTable,
  back: LiveTable | undefined,
): MigrationProblem[] {
  if (!back) return [];
  const key = back.partitioning?.key ?? null;
  const bounds = new Map(back.partitioning?.partitions.map((one) => [one.name, one.bound]));
  const moved = partitions.filter(
    ({ name, parent, values }) =>
      parent === partition.name && (bounds.get(name) ?? values.normal) !== values.normal,
  );
  const lacks = [...table.columns.values()].filter((column) => {
    const own = back.columns.get(column.name);
    return (
      own?.type !== column.type || (column.notNull && !own.notNull) || own.generated !== column.generated
    );
  });
  const has = [...back.columns.keys()].filter((name) => !table.columns.has(name));
  const unchecked = table.checks.filter(
    ({ label, expression }) =>
      !back.checks.some((one) => one.label === label && one.expression === expression),
  );
  const differences = [
    ...lacks.map(
      ({ name, type, notNull }) => `its column ${name} is not ${type}${notNull ? ' not null' : ''}`,
    ),
    ...has.map((name) => `it has a column ${name}`),
    ...(key === (partition.by?.normal ?? null)
      ? []
      : [`it is ${key === null ? 'not partitioned' : `partitioned by ${key}`}`]),
    ...moved.map(({ name }) => `${name} is ${bounds.get(name)}`),
    ...unchecked.map(({ label, expression }) => `it has no check ${label} ${expression}`),
  ];
  if (differences.length === 0) return [];
  return [
    problem(
      'MIG-116',
      partition.at,
      `${partition.name} cannot come back, because its table has changed since it left: ${differences.join(', ')}`,
      `Change it by hand as its table was changed (alter table ${nameOf(partition)} …), or give the new partition another name.`,
    ),
  ];
}

/**
 * Inside a transaction that is rolled back. What belongs to a partition is the server's own condition, read from an empty
 * copy.
 */
export async function checkPartitionRows(
  session: Queryable,
  change: ChangeOf<'add-partition'>,
): Promise<readonly MigrationProblem[]> {
  const { partition, live, back } = change;
  const others = live && defaultBeside(partition, live.partitioning?.partitions ?? []);
  if (live === null || (!others && !back)) return [];
  const belongs = await readCondition(session, change);
  if (belongs === null) return [];
  const at = `${partition.at}.values`;
  const problems: MigrationProblem[] = [];
  const held = others ? await countWhere(session, nameOf(others), belongs) : 0;
  if (others && held > 0)
    problems.push(
      problem(
        'MIG-204',
        at,
        `${counted(held, 'row', 'rows')} of ${others.name} would belong to it${await sampleKeys(session, others, live, belongs)}`,
        'PostgreSQL makes no partition for rows that the default one holds. A data step (after: start) can put them aside and delete them there, and a later one insert them again.',
      ),
    );
  const outside = back ? await countWhere(session, nameOf(partition), `not coalesce(${belongs}, false)`) : 0;
  if (outside > 0)
    problems.push(
      problem(
        'MIG-204',
        at,
        `it comes back, and ${counted(outside, 'of its rows is', 'of its rows are')} not within these values`,
        'Write the values that it had.',
      ),
    );
  return problems;
}

/** The one that takes what no other does; not where the new one is that itself. */
function defaultBeside(
  { parent, values }: DesiredPartition,
  partitions: readonly LivePartition[],
): LivePartition | undefined {
  if (values.normal === 'DEFAULT') return undefined;
  return partitions.find((one) => one.parent === parent && one.bound === 'DEFAULT');
}

async function readCondition(
  session: Queryable,
  { table, partition }: ChangeOf<'add-partition'>,
): Promise<string | null> {
  const parent = table.partitioning?.partitions.find(({ name }) => name === partition.parent);
  const by = parent ? parent.by : table.partitioning;
  if (!by) return null;
  await session.query(
    raw(`create temp table svc_copy (like ${nameOf(table)}) partition by ${by.sql};
      create temp table svc_part partition of svc_copy ${boundSql(partition.values.sql)}`),
  );
  const [row] = await session.query<{ condition: string | null }>(
    raw(`select pg_get_partition_constraintdef('pg_temp.svc_part'::regclass) as condition`),
  );
  return row?.condition ?? null;
}
