// The payload of a `postgres_changes` message.
import type { DatabaseRole } from '../../postgres/pool/caller-pool.ts';
import type { EventKind, PublishedTable } from './published-tables.ts';
import type { JsonRow } from './row-values.ts';

export type RenderedRow = {
  readonly kind: EventKind;
  readonly table: PublishedTable;
  /** Milliseconds since 1970. */
  readonly committedAt: number;
  readonly new: JsonRow | undefined;
  readonly old: JsonRow | undefined;
  /** Larger than `realtime.limits.change`. */
  readonly isTooLarge: boolean;
};

/** Of a change that is too large, only values up to this length are sent. */
const SMALL_VALUE = 64;

/** `wanted`: columns besides the key; undefined: all. */
export function dataText(
  row: RenderedRow,
  role: DatabaseRole,
  wanted: ReadonlySet<string> | undefined,
): string {
  const { table, kind } = row;
  const selectable = table.selectable[role];
  const isShown = (name: string): boolean =>
    selectable.has(name) && (!wanted || wanted.has(name) || table.key.includes(name));
  const errors = errorsOf(row, selectable);
  const isRefused = errors !== undefined && !row.isTooLarge;
  const columns = isRefused ? [] : table.columns.filter(({ name }) => isShown(name));
  const record = (values: JsonRow, only?: ReadonlySet<string>): string => {
    const entries = columns
      .filter(({ name }) => values.has(name) && (!only || only.has(name)))
      .map(({ name }) => [name, values.get(name) ?? 'null'] as const)
      .filter(([, value]) => !row.isTooLarge || value.length <= SMALL_VALUE);
    return `{${entries.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`;
  };
  const parts = [
    `"schema":${JSON.stringify(table.schema)}`,
    `"table":${JSON.stringify(table.name)}`,
    `"type":"${kind.toUpperCase()}"`,
    `"commit_timestamp":"${new Date(row.committedAt).toISOString()}"`,
    `"columns":${JSON.stringify(columns.map(({ name, type }) => ({ name, type })))}`,
  ];
  if (kind !== 'delete') parts.push(`"record":${row.new && !isRefused ? record(row.new) : '{}'}`);
  // With row-level security nobody can be asked who could see a row that is gone: its key, and no more.
  const only = kind === 'delete' && table.hasRowSecurity ? new Set(table.key) : undefined;
  if (kind !== 'insert') parts.push(`"old_record":${row.old && !isRefused ? record(row.old, only) : '{}'}`);
  parts.push(`"errors":${errors === undefined ? 'null' : JSON.stringify([errors])}`);
  return `{${parts.join(',')}}`;
}

function errorsOf({ table, isTooLarge }: RenderedRow, selectable: ReadonlySet<string>): string | undefined {
  if (table.key.length === 0) return 'Error 400: Bad Request, no primary key';
  if (!table.key.every((name) => selectable.has(name))) return 'Error 401: Unauthorized';
  return isTooLarge ? 'Error 413: Payload Too Large' : undefined;
}
