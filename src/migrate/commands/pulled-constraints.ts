// Converts constraints that no field can express to entries of `constraints:`.
import type {
  LiveCheck,
  LiveExclusion,
  LiveForeignKey,
  LiveKey,
  LiveTable,
} from '../schema/live/live-schema.ts';
import { bare, NAME, QUALIFIED, unqualified } from './pulled-index.ts';
import { quotedReference } from '../../config/schema/tables/reference.ts';
import { checkLabel, foreignKeyLabel, uniqueLabel } from '../schema/label.ts';
import { isPlainKey } from '../schema/relation.ts';
import { referenceKeys } from './pulled-columns.ts';

type Node = Record<string, unknown>;

/** Returns the foreign key that a field can express: of this column only, validated, and with the generated name. */
export function fieldReference(table: LiveTable, columns: readonly string[]): LiveForeignKey | undefined {
  const [column = '', ...more] = columns;
  if (more.length > 0) return undefined;
  return table.foreignKeys.find(
    (foreignKey) =>
      foreignKey.columns.length === 1 &&
      foreignKey.columns[0] === column &&
      !foreignKey.matchFull &&
      foreignKey.validated &&
      foreignKey.onDeleteColumns === null &&
      foreignKey.label === foreignKeyLabel(table.name, [column]) &&
      ![foreignKey.targetSchema, foreignKey.targetTable, ...foreignKey.targetColumns].some((name) =>
        name.includes('.'),
      ),
  );
}

/** Returns true for a unique key that a field can express. */
export function canBelongToField(table: LiveTable, key: LiveKey): boolean {
  const { kind, columns, label } = key;
  return (
    kind === 'unique' && isPlainKey(key) && columns.length === 1 && label === uniqueLabel(table.name, columns)
  );
}

/** Returns true for a check that no field can express: of several columns, not validated, or with a custom name. */
export function needsTableConstraint(table: LiveTable, { columns, validated, label }: LiveCheck): boolean {
  const [column = '', ...more] = columns;
  if (columns.length === 0 || more.length > 0 || !validated) return true;
  return !(['enum', 'pattern', 'range', 'check'] as const).some(
    (role) => checkLabel(table.name, column, role) === label,
  );
}

export function pulledUniques(table: LiveTable): Node[] {
  return table.keys
    .filter((key) => key.kind === 'unique' && !canBelongToField(table, key))
    .map(({ label, columns, deferrable, nullsNotDistinct }: LiveKey) => ({
      unique: columns,
      ...(label === uniqueLabel(table.name, columns) ? {} : { name: label }),
      ...(nullsNotDistinct ? { nulls_not_distinct: true } : {}),
      ...(deferrable === null ? {} : { deferrable }),
    }));
}

export function pulledForeignKey(table: LiveTable, key: LiveForeignKey): Node {
  const { label, columns, targetSchema, targetTable, targetColumns, onDeleteColumns } = key;
  const schema = targetSchema === 'public' ? '' : `${quotedReference(targetSchema)}.`;
  return {
    foreign_key: columns,
    references: `${schema}${quotedReference(targetTable)}(${targetColumns.map(quotedReference).join(', ')})`,
    ...(label === foreignKeyLabel(table.name, columns) ? {} : { name: label }),
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

const AFTER_KEY = new RegExp(
  `^(?: COLLATE (${QUALIFIED}))?(?: (?!WITH )(${QUALIFIED}))? WITH (?:OPERATOR\\([^)]*\\)|[^\\s,()]+)(?:, |\\))`,
);

/** Returns exclusion constraints as entries. Constraints that the file cannot express are added to `notes`. */
export function pulledExclusions(
  { exclusions }: LiveTable,
  strip: (text: string) => string,
  notes: string[],
): Node[] {
  return exclusions.flatMap((exclusion) => {
    const parts = exclusionParts(exclusion, strip);
    const using = /^EXCLUDE USING (\S+) \(/.exec(exclusion.definition)?.[1] ?? '';
    if (parts === null) {
      notes.push(`exclusion constraint ${exclusion.label}: ${exclusion.definition}`);
      return [];
    }
    return [
      {
        exclude: parts,
        name: exclusion.label,
        ...(using === 'gist' ? {} : { using: bare(using) }),
        ...(exclusion.where === null ? {} : { where: strip(exclusion.where) }),
        ...(exclusion.deferrable === null ? {} : { deferrable: exclusion.deferrable }),
      },
    ];
  });
}

function exclusionParts(
  { definition, keys, operators }: LiveExclusion,
  strip: (text: string) => string,
): Node[] | null {
  let rest = definition.replace(/^EXCLUDE USING \S+ \(/, '');
  const parts: Node[] = [];
  for (const [n, key] of keys.entries()) {
    const found = rest.startsWith(key) ? AFTER_KEY.exec(rest.slice(key.length)) : null;
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
