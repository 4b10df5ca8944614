// CREATE INDEX statements, for the database and for the shadow schema.
import { quoteIdent } from '../../../postgres/sql.ts';
import type { IndexModel, IndexPart } from '../model.ts';
import { optionsSql } from './options-sql.ts';
import { sqlWords } from '../../../lib/sql/sql-text.ts';

/** Returns whether the columns and the predicate are sufficient to compare the index. */
export function isPlainIndex({
  columns,
  using,
  include,
  with: options,
  nullsNotDistinct,
}: IndexModel): boolean {
  const extras = [using, include, options, nullsNotDistinct];
  return columns.every((part) => typeof part === 'string') && extras.every((extra) => extra === undefined);
}

/** Returns the columns that the index names, including columns in expressions. */
export function indexColumns(
  { columns, include }: Pick<IndexModel, 'columns' | 'include'>,
  known: readonly string[],
): string[] {
  const named = columns.flatMap((part) => {
    if (typeof part === 'string') return [part];
    if (part.column !== undefined) return [part.column];
    const words = sqlWords(part.expression ?? '');
    return known.filter((column) => words.has(column));
  });
  return [...named, ...(include ?? [])];
}

/** Returns an element as SQL without its options: a name, or an expression in parentheses. */
export function keySql(part: IndexPart): string {
  if (typeof part === 'string') return quoteIdent(part);
  return part.column === undefined ? `(\n${part.expression ?? ''}\n)` : quoteIdent(part.column);
}

/** Returns `using gin ("a" gin_trgm_ops) include ("b") …`: everything except the predicate. */
export function indexBodySql(index: IndexModel): string {
  const { columns, using, include, nullsNotDistinct, with: options } = index;
  return [
    using === undefined ? '' : `using ${quoteIdent(using)} `,
    `(${columns.map(partSql).join(', ')})`,
    include === undefined ? '' : ` include (${include.map(quoteIdent).join(', ')})`,
    nullsNotDistinct ? ' nulls not distinct' : '',
    options === undefined ? '' : ` with (${optionsSql(options)})`,
  ].join('');
}

export function partSql(part: IndexPart): string {
  if (typeof part === 'string') return quoteIdent(part);
  const { collate, opclass, opclassOptions, order, nulls } = part;
  return [
    keySql(part),
    collate === undefined ? '' : ` collate ${qualifiedSql(collate)}`,
    opclass === undefined ? '' : ` ${qualifiedSql(opclass)}`,
    opclassOptions === undefined ? '' : ` (${optionsSql(opclassOptions)})`,
    order === undefined ? '' : ` ${order}`,
    nulls === undefined ? '' : ` nulls ${nulls}`,
  ].join('');
}

// A name of a collation may contain a dot, such as "en_US.utf8". Only known schemas are split off.
const IN_SCHEMA = /^(pg_catalog|public|extensions)\.(.+)$/s;

export function qualifiedSql(name: string): string {
  const [, schema, own] = IN_SCHEMA.exec(name) ?? [];
  return schema === undefined || own === undefined
    ? quoteIdent(name)
    : `${quoteIdent(schema)}.${quoteIdent(own)}`;
}

/** Returns a short text for messages, such as `(lower(email), created_at desc)`. */
export function describeIndex(index: IndexModel): string {
  const parts = index.columns.map((part) => {
    if (typeof part === 'string') return part;
    const { column, expression, collate, opclass, order, nulls } = part;
    const words = [column ?? expression, collate, opclass, order, nulls && `nulls ${nulls}`];
    return words.filter((word) => word !== undefined).join(' ');
  });
  const using = index.using === undefined ? '' : `using ${index.using} `;
  const include = index.include === undefined ? '' : ` include (${index.include.join(', ')})`;
  return `${using}(${parts.join(', ')})${include}`;
}
