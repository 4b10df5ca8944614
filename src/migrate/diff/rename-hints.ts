// Renames that nobody declared. Only ever hints, because a removal keeps the data.
import type { Change } from './change.ts';
import { quoteIdent } from '../../postgres/sql.ts';
import type { Live } from '../schema/live/live-schema.ts';
import { keyOf, nameOf } from '../schema/model.ts';
import type { Ownership } from '../schema/managed.ts';
import { type MigrationProblem, problem } from '../problem.ts';

/**
 * A declared table is gone, and a table nobody declared has its constraints or indexes. Creating it again would fail over
 * the first of their names, or leave the rows behind.
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

/** A table loses one column and gains another of the same type: perhaps a rename. */
export function renameHints(changes: readonly Change[]): MigrationProblem[] {
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
      const { name } = gone.liveColumn;
      const message = `new column ${come.column.name} has the type of removed column ${name}`;
      hints.push(perhapsRename(come.column.at, message, name));
    }
  }
  return [...hints, ...tableRenameHints(changes)];
}

/** The share of equal columns that makes a new table look like a removed one. */
const SAME_COLUMNS = 0.75;

/** The same for tables. Not all columns need be equal: people rename a table and a column of it in one go. */
function tableRenameHints(changes: readonly Change[]): MigrationProblem[] {
  return changes.flatMap((come) => {
    if (come.kind !== 'create-table') return [];
    const columns = namesAndTypes(come.table.columns);
    let best = { name: '', share: 0 };
    for (const gone of changes) {
      if (gone.kind !== 'retire-table' || gone.live.schema !== come.table.schema) continue;
      const former = namesAndTypes(gone.live.columns.values());
      const same = [...columns].filter((one) => former.has(one)).length;
      const share = (2 * same) / (columns.size + former.size);
      if (share > best.share) best = { name: gone.live.name, share };
    }
    const { name, share } = best;
    if (share < SAME_COLUMNS) return [];
    const message = `new table ${come.table.name} has ${share === 1 ? '' : 'nearly '}the columns of removed table ${name}`;
    return [perhapsRename(come.table.at, message, name)];
  });
}

function perhapsRename(at: string, message: string, former: string): MigrationProblem {
  const hint = `If this is a rename, add renamed_from: ${former}. (${former} is kept, nothing was deleted)`;
  return problem('MIG-206', at, message, hint);
}

function namesAndTypes(columns: Iterable<{ readonly name: string; readonly type: string }>): Set<string> {
  return new Set([...columns].map(({ name, type }) => `${name} ${type}`));
}
