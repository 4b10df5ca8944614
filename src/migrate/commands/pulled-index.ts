// Converts an index of the database to an entry of `indexes:`. An index with more than plain columns is parsed from its
// printed definition. The printed columns and expressions mark the positions of the parts.
import type { LiveIndex } from '../schema/indexes.ts';
import { indexLabel } from '../schema/label.ts';
import { scanSql } from '../../lib/sql/sql-text.ts';

type Node = Record<string, unknown>;

/**
 * Returns the entry, or null for an index that the file cannot express, such as that of an exclusion constraint.
 * `table` is the name of the table, from which svc generates the name of an index of plain columns.
 */
export function toIndex(index: LiveIndex, strip: (text: string) => string, table: string): Node | null {
  const more = index.plain ? { columns: index.columns } : readDefinition(index, strip);
  if (more === null || !index.valid) return null;
  return {
    ...(isGenerated(index, table) ? {} : { name: index.label }),
    ...more,
    ...(index.unique ? { unique: true } : {}),
    ...(index.predicate === null ? {} : { where: strip(index.predicate) }),
  };
}

function isGenerated({ label, plain, predicate, columns, unique }: LiveIndex, table: string): boolean {
  return plain && predicate === null && label === indexLabel(table, columns, unique, null);
}

export const NAME = String.raw`(?:"(?:[^"]|"")+"|[a-z_][a-z0-9_$]*)`;
export const QUALIFIED = String.raw`${NAME}(?:\.${NAME})?`;
const OPTIONS = String.raw`\(((?:${NAME}='(?:[^']|'')*'(?:, )?)+)\)`;
const HEAD = new RegExp(`^USING (${NAME}) \\(`);
const PART = new RegExp(
  `^(?: COLLATE (${QUALIFIED}))?(?: (?!ASC|DESC|NULLS)(${QUALIFIED})(?: ?${OPTIONS})?)?( DESC)?(?: NULLS (FIRST|LAST))?(, |\\))`,
);
const TAIL = new RegExp(
  `^(?: INCLUDE \\(([^)]*)\\))?( NULLS NOT DISTINCT)?(?: WITH ${OPTIONS})?(?: WHERE |$)`,
);

function readDefinition({ definition, keys }: LiveIndex, strip: (text: string) => string): Node | null {
  const head = HEAD.exec(definition);
  if (!head || keys === null) return null;
  let rest = definition.slice(head[0].length);
  const columns: unknown[] = [];
  for (const key of keys) {
    if (!rest.startsWith(key)) return null;
    const part = PART.exec(rest.slice(key.length));
    if (!part) return null;
    rest = rest.slice(key.length + part[0].length);
    const [, collate, opclass, opclassOptions, desc, nulls] = part;
    const isColumn = new RegExp(`^${NAME}$`).test(key);
    const options = {
      ...(collate === undefined ? {} : { collate: unqualified(collate) }),
      ...(opclass === undefined ? {} : { opclass: unqualified(opclass) }),
      ...(opclassOptions === undefined ? {} : { opclass_options: toOptions(opclassOptions) }),
      ...(desc === undefined ? {} : { order: 'desc' }),
      ...(nulls === undefined ? {} : { nulls: nulls.toLowerCase() }),
    };
    if (!isColumn) columns.push({ expression: strip(key), ...options });
    else columns.push(Object.keys(options).length === 0 ? bare(key) : { column: bare(key), ...options });
  }
  const tail = TAIL.exec(rest);
  if (!tail) return null;
  const [, include, nullsNotDistinct, storage] = tail;
  const using = bare(head[1] ?? '');
  return {
    columns,
    ...(using === 'btree' ? {} : { using }),
    ...(include === undefined ? {} : { include: namesIn(include) }),
    ...(nullsNotDistinct === undefined ? {} : { nulls_not_distinct: true }),
    ...(storage === undefined ? {} : { with: toOptions(storage) }),
  };
}

function namesIn(list: string): string[] {
  return scanSql(list)
    .tokens.filter(({ kind }) => kind === 'word' || kind === 'quoted')
    .map(({ text }) => bare(text));
}

function toOptions(list: string): Record<string, string> {
  const found = list.matchAll(new RegExp(`(${NAME})='((?:[^']|'')*)'`, 'g'));
  return Object.fromEntries(
    [...found].map(([, name = '', value = '']) => [bare(name), value.replaceAll("''", "'")]),
  );
}

export function bare(name: string): string {
  return name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name;
}

/** Removes the schema from names in `pg_catalog`, `public` and `extensions`, which are always in the search path. */
export function unqualified(name: string): string {
  const [schema, own] = name.match(new RegExp(NAME, 'g')) ?? [];
  if (own === undefined) return bare(name);
  const isFound = schema === 'pg_catalog' || schema === 'public' || schema === 'extensions';
  return isFound ? bare(own) : `${bare(schema ?? '')}.${bare(own)}`;
}
