// What a removal from the file is about, and what would go with it if it were dropped.
import type { Queryable } from '../../postgres/owner-database.ts';
import { quoteIdent, raw } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { nameOf } from '../schema/qualified-name.ts';

export type Removal = Extract<Change, { kind: 'retire-table' | 'retire-column' }>;

export function removalOf(change: Removal): { identity: string; at: string; what: string } {
  if (change.kind === 'retire-table') {
    const identity = `tables.${change.live.name}`;
    return { identity, at: identity, what: `table ${change.live.name}` };
  }
  const { name } = change.liveColumn;
  return { identity: `${change.table.at}.fields.${name}`, at: change.table.at, what: `column ${name}` };
}

/** Rows of removed tables and values of removed columns, by identity. */
export async function countRemoved(
  session: Queryable,
  changes: readonly Change[],
): Promise<Map<string, number>> {
  const values = new Map<string, number>();
  for (const change of changes) {
    if (change.kind !== 'retire-table' && change.kind !== 'retire-column') continue;
    const counted = change.kind === 'retire-table' ? '*' : quoteIdent(change.liveColumn.name);
    const table = change.kind === 'retire-table' ? change.live : change.table;
    const [row] = await session.query<{ values: string }>(
      raw(`select count(${counted})::text as values from ${nameOf(table)}`),
    );
    values.set(removalOf(change).identity, Number(row?.values ?? 0));
  }
  return values;
}
