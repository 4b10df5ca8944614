// How wide a column is and how its values sit, from what it holds.
import type { ColumnInfo, TableInfo } from '../../../../src/dashboard-api/contract.ts';
import { kindOf, type ValueKind } from '../../parts/values.ts';

const WIDTHS: Readonly<Record<ValueKind, number>> = {
  boolean: 96,
  choice: 128,
  number: 112,
  json: 280,
  array: 200,
  time: 248,
  uuid: 288,
  text: 240,
};

const MAX_WIDTH = 360;
const CHARACTER = 8;

/** The box for selecting a row. */
export const SELECTOR_WIDTH = 40;

export function widthOf(column: ColumnInfo): number {
  const header = (column.name.length + column.type.length) * CHARACTER + 48;
  const content = column.type === 'date' || column.type.startsWith('time ') ? 120 : WIDTHS[kindOf(column)];
  return Math.min(MAX_WIDTH, Math.max(content, header));
}

export function isMono(column: ColumnInfo): boolean {
  return ['uuid', 'json', 'array', 'time'].includes(kindOf(column));
}

export function isOrderable(column: ColumnInfo): boolean {
  return (
    column.type !== 'json' && !['xml', 'point', 'polygon', 'path', 'box', 'circle'].includes(column.type)
  );
}

/** Whether a value of it may be written, whoever writes. */
export function isWritable(column: ColumnInfo): boolean {
  return column.generated !== 'stored' && column.generated !== 'always';
}

/** Rows are changed one by one: without a primary key there is no saying which. */
export function hasKey(table: TableInfo): boolean {
  return table.primaryKey.length > 0;
}
