// Constraints that no field can say, as entries of `constraints:`.
import type { LiveCheck, LiveForeignKey, LiveKey, LiveTable } from '../schema/live/live-schema.ts';
import { isPlainKey } from '../schema/relation.ts';
import { referenceKeys } from './pulled-columns.ts';

type Node = Record<string, unknown>;

/** The foreign key that a field says: one of its column alone, whose rows were all checked. */
export function referenceOf(table: LiveTable, columns: readonly string[]): LiveForeignKey | undefined {
  const [column, ...more] = columns;
  if (more.length > 0) return undefined;
  return table.foreignKeys.find(
    (one) => one.columns.length === 1 && one.columns[0] === column && !one.matchFull && one.validated,
  );
}

/** A check that speaks of several columns, or was never checked on all rows. */
export function isOfTable({ columns, validated }: LiveCheck): boolean {
  return columns.length > 1 || !validated;
}

export function pulledUniques({ keys }: LiveTable): Node[] {
  return keys
    .filter((key) => key.kind === 'unique' && !isPlainKey(key))
    .map(({ label, columns, deferrable, nullsNotDistinct }: LiveKey) => ({
      unique: columns,
      name: label,
      ...(nullsNotDistinct ? { nulls_not_distinct: true } : {}),
      ...(deferrable === null ? {} : { deferrable }),
    }));
}

export function pulledForeignKey(key: LiveForeignKey): Node {
  const { label, columns, targetSchema, targetTable, targetColumns, onDeleteColumns } = key;
  const schema = targetSchema === 'public' ? '' : `${targetSchema}.`;
  return {
    foreign_key: columns,
    references: `${schema}${targetTable}(${targetColumns.join(', ')})`,
    name: label,
    ...referenceKeys(key),
    ...(onDeleteColumns === null ? {} : { on_delete_columns: onDeleteColumns }),
    ...(key.matchFull ? { match: 'full' } : {}),
    ...(key.validated ? {} : { not_valid: true }),
  };
}

export function pulledCheck(check: LiveCheck, strip: (text: string) => string): Node {
  const { label, expression, validated } = check;
  return { check: strip(expression), name: label, ...(validated ? {} : { not_valid: true }) };
}
