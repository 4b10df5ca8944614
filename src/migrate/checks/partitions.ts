// Checks of partitioned tables. A migration cannot partition an existing table, remove the partitioning, or change the
// key or the bounds, because rows would have to move. Rows of the default partition, and rows of a table that is
// attached again, can conflict with a new partition.
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import type { ChangeOf } from '../diff/change-kinds.ts';
import { type MigrationProblem, problem } from '../problem.ts';
import type { Desired, DesiredTable } from '../schema/desired.ts';
import type { Live, LiveTable } from '../schema/live/live-schema.ts';
import { ownedTable, type Ownership } from '../schema/managed.ts';
import { objectKey, quoteName } from '../schema/model.ts';
import {
  boundSql,
  type DesiredPartition,
  type DesiredPartitioning,
  type LivePartition,
  type LivePartitioning,
} from '../schema/partitions.ts';
import { formatQuantity, countWhere, findRowsSql, keyNote } from './samples.ts';

export function checkPartitioning({ tables }: Desired, live: Live, owned: Ownership): MigrationProblem[] {
  return tables.flatMap((table) => {
    const found = live.tables.get(objectKey(table));
    if (table.partitioning === null)
      return found?.partitioning && ownedTable(owned, objectKey(table)).attributes?.includes('partitioned')
        ? [partitioningRemoved(table)]
        : [];
    if (!found) return findTakenNames(table.partitioning, live, () => false);
    const taken = findTakenNames(table.partitioning, live, (key) => owned.retiredTables.has(key));
    if (found.partitioning === null) return [partitioningAdded(table, found)];
    const { partitions } = table.partitioning;
    const back = partitions.flatMap((partition) =>
      owned.retiredTables.has(objectKey(partition))
        ? findChangesSince(partition, partitions, found, live.tables.get(objectKey(partition)))
        : [],
    );
    return [...findDifferences(table.partitioning, found.partitioning), ...taken, ...back];
  });
}

function partitioningRemoved(table: DesiredTable): MigrationProblem {
  return problem(
    'MIG-116',
    table.at,
    `${table.name} is partitioned in the database, but not in the file: its rows would have to move`,
    'Put partition_by and partitions back.',
  );
}

function partitioningAdded(table: DesiredTable, { estimatedRows }: LiveTable): MigrationProblem {
  return problem(
    'MIG-116',
    table.partitioning?.at ?? table.at,
    `${table.name} exists and is not partitioned. PostgreSQL cannot partition an existing table: ` +
      (estimatedRows === 0 ? 'it has to be recreated' : 'its rows have to move to a new table'),
    'Give the partitioned table another name and move the rows with a data step. If the ' +
      `table is empty, run drop table ${table.schema}.${table.name} first.`,
  );
}

function findDifferences(wanted: DesiredPartitioning, live: LivePartitioning): MigrationProblem[] {
  if (wanted.normal !== live.key)
    return [
      problem(
        'MIG-116',
        wanted.at,
        `the table is partitioned by ${live.key} in the database and by ` +
          `${wanted.normal} in the file: its rows would have to move`,
        'Declare the existing key, or declare a table with another name.',
      ),
    ];
  const found = new Map(
    live.partitions.map((livePartition) => [`${livePartition.schema}.${livePartition.name}`, livePartition]),
  );
  return wanted.partitions.flatMap((partition) => {
    const livePartition = found.get(objectKey(partition));
    if (!livePartition) return [];
    const [at, existing, declared] =
      livePartition.bound !== partition.values.normal
        ? [`${partition.at}.values`, livePartition.bound, partition.values.normal]
        : livePartition.parent !== partition.parent
          ? [
              partition.at,
              `part of ${livePartition.parent ?? 'the table'}`,
              `part of ${partition.parent ?? 'the table'}`,
            ]
          : [
              `${partition.at}.partition_by`,
              describeKey(livePartition.by?.key),
              describeKey(partition.by?.normal),
            ];
    if (existing === declared) return [];
    return [
      problem(
        'MIG-116',
        at,
        `the partition ${partition.name} is ${existing} in the database and ` +
          `${declared} in the file: its rows would have to move`,
        'Declare it as it exists, or declare a partition with another name. ' +
          'A partition that leaves the file is detached with its rows.',
      ),
    ];
  });
}

function describeKey(key: string | undefined): string {
  return key === undefined ? 'not partitioned further' : `partitioned by ${key}`;
}

