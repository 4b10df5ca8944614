// Partitions as statements. One that leaves the file leaves its table with its rows: it is a table by itself then, which
// nobody reaches.
import { quoteIdent } from '../../postgres/sql.ts';
import { nameOf } from '../schema/model.ts';
import { attachPartitionSql, createPartitionSql, makePartitionsSql, spanText } from '../schema/partitions.ts';
import { type ChangeOf, onTable, type Planners, SCAN_ROWS_PER_MS, type StepList } from './step-list.ts';

export const PARTITIONS = {
  'add-partition': addPartition,
  'make-partitions': (steps, { table, kept }) =>
    steps.add({
      identity: `${table.at}.partitions`,
      sql: makePartitionsSql(table, kept),
      stage: 'columns',
      summary: `partitions of ${table.name}, each of ${spanText(kept.every)}`,
    }),
  'rename-partition': (steps, { table, partition, name }) =>
    steps.add({
      ...onTable(table),
      identity: `${table.at}.partitions.${name}`,
      at: `${table.at}.partitions`,
      sql: `alter table ${nameOf(partition)} rename to ${quoteIdent(name)}`,
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
    // The rows of one that comes back are held against its bounds.
    scans: back !== null,
    estimateMs: steps.estimate(back, SCAN_ROWS_PER_MS),
    hazards: back ? ['DATA_DEPENDENT'] : [],
  });
}
