// What no migration does: a table becomes partitioned, or stops to be, or is cut by another key or at other bounds. Its rows
// would have to move.
import { type MigrationProblem, problem } from '../problem.ts';
import type { Desired, DesiredTable } from '../schema/desired.ts';
import type { Live, LiveTable } from '../schema/live/live-schema.ts';
import { ownedOf, type Ownership } from '../schema/managed.ts';
import { keyOf } from '../schema/model.ts';
import type { DesiredPartitioning, LivePartitioning } from '../schema/partitions.ts';

export function refusePartitioning({ tables }: Desired, live: Live, owned: Ownership): MigrationProblem[] {
  return tables.flatMap((table) => {
    const found = live.tables.get(keyOf(table));
    if (table.partitioning === null)
      return found?.partitioning && ownedOf(owned, keyOf(table)).attributes?.includes('partitioned')
        ? [noLonger(table)]
        : [];
    const taken = takenNames(table.partitioning, live, owned);
    if (!found) return taken;
    if (found.partitioning === null) return [notYet(table, found)];
    return [...otherwise(table.partitioning, found.partitioning), ...taken];
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

/** What is retired under the name comes back as the partition. */
function takenNames(
  { partitions }: DesiredPartitioning,
  { tables, views }: Live,
  owned: Ownership,
): MigrationProblem[] {
  return partitions.flatMap((one) => {
    const key = keyOf(one);
    if (!(tables.has(key) && !owned.retiredTables.has(key)) && !views.has(key)) return [];
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