/** `comesBack`: whether the table with this key is a retired partition that is attached again. */
function findTakenNames(
  { partitions }: DesiredPartitioning,
  { tables, views }: Live,
  comesBack: (key: string) => boolean,
): MigrationProblem[] {
  return partitions.flatMap((partition) => {
    const key = objectKey(partition);
    if (!(tables.has(key) && !comesBack(key)) && !views.has(key)) return [];
    return [
      problem(
        'MIG-116',
        partition.at,
        `a ${tables.has(key) ? 'table' : 'view'} ${partition.name} exists and is not a partition of this table`,
        `Choose another name${tables.has(key) ? ', or attach it by hand: alter table … attach partition …' : ''}.`,
      ),
    ];
  });
}

/** A retired partition can be attached again only if its columns and checks equal those of the table. */
function findChangesSince(
  partition: DesiredPartition,
  partitions: readonly DesiredPartition[],
  table: LiveTable,
  back: LiveTable | undefined,
): MigrationProblem[] {
  if (!back) return [];
  const key = back.partitioning?.key ?? null;
  const bounds = new Map(
    back.partitioning?.partitions.map((livePartition) => [livePartition.name, livePartition.bound]),
  );
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
      !back.checks.some((liveCheck) => liveCheck.label === label && liveCheck.expression === expression),
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
      `${partition.name} cannot be attached again, because the table has changed ` +
        `since it was detached: ${differences.join(', ')}`,
      'Apply the same changes to it by hand (alter table ' +
        `${quoteName(partition)} …), or give the new partition another name.`,
    ),
  ];
}

/**
 * Counts rows that conflict with a new partition, in a transaction that is rolled back. The condition of the partition
 * is read from an empty copy of the table.
 */
export async function checkPartitionRows(
  session: Queryable,
  change: ChangeOf<'add-partition'>,
): Promise<readonly MigrationProblem[]> {
  const { partition, live, back } = change;
  const defaultPartition = live && findDefaultPartition(partition, live.partitioning?.partitions ?? []);
  if (live === null || (!defaultPartition && !back)) return [];
  const belongs = await readCondition(session, change);
  if (belongs === null) return [];
  const at = `${partition.at}.values`;
  const problems: MigrationProblem[] = [];
  const held = defaultPartition ? await countWhere(session, quoteName(defaultPartition), belongs) : 0;
  if (defaultPartition && held > 0)
    problems.push(
      problem(
        'MIG-204',
        at,
        `${formatQuantity(held, 'row belongs', 'rows belong')} to the new partition, but the ` +
          `default partition ${defaultPartition.name} holds them${keyNote(live)}`,
        'Move them to another table in a data step (after: start), and insert them again in a later ' +
          `data step. Find them: ${findRowsSql(quoteName(defaultPartition), belongs)}`,
      ),
    );
  const outside = back
    ? await countWhere(session, quoteName(partition), `not coalesce(${belongs}, false)`)
    : 0;
  if (outside > 0)
    problems.push(
      problem(
        'MIG-204',
        at,
        `${formatQuantity(outside, 'row', 'rows')} of the retired partition ` +
          `${outside === 1 ? 'is' : 'are'} not within these values`,
        'Declare the former values. Find the rows: ' +
          findRowsSql(quoteName(partition), `not coalesce(${belongs}, false)`),
      ),
    );
  return problems;
}

/** Returns the default partition next to a new partition, unless the new one is the default partition. */
function findDefaultPartition(
  { parent, values }: DesiredPartition,
  partitions: readonly LivePartition[],
): LivePartition | undefined {
  if (values.normal === 'DEFAULT') return undefined;
  return partitions.find(
    (livePartition) => livePartition.parent === parent && livePartition.bound === 'DEFAULT',
  );
}

async function readCondition(
  session: Queryable,
  { table, partition }: ChangeOf<'add-partition'>,
): Promise<string | null> {
  const parent = table.partitioning?.partitions.find(({ name }) => name === partition.parent);
  const by = parent ? parent.by : table.partitioning;
  if (!by) return null;
  await session.query(
    raw(`create temp table svc_copy (like ${quoteName(table)}) partition by ${by.sql};
      create temp table svc_part partition of svc_copy ${boundSql(partition.values.sql)}`),
  );
  const [row] = await session.query<{ condition: string | null }>(
    raw(`select pg_get_partition_constraintdef('pg_temp.svc_part'::regclass) as condition`),
  );
  return row?.condition ?? null;
}
