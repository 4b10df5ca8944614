// Renames that nobody declared: only ever a hint, because a removal keeps the data.
import type { Change } from './change.ts';
import { quoteIdent } from '../postgres/sql.ts';
import type { Live } from './facts.ts';
import { keyOf } from './model.ts';
import type { Ownership } from './ownership.ts';
import { type MigrationProblem, problem } from './problem.ts';
import { nameOf } from './step-list.ts';

/**
 * A declared table that is gone while a table nobody declared has its constraints or indexes. Making it anew would fail
 * over the first of their names, or leave the rows behind.
 */
export function renamedByHand(changes: readonly Change[], live: Live, owned: Ownership): MigrationProblem[] {
  return changes.flatMap((change) => {
    if (change.kind !== 'create-table') return [];
    const { table } = change;
    const former = owned.tables.get(keyOf(table));
    const labels = new Set([...(former?.constraints ?? []), ...(former?.indexes ?? [])]);
    const found = [...live.tables.values()].find(
      (one) =>
        one.schema === table.schema &&
        !owned.tables.has(keyOf(one)) &&
        [...one.keys, ...one.indexes, ...one.foreignKeys, ...one.checks].some(({ label }) =>
          labels.has(label),
        ),
    );
    if (!found) return [];
    return [
      problem(
        'MIG-206',
        table.at,
        `${table.name} is gone from the database, and ${found.name} has its constraints: somebody renamed it by hand`,
        `Rename it back: alter table ${nameOf(found)} rename to ${quoteIdent(table.name)}. Or call it ${found.name} in the file, with renamed_from: ${table.name}.`,
      ),
    ];
  });
}

/** A column gone and one come with the same type in one table: perhaps a rename nobody declared. */
export function lookAlikes(changes: readonly Change[]): MigrationProblem[] {
  const hints: MigrationProblem[] = [];
  for (const gone of changes) {
    if (gone.kind !== 'retire-column') continue;
    for (const come of changes) {
      if (
        come.kind !== 'add-column' ||
        come.table !== gone.table ||
        come.column.type !== gone.liveColumn.type
      )
        continue;
      hints.push(
        problem(
          'MIG-206',
          come.column.at,
          `new column ${come.column.name} has the type of removed column ${gone.liveColumn.name}`,
          `If this is a rename, add renamed_from: ${gone.liveColumn.name}. (${gone.liveColumn.name} is kept, nothing was deleted)`,
        ),
      );
    }
  }
  for (const gone of changes) {
    if (gone.kind !== 'retire-table') continue;
    const columns = [...gone.live.columns.values()]
      .map((column) => `${column.name} ${column.type}`)
      .sort()
      .join();
    for (const come of changes) {
      if (
        come.kind !== 'create-table' ||
        come.table.columns
          .map((column) => `${column.name} ${column.type}`)
          .sort()
          .join() !== columns
      )
        continue;
      hints.push(
        problem(
          'MIG-206',
          come.table.at,
          `new table ${come.table.name} has the columns of removed table ${gone.live.name}`,
          `If this is a rename, add renamed_from: ${gone.live.name}. (${gone.live.name} is kept, nothing was deleted)`,
        ),
      );
    }
  }
  return hints;
}
