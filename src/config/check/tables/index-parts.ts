// Parts of an index: each is a column or an expression, with options that its kind of index supports.
import type { KeyPath } from '../../mistakes/mistake.ts';
import type { RawIndex } from '../../schema/tables/tables.ts';
import { type CheckContext, didYouMean } from '../context.ts';

type Part = Exclude<RawIndex['columns'][number], string>;

/** `columns`: null if only the server knows the columns. */
export function checkIndexParts(
  context: CheckContext,
  at: KeyPath,
  index: RawIndex,
  { tableName, columns }: { tableName: string; columns: ReadonlySet<string> | null },
): void {
  const listed = new Set<string>();
  const checkColumn = (path: KeyPath, column: string): void => {
    if (columns === null || columns.has(column)) return;
    if (context.broken.touches(['tables', tableName, 'fields'])) return;
    context.report({
      code: 'unknown-reference',
      path,
      message: `the table ${tableName} has no column ${context.show(path, column)}`,
      hint: () =>
        /[(\s]/.test(column)
          ? `For an expression write { expression: ${/[,:{}[\]]/.test(column) ? JSON.stringify(column) : column} }.`
          : (didYouMean(column, columns) ?? `Columns: ${[...columns].slice(0, 20).join(', ')}.`),
    });
  };
  index.columns.forEach((part, position) => {
    const path = [...at, 'columns', position];
    if (typeof part !== 'string') return checkPart(context, path, part, checkColumn);
    checkColumn(path, part);
    if ((columns === null || columns.has(part)) && listed.has(part))
      context.reportTwice(path, `the index contains ${part} twice`);
    listed.add(part);
  });
  index.include?.forEach((column, position) => checkColumn([...at, 'include', position], column));
  checkKind(context, at, index);
}

function checkPart(
  context: CheckContext,
  path: KeyPath,
  { column, expression, opclass, opclassOptions }: Part,
  checkColumn: (path: KeyPath, column: string) => void,
): void {
  if (column !== undefined) checkColumn([...path, 'column'], column);
  if (column === undefined && expression === undefined) {
    context.report({
      code: 'missing-key',
      path,
      message: 'the entry names neither a column nor an expression',
      hint: 'Add column: or expression:.',
    });
  } else if (column !== undefined && expression !== undefined) {
    context.conflict(
      [...path, 'expression'],
      'the entry is either a column or an expression',
      'Remove one of the two.',
      'key',
    );
  }
  if (opclassOptions !== undefined && opclass === undefined) {
    context.conflict(
      [...path, 'opclass_options'],
      'opclass_options requires opclass',
      'Add opclass:.',
      'key',
    );
  }
}

const ORDERED = new Set(['btree']);
/** Access methods of PostgreSQL. Only the server knows the abilities of those from extensions. */
const UNORDERED = new Set(['hash', 'gin', 'gist', 'spgist', 'brin']);
const WITHOUT_INCLUDE = new Set(['hash', 'gin', 'brin']);

function checkKind(context: CheckContext, at: KeyPath, index: RawIndex): void {
  const { using = 'btree', unique, nullsNotDistinct, include } = index;
  if (UNORDERED.has(using)) {
    if (unique)
      context.conflict(
        [...at, 'unique'],
        `an index of kind ${using} cannot be unique`,
        'Remove using.',
        'key',
      );
    index.columns.forEach((part, position) => {
      if (typeof part === 'string') return;
      for (const key of ['order', 'nulls'] as const) {
        if (part[key] === undefined) continue;
        const path = [...at, 'columns', position, key];
        context.conflict(path, `an index of kind ${using} is not ordered`, `Remove ${key}.`, 'key');
      }
    });
  }
  if (include !== undefined && WITHOUT_INCLUDE.has(using))
    context.conflict(
      [...at, 'include'],
      `an index of kind ${using} cannot include columns`,
      'Remove include.',
      'key',
    );
  if (nullsNotDistinct && !unique)
    context.conflict(
      [...at, 'nulls_not_distinct'],
      'nulls_not_distinct is only valid for a unique index',
      'Add unique: true, or remove it.',
      'key',
    );
}

/** Returns the columns of an index that has no other options and no expressions, otherwise null. */
export function plainColumns(index: RawIndex): readonly string[] | null {
  const { using = 'btree', include, with: options, nullsNotDistinct, columns } = index;
  if (!ORDERED.has(using) || include !== undefined || options !== undefined || nullsNotDistinct) return null;
  return columns.every((part) => typeof part === 'string') ? columns : null;
}
