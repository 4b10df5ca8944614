// Rows in the way of a partition: those that the default partition holds and that would belong to it, and those of a table
// that comes back and no longer fits. What belongs to it is the server's own condition, read from an empty copy.
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import { type MigrationProblem, problem } from '../problem.ts';
import { nameOf } from '../schema/model.ts';
import { boundSql, type DesiredPartition, type LivePartition } from '../schema/partitions.ts';
import type { ChangeOf } from '../plan/step-list.ts';
import { counted, countWhere, sampleKeys } from './samples.ts';

/** Inside a transaction that is rolled back. */
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
