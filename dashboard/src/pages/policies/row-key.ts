// Converts the primary key of a row to and from text for the query string of the page.
import type { TableInfo } from '../../../../src/dashboard-api/contract.ts';

/** Primary key columns and their values as text. */
export type RowKey = Readonly<Record<string, string>>;

/** Formats `id=5`, or `order=5&line=1`. */
export function renderKey(key: RowKey): string {
  return new URLSearchParams(key).toString();
}

export function parseKey(table: TableInfo, text: string | undefined): RowKey | undefined {
  const given = new URLSearchParams(text ?? '');
  const entries = table.primaryKey.map((column) => [column, given.get(column)] as const);
  const isWhole = entries.length > 0 && entries.every(([, value]) => value !== null);
  return isWhole ? Object.fromEntries(entries.map(([column, value]) => [column, value ?? ''])) : undefined;
}
