// An index of the database as an entry of `indexes:`. What is more than a list of columns is read from the server's
// print of it, with the prints of its columns and expressions as landmarks.
import type { LiveIndex } from '../schema/indexes.ts';
import { scanSql } from '../../lib/sql/sql-text.ts';

type Node = Record<string, unknown>;

/** Null for one that the file cannot say, such as that of an exclusion constraint. */
export function toIndex(index: LiveIndex, strip: (text: string) => string): Node | null {
  const more = index.plain ? { columns: index.columns } : readDefinition(index, strip);
  if (more === null || !index.valid) return null;
  return {
    name: index.label,
    ...more,
    ...(index.unique ? { unique: true } : {}),
    ...(index.predicate === null ? {} : { where: strip(index.predicate) }),
  };
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
    const said = {
      ...(collate === undefined ? {} : { collate: unqualified(collate) }),
      ...(opclass === undefined ? {} : { opclass: unqualified(opclass) }),
      ...(opclassOptions === undefined ? {} : { opclass_options: toOptions(opclassOptions) }),
      ...(desc === undefined ? {} : { order: 'desc' }),
      ...(nulls === undefined ? {} : { nulls: nulls.toLowerCase() }),
    };
    if (!isColumn) columns.push({ expression: strip(key), ...said });
    else columns.push(Object.keys(said).length === 0 ? bare(key) : { column: bare(key), ...said });
  }
  const tail = TAIL.exec(rest);
  if (!tail) return null;
  const [, include, nullsNotDistinct, options] = tail;
  const using = bare(head[1] ?? '');
  return {
    columns,
    ...(using === 'btree' ? {} : { using }),
    ...(include === undefined ? {} : { include: namesIn(include) }),
    ...(nullsNotDistinct === undefined ? {} : { nulls_not_distinct: true }),
    ...(options === undefined ? {} : { with: toOptions(options) }),
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

/** The names of PostgreSQL's own schema, and of those that every search finds, need none. */
export function unqualified(name: string): string {
  const [schema, own] = name.match(new RegExp(NAME, 'g')) ?? [];
  if (own === undefined) return bare(name);
  const isFound = schema === 'pg_catalog' || schema === 'public' || schema === 'extensions';
  return isFound ? bare(own) : `${bare(schema ?? '')}.${bare(own)}`;
}
