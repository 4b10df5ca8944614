// The primary key of one row, as text: in the address of the page, and to ask about the row.
import type { TableInfo } from '../../../../src/dashboard-api/contract.ts';

/** Primary key columns and their values as text. */
export type RowKey = Readonly<Record<string, string>>;

/** As in the address of the page: `id=5`, or `order=5&line=1`. */
export function renderKey(key: RowKey): string {
  return new URLSearchParams(key).toString();
}

export function parseKey(table: TableInfo, text: string | undefined): RowKey | undefined {
  const given = new URLSearchParams(text ?? '');
  const entries = table.primaryKey.map((column) => [column, given.get(column)] as const);
  const isWhole = entries.length > 0 && entries.every(([, value]) => value !== null);
  return isWhole ? Object.fromEntries(entries.map(([column, value]) => [column, value ?? ''])) : undefined;
}
