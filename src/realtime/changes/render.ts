// Renders the payloads of `postgres_changes` messages.
import type { DatabaseRole } from '../../postgres/pool/caller-pool.ts';
import type { EventKind, PublishedTable } from '../tables/published-tables.ts';
import type { JsonRow } from '../tables/row-values.ts';
import type { Binding, Subscriber } from './subscription.ts';

export type RenderedRow = {
  readonly kind: EventKind;
  readonly table: PublishedTable;
  /** Commit time in milliseconds since 1970. */
  readonly committedAt: number;
  readonly new: JsonRow | undefined;
  readonly old: JsonRow | undefined;
  /** True if the change exceeds `realtime.limits.change`. */
  readonly isTooLarge: boolean;
};

/** Longest value that is sent of a change that exceeds the limit. */
const MAX_VALUE_LENGTH = 64;

/** Renders `data` of the message. `requested`: columns in addition to the primary key. Undefined means all columns. */
export function dataText(
  row: RenderedRow,
  role: DatabaseRole,
  requested: ReadonlySet<string> | undefined,
): string {
  const { table, kind } = row;
  const selectable = table.selectable[role];
  const isShown = (name: string): boolean =>
    selectable.has(name) && (!requested || requested.has(name) || table.key.includes(name));
  const errors = findError(row, selectable);
  const isRefused = errors !== undefined && !row.isTooLarge;
  const columns = isRefused ? [] : table.columns.filter(({ name }) => isShown(name));
  const record = (values: JsonRow, only?: ReadonlySet<string>): string => {
    const entries = columns
      .filter(({ name }) => values.has(name) && (!only || only.has(name)))
      .map(({ name }) => [name, values.get(name) ?? 'null'] as const)
      .filter(([, value]) => !row.isTooLarge || value.length <= MAX_VALUE_LENGTH);
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
  // RLS cannot be evaluated for a deleted row, so delete events carry only the primary key.
  const only = kind === 'delete' && table.hasRowSecurity ? new Set(table.key) : undefined;
  if (kind !== 'insert') parts.push(`"old_record":${row.old && !isRefused ? record(row.old, only) : '{}'}`);
  parts.push(`"errors":${errors === undefined ? 'null' : JSON.stringify([errors])}`);
  return `{${parts.join(',')}}`;
}

function findError({ table, isTooLarge }: RenderedRow, selectable: ReadonlySet<string>): string | undefined {
  if (table.key.length === 0) return 'Error 400: Bad Request, no primary key';
  if (!table.key.every((name) => selectable.has(name))) return 'Error 401: Unauthorized';
  return isTooLarge ? 'Error 413: Payload Too Large' : undefined;
}

/** Returns functions that send the change to its recipients. Recipients who see the same columns share the text. */
export function renderMessages(row: RenderedRow, recipients: readonly Subscriber[]): Array<() => void> {
  const rendered = new Map<string, string>();
  return recipients.flatMap(({ subscription, bindings }) => {
    const { role } = subscription.caller;
    return idsByColumns(bindings).map(([columns, ids]) => {
      const key = `${role} ${columns ? [...columns].join() : '*'}`;
      const data = rendered.get(key) ?? dataText(row, role, columns);
      rendered.set(key, data);
      const payload = `{"ids":${JSON.stringify(ids)},"data":${data}}`;
      return () => {
        if (!subscription.isClosed) subscription.request.deliver(payload);
      };
    });
  });
}

/** Groups binding ids: bindings with the same columns share a message. */
function idsByColumns(
  bindings: readonly Binding[],
): ReadonlyArray<readonly [columns: ReadonlySet<string> | undefined, ids: number[]]> {
  const found = new Map<string, [ReadonlySet<string> | undefined, number[]]>();
  for (const { columns, requested } of bindings) {
    const key = columns ? JSON.stringify([...columns]) : '*';
    const entry = found.get(key);
    if (entry) entry[1].push(requested.id);
    else found.set(key, [columns, [requested.id]]);
  }
  return [...found.values()];
}
