// Layout of grid columns: width and alignment by type.
import type { ColumnInfo, TableInfo } from '../../../../src/dashboard-api/contract.ts';
import { valueKind, type ValueKind } from '../../parts/values.ts';

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

/** Width of the column with the row selector. */
export const SELECTOR_WIDTH = 40;

export function columnWidth(column: ColumnInfo): number {
  const header = (column.name.length + column.type.length) * CHARACTER + 48;
  const content = column.type === 'date' || column.type.startsWith('time ') ? 120 : WIDTHS[valueKind(column)];
  return Math.min(MAX_WIDTH, Math.max(content, header));
}

export function isMono(column: ColumnInfo): boolean {
  return ['uuid', 'json', 'array', 'time'].includes(valueKind(column));
}

export function isOrderable(column: ColumnInfo): boolean {
  return (
    column.type !== 'json' && !['xml', 'point', 'polygon', 'path', 'box', 'circle'].includes(column.type)
  );
}

/** Returns whether any caller can write the column. */
export function isWritable(column: ColumnInfo): boolean {
  return column.generated !== 'stored' && column.generated !== 'always';
}

/** Returns whether rows can be identified, which editing requires. */
export function hasKey(table: TableInfo): boolean {
  return table.primaryKey.length > 0;
}
