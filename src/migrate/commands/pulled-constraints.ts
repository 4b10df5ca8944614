// Constraints that no field can say, as entries of `constraints:`.
import type {
  LiveCheck,
  LiveExclusion,
  LiveForeignKey,
  LiveKey,
  LiveTable,
} from '../schema/live/live-schema.ts';
import { bare, NAME, QUALIFIED, unqualified } from './pulled-index.ts';
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

const REST = new RegExp(
  `^(?: COLLATE (${QUALIFIED}))?(?: (?!WITH )(${QUALIFIED}))? WITH (?:OPERATOR\\([^)]*\\)|[^\\s,()]+)(?:, |\\))`,
);

/** What cannot be said is left out and named in `notes`. */
export function pulledExclusions(
  { exclusions }: LiveTable,
  strip: (text: string) => string,
  notes: string[],
): Node[] {
  return exclusions.flatMap((one) => {
    const parts = partsOf(one, strip);
    const using = /^EXCLUDE USING (\S+) \(/.exec(one.definition)?.[1] ?? '';
    if (parts === null) {
      notes.push(`exclusion constraint ${one.label}: ${one.definition}`);
      return [];
    }
    return [
      {
        exclude: parts,
        name: one.label,
        ...(using === 'gist' ? {} : { using: bare(using) }),
        ...(one.where === null ? {} : { where: strip(one.where) }),
        ...(one.deferrable === null ? {} : { deferrable: one.deferrable }),
      },
    ];
  });
}

function partsOf(
  { definition, keys, operators }: LiveExclusion,
  strip: (text: string) => string,
): Node[] | null {
  let rest = definition.replace(/^EXCLUDE USING \S+ \(/, '');
  const parts: Node[] = [];
  for (const [n, key] of keys.entries()) {
    const found = rest.startsWith(key) ? REST.exec(rest.slice(key.length)) : null;
    if (found === null) return null;
    rest = rest.slice(key.length + found[0].length);
    const [, collate, opclass] = found;
    parts.push({
      ...(new RegExp(`^${NAME}$`).test(key) ? { column: bare(key) } : { expression: strip(key) }),
      with: operators[n] ?? '',
      ...(opclass === undefined ? {} : { opclass: unqualified(opclass) }),
      ...(collate === undefined ? {} : { collate: unqualified(collate) }),
    });
  }
  return /^(?: WHERE |(?: NOT)? DEFERRABLE|$)/.test(rest) ? parts : null;
}
