// Detects undeclared renames. They only produce hints, because a removal keeps the data.
import type { Change } from './change.ts';
import { ofKind } from './change-kinds.ts';
import { quoteIdent } from '../../postgres/sql.ts';
import type { Live } from '../schema/live/live-schema.ts';
import { objectKey, quoteName } from '../schema/model.ts';
import type { Ownership } from '../schema/managed.ts';
import { type MigrationProblem, problem } from '../problem.ts';

/**
 * Returns a problem if a declared table is missing and an undeclared table has its constraints or indexes. Creating the
 * table would fail because of their names, or leave its rows in the other table.
 */
export function findManualRenames(
  changes: readonly Change[],
  live: Live,
  owned: Ownership,
): MigrationProblem[] {
  return ofKind(changes, 'create-table').flatMap(({ table }) => {
    const former = owned.tables.get(objectKey(table));
    const labels = new Set([...(former?.constraints ?? []), ...(former?.indexes ?? [])]);
    const found = [...live.tables.values()].find(
      (candidate) =>
        candidate.schema === table.schema &&
        !owned.tables.has(objectKey(candidate)) &&
        [...candidate.keys, ...candidate.indexes, ...candidate.foreignKeys, ...candidate.checks].some(
          ({ label }) => labels.has(label),
        ),
    );
    if (!found) return [];
    return [
      problem(
        'MIG-206',
        table.at,
        `${table.name} does not exist in the database, and ${found.name} has its constraints: it was renamed by hand`,
        `Rename it back: alter table ${quoteName(found)} rename to ${quoteIdent(table.name)}. Or ` +
          `name it ${found.name} in the file, with renamed_from: ${table.name}.`,
      ),
    ];
  });
}

/** Returns hints for tables that lose a column and gain another one of the same type. */
export function renameHints(changes: readonly Change[]): MigrationProblem[] {
  const hints: MigrationProblem[] = [];
  for (const removed of ofKind(changes, 'retire-column')) {
    for (const added of ofKind(changes, 'add-column')) {
      if (added.table !== removed.table || added.column.type !== removed.liveColumn.type) continue;
      const { name } = removed.liveColumn;
      const message = `new column ${added.column.name} has the type of removed column ${name}`;
      hints.push(perhapsRename(added.column.at, message, name));
    }
  }
  return [...hints, ...tableRenameHints(changes)];
}

/** Minimum share of equal columns for a hint about a renamed table, from 0 to 1. */
const MIN_EQUAL_COLUMNS = 0.75;

/**
 * Returns hints for renamed tables. A column may have been renamed with the table, so not all columns need to be equal.
 */
function tableRenameHints(changes: readonly Change[]): MigrationProblem[] {
  return ofKind(changes, 'create-table').flatMap((added) => {
    const columns = namesAndTypes(added.table.columns);
    let best = { name: '', share: 0 };
    for (const removed of ofKind(changes, 'retire-table')) {
      if (removed.live.schema !== added.table.schema) continue;
      const former = namesAndTypes(removed.live.columns.values());
      const same = [...columns].filter((nameAndType) => former.has(nameAndType)).length;
      const share = (2 * same) / (columns.size + former.size);
      if (share > best.share) best = { name: removed.live.name, share };
    }
    const { name, share } = best;
    if (share < MIN_EQUAL_COLUMNS) return [];
    const message =
      `new table ${added.table.name} has ` +
      `${share === 1 ? '' : 'nearly '}the columns of removed table ${name}`;
    return [perhapsRename(added.table.at, message, name)];
  });
}

function perhapsRename(at: string, message: string, former: string): MigrationProblem {
  const hint = `If this is a rename, add renamed_from: ${former}. (${former} is kept, and nothing is deleted.)`;
  return problem('MIG-206', at, message, hint);
}

function namesAndTypes(columns: Iterable<{ readonly name: string; readonly type: string }>): Set<string> {
  return new Set([...columns].map(({ name, type }) => `${name} ${type}`));
}
