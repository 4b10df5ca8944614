// Renames that nobody declared: only ever a hint, because a removal keeps the data.
import type { Change } from './change.ts';
import { type MigrationProblem, problem } from './problem.ts';

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
