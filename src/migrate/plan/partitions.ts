// Statements for partitions. A partition that the file no longer declares is detached and keeps its rows. API roles
// cannot access the detached table.
import { quoteIdent } from '../../postgres/sql.ts';
import type { ChangeOf } from '../diff/change-kinds.ts';
import { quoteName } from '../schema/model.ts';
import { attachPartitionSql, createPartitionSql, makePartitionsSql, spanText } from '../schema/partitions.ts';
import { onTable, type Planners, SCAN_ROWS_PER_MS, type StepList } from './step-list.ts';

export const PARTITIONS = {
  'add-partition': addPartition,
  'make-partitions': (steps, { table, schedule }) =>
    steps.add({
      identity: `${table.at}.partitions`,
      sql: makePartitionsSql(table, schedule),
      stage: 'columns',
      summary: `partitions of ${table.name}, each of ${spanText(schedule.every)}`,
    }),
  'rename-partition': (steps, { table, partition, name }) =>
    steps.add({
      ...onTable(table),
      identity: `${table.at}.partitions.${name}`,
      at: `${table.at}.partitions`,
      sql: `alter table ${quoteName(partition)} rename to ${quoteIdent(name)}`,
      stage: 'columns',
      sign: '~',
      summary: `partition ${partition.name} renamed to ${name}`,
      hazards: ['BREAKS_OLD_CODE'],
    }),
} satisfies Partial<Planners>;

function addPartition(steps: StepList, { table, live, partition, back }: ChangeOf<'add-partition'>): void {
  const { name, values, at } = partition;
  steps.add({
    table: live && onTable(table).table,
    identity: at,
    sql: back ? attachPartitionSql(table, partition) : createPartitionSql(table, partition),
    stage: 'columns',
    summary: `partition ${name} ${values.written}${back ? ', back with its rows' : ''}`,
    // PostgreSQL checks the rows of a returning partition against its bounds.
    scans: back !== null,
    estimateMs: steps.estimate(back, SCAN_ROWS_PER_MS),
    hazards: back ? ['DATA_DEPENDENT'] : [],
  });
}
