// What somebody who moves in should look at: it works as it did, and is perhaps not what was meant.
import { POLICY_ROLES } from '../../schema/rights/roles.ts';
import type { Live, LiveTable } from '../../schema/live/live-schema.ts';

/** A line each, for what the file takes. Functions that would not be safe are not taken. */
export function toDecide(live: Live, isTaken: (key: string) => boolean): string[] {
  const tables = [...live.tables].filter(([key]) => isTaken(key));
  const views = [...live.views].filter(([key]) => isTaken(key));
  return [
    ...tables.flatMap(([key, table]) => ofTable(table).map((line) => `table ${key}: ${line}`)),
    ...views
      .filter(([, { definer, materialized }]) => definer && !materialized)
      .map(([key]) => `view ${key}: it reads with the rights of its owner, past policies`),
  ];
}

function ofTable(table: LiveTable): string[] {
  const key = table.keys.find(({ kind }) => kind === 'primary');
  const lines = table.rowSecurity ? [] : openTo(table);
  if (!key) lines.push('it has no primary key');
  for (const { columns } of table.foreignKeys)
    if (!isIndexed(table, columns))
      lines.push(
        `no index for the foreign key of ${columns.join(', ')}: a removal there reads all rows here`,
      );
  return lines;
}

function openTo({ grants }: LiveTable): string[] {
  const roles = [...POLICY_ROLES.split(','), 'public'].filter((role) => (grants[role] ?? []).length > 0);
  return roles.length === 0 ? [] : [`no policies, and open to ${roles.join(', ')}`];
}

function isIndexed(table: LiveTable, columns: readonly string[]): boolean {
  const begins = (of: readonly string[]): boolean =>
    columns.every((column) => of.slice(0, columns.length).includes(column));
  const whole = table.indexes.filter(({ plain, predicate }) => plain && predicate === null);
  return [...table.keys, ...whole].some((one) => begins(one.columns));
}
