// What an index is made of: each entry is a column of the table or an expression, and says only what its kind of index knows.
import type { KeyPath } from '../../mistakes/mistake.ts';
import type { RawIndex } from '../../schema/tables/tables.ts';
import { type CheckContext, didYouMean } from '../context.ts';

type Part = Exclude<RawIndex['columns'][number], string>;

/** `columns`: null where only the server knows them. */
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
          : (didYouMean(column, columns) ?? `Its columns: ${[...columns].slice(0, 20).join(', ')}.`),
    });
  };
  index.columns.forEach((part, position) => {
    const path = [...at, 'columns', position];
    if (typeof part !== 'string') return checkPart(context, path, part, checkColumn);
    checkColumn(path, part);
    if ((columns === null || columns.has(part)) && listed.has(part))
      context.reportTwice(path, `the index has ${part} twice`);
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
      'options belong to an operator class, and none is named',
      'Add opclass:.',
      'key',
    );
  }
}

const ORDERED = new Set(['btree']);
/** PostgreSQL's own; what those of extensions can do only the server knows. */
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
        context.conflict(path, `an index of kind ${using} has no order`, `Remove ${key}.`, 'key');
      }
    });
  }
  if (include !== undefined && WITHOUT_INCLUDE.has(using))
    context.conflict(
      [...at, 'include'],
      `an index of kind ${using} holds no more columns`,
      'Remove include.',
      'key',
    );
  if (nullsNotDistinct && !unique)
    context.conflict(
      [...at, 'nulls_not_distinct'],
      'nulls_not_distinct is about unique indexes',
      'Add unique: true, or remove it.',
      'key',
    );
}

/** Nothing but a list of columns. */
export function plainColumns(index: RawIndex): readonly string[] | null {
  const { using = 'btree', include, with: options, nullsNotDistinct, columns } = index;
  if (!ORDERED.has(using) || include !== undefined || options !== undefined || nullsNotDistinct) return null;
  return columns.every((part) => typeof part === 'string') ? columns : null;
}
