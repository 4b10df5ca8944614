// Requests and the SQL they become. The relations are those of test/support/library-api.ts.
import { describe, expect, test } from 'vitest';
import { LIBRARY } from '../../../test/support/library-api.ts';
import { findRelation } from '../plan/exposed.ts';
import { relationOrigin, planRead } from '../plan/plan-read.ts';
import type { PlanNode } from '../plan/plan.ts';
import { parseQuery } from '../request/parse-query.ts';
import { namesIn } from './names.ts';
import { renderSelect, type OutputForm, type Selection } from './render-node.ts';
import { renderEstimate, renderRead, renderReadRows, type ReadShape } from './render-read.ts';
import { StatementParts, type Statement } from './statement.ts';

type Planned = { readonly node: PlanNode; readonly valuesOf: (statement: Statement) => string[] };

function planned(url: string): Planned {
  const [name = '', text = ''] = url.split('?');
  const { query, values } = parseQuery(text, 'relation');
  const { node } = planRead(LIBRARY, relationOrigin(findRelation(LIBRARY, 'public', name)), query);
  return { node, valuesOf: ({ slots }) => slots.map((slot) => values[slot] ?? '') };
}

/** The rows without what makes one body of them. */
function renderRows(url: string, form: OutputForm): Selection & { readonly values: string[] } {
  const { node, valuesOf } = planned(url);
  const parts = new StatementParts(namesIn(node));
  const selection = renderSelect(node, { from: `"${node.name}"`, alias: node.name, where: [] }, parts, form);
  return { ...selection, values: valuesOf(parts.statement('')) };
}

const ROWS: ReadonlyArray<readonly [what: string, url: string, sql: string, values?: readonly string[]]> = [
  [
    'chosen columns',
    'tags?select=id,label',
    `SELECT "tags"."id" AS "id", "tags"."label" AS "label" FROM "tags"`,
  ],
  [
    'all columns by name: no caller needs rights to a column that is not declared',
    'teams',
    `SELECT "teams"."id" AS "id", "teams"."name" AS "name" FROM "teams"`,
  ],
  [
    'aliases and casts',
    'tags?select=n:label,id::text',
    `SELECT "tags"."label" AS "n", CAST("tags"."id" AS "text") AS "id" FROM "tags"`,
  ],
  [
    'JSON paths',
    'books?select=notes->a->>b,notes->0',
    `SELECT ("books"."notes"->'a'->>'b') AS "b", ("books"."notes"->0) AS "notes" FROM "books"`,
  ],
  [
    'a path into a column other than JSON',
    'tags?select=label->a',
    `SELECT (to_jsonb("tags"."label")->'a') AS "a" FROM "tags"`,
  ],
  [
    'a filter: its value is a parameter',
    'tags?select=id&label=eq.x',
    `SELECT "tags"."id" AS "id" FROM "tags" WHERE "tags"."label" = $1`,
    ['x'],
  ],
  [
    'a negated filter',
    'tags?select=id&id=not.gt.3',
    `SELECT "tags"."id" AS "id" FROM "tags" WHERE NOT ("tags"."id" > $1)`,
    ['3'],
  ],
  [
    'a list is one parameter',
    'tags?select=id&id=in.(1,"a,b")',
    `SELECT "tags"."id" AS "id" FROM "tags" WHERE "tags"."id" = ANY($1)`,
    ['{"1","a,b"}'],
  ],
  [
    'is',
    'tags?select=id&label=is.null&id=not.is.null',
    `SELECT "tags"."id" AS "id" FROM "tags" WHERE "tags"."label" IS NULL AND NOT ("tags"."id" IS NULL)`,
  ],
  [
    'patterns: * means %',
    'tags?select=id&label=like.a*&label=not.ilike(any).{b*,c*}',
    `SELECT "tags"."id" AS "id" FROM "tags" WHERE "tags"."label" LIKE $1 AND NOT ("tags"."label" ILIKE ANY($2))`,
    ['a%', '{b%,c%}'],
  ],
  [
    'full text: of a tsvector and of a text',
    'books?select=id&words=fts(english).cat&title=wfts.cat',
    `SELECT "books"."id" AS "id" FROM "books" WHERE "books"."words" @@ to_tsquery('english'::regconfig, ` +
      '$1) AND to_tsvector("books"."title") @@ websearch_to_tsquery($2)',
    ['cat', 'cat'],
  ],
  [
    'logic',
    'tags?select=id&or=(id.eq.1,not.and(id.gt.2,label.not.is.null))',
    'SELECT "tags"."id" AS "id" FROM "tags" WHERE ("tags"."id" = $1 OR NOT ("tags"."id" > $2 AND NOT ' +
      '("tags"."label" IS NULL)))',
    ['1', '2'],
  ],
  [
    'order',
    'tags?select=id&order=label.desc.nullslast,id',
    `SELECT "tags"."id" AS "id" FROM "tags" ORDER BY "tags"."label" DESC NULLS LAST, "tags"."id"`,
  ],
  ['an aggregate alone', 'tags?select=count()', `SELECT count(*) AS "count" FROM "tags"`],
  [
    'groups: all columns except aggregates',
    'books?select=author_id,total:price.sum()::int&order=total.desc',
    'SELECT "books"."author_id" AS "author_id", ' +
      'CAST(sum("books"."price") AS int) AS "total" FROM "books" GROUP BY 1 ORDER BY 2 DESC',
  ],
  [
    'having',
    'tags?select=label,n:count()&having=n.gt.1',
    `SELECT "tags"."label" AS "label", count(*) AS "n" FROM "tags" GROUP BY 1 HAVING count(*) > $1`,
    ['1'],
  ],
  [
    'an embed to one is an object',
    'books?select=id,authors!author_id(name)',
    'SELECT "books"."id" AS "id", (SELECT row_to_json("row_1") FROM (SELECT "authors_1"."name" AS "name" ' +
      'FROM "public"."authors" AS "authors_1" WHERE "authors_1"."id" = "books"."author_id") AS "row_1") AS ' +
      '"authors" FROM "books"',
  ],
  [
    'an embed to many is an array with a separate order and page',
    'authors?select=id,books!author_id(title)&books.order=title&books.limit=2&books.offset=1',
    'SELECT "authors"."id" AS "id", (SELECT coalesce(json_agg("row_1"), ' +
      `'[]') FROM (SELECT "books_1"."title" AS "title" FROM "public"."books" AS "books_1" ` +
      'WHERE "books_1"."author_id" = "authors"."id" ORDER BY "books_1"."title" LIMIT 2 OFFSET 1) AS "row_1") ' +
      'AS "books" FROM "authors"',
  ],
  [
    'an embed through a junction',
    'books?select=id,tags(label)',
    'SELECT "books"."id" AS "id", (SELECT coalesce(json_agg("row_1"), ' +
      `'[]') FROM (SELECT "tags_1"."label" AS "label" FROM "public"."book_tags" AS "book_tags_1", ` +
      '"public"."tags" AS "tags_1" WHERE "book_tags_1"."book_id" = "books"."id" AND "tags_1"."id" = ' +
      '"book_tags_1"."tag_id") AS "row_1") AS "tags" FROM "books"',
  ],
  [
    'filters of an embed do not choose among the parents',
    'authors?select=id,books!author_id(id)&books.title=eq.x',
    'SELECT "authors"."id" AS "id", (SELECT coalesce(json_agg("row_1"), ' +
      `'[]') FROM (SELECT "books_1"."id" AS "id" FROM "public"."books" AS "books_1" ` +
      'WHERE "books_1"."author_id" = "authors"."id" AND "books_1"."title" = $1) AS "row_1") AS "books" ' +
      'FROM "authors"',
    ['x'],
  ],
  [
    'inner: only parents with a row',
    'authors?select=id,books!author_id!inner(id)&books.title=eq.x',
    'SELECT "authors"."id" AS "id", (SELECT coalesce(json_agg("row_1"), ' +
      `'[]') FROM (SELECT "books_1"."id" AS "id" FROM "public"."books" AS "books_1" ` +
      'WHERE "books_1"."author_id" = "authors"."id" AND "books_1"."title" = $1) AS "row_1") AS "books" ' +
      'FROM "authors" WHERE EXISTS (SELECT 1 FROM "public"."books" AS "books_2" ' +
      'WHERE "books_2"."author_id" = "authors"."id" AND "books_2"."title" = $1)',
    ['x'],
  ],
  [
    'inner: the offset of the embed counts, its limit does not',
    'authors?select=id,books!author_id!inner(id)&books.limit=2&books.offset=1',
    'SELECT "authors"."id" AS "id", (SELECT coalesce(json_agg("row_1"), ' +
      `'[]') FROM (SELECT "books_1"."id" AS "id" FROM "public"."books" AS "books_1" ` +
      'WHERE "books_1"."author_id" = "authors"."id" LIMIT 2 OFFSET 1) AS "row_1") AS "books" FROM "authors" ' +
      'WHERE EXISTS (SELECT 1 FROM "public"."books" AS "books_2" ' +
      'WHERE "books_2"."author_id" = "authors"."id" OFFSET 1)',
  ],
  [
    'without columns an embed only filters',
    'authors?select=id,books!author_id()&books=is.null',
    'SELECT "authors"."id" AS "id" FROM "authors" WHERE NOT EXISTS (SELECT 1 ' +
      'FROM "public"."books" AS "books_1" WHERE "books_1"."author_id" = "authors"."id")',
  ],
  [
    'a spread to one is a column',
    'books?select=id,...authors!author_id(author:name)',
    'SELECT "books"."id" AS "id", (SELECT "authors_1"."name" FROM "public"."authors" AS "authors_1" ' +
      'WHERE "authors_1"."id" = "books"."author_id") AS "author" FROM "books"',
  ],
  [
    'a spread to many is an array; arrays of one spread are in one order',
    'books?select=id,...tags(label)',
    'SELECT "books"."id" AS "id", (SELECT coalesce(json_agg("item_1"."value"), ' +
      `'[]') FROM (SELECT "tags_1"."label" AS "value" FROM "public"."book_tags" AS "book_tags_1", ` +
      '"public"."tags" AS "tags_1" WHERE "book_tags_1"."book_id" = "books"."id" AND "tags_1"."id" = ' +
      '"book_tags_1"."tag_id" ORDER BY "tags_1"."id") AS "item_1") AS "label" FROM "books"',
  ],
  [
    'an aggregate of a spread is made by the parent',
    'books?select=...authors!author_id(name),n:count()',
    'SELECT count(*) AS "n", (SELECT "authors_1"."name" FROM "public"."authors" AS "authors_1" ' +
      'WHERE "authors_1"."id" = "books"."author_id") AS "name" FROM "books" GROUP BY 2',
  ],
  [
    'order by a column of an embed',
    'books?select=id,authors!author_id(name)&order=authors(name).desc',
    'SELECT "books"."id" AS "id", (SELECT row_to_json("row_1") FROM (SELECT "authors_1"."name" AS "name" ' +
      'FROM "public"."authors" AS "authors_1" WHERE "authors_1"."id" = "books"."author_id") AS "row_1") AS ' +
      '"authors" FROM "books" ORDER BY (SELECT "authors_2"."name" FROM "public"."authors" AS "authors_2" ' +
      'WHERE "authors_2"."id" = "books"."author_id") DESC',
  ],
  [
    'a relation to itself: the parent by the column, the children by the name',
    'nodes?select=id,parent_id(id),nodes(id)',
    'SELECT "nodes"."id" AS "id", (SELECT row_to_json("row_1") FROM (SELECT "nodes_1"."id" AS "id" ' +
      'FROM "public"."nodes" AS "nodes_1" WHERE "nodes_1"."id" = "nodes"."parent_id") AS "row_1") AS ' +
      '"parent_id", (SELECT coalesce(json_agg("row_2"), ' +
      `'[]') FROM (SELECT "nodes_2"."id" AS "id" FROM "public"."nodes" AS "nodes_2" ` +
      'WHERE "nodes_2"."parent_id" = "nodes"."id") AS "row_2") AS "nodes" FROM "nodes"',
  ],
  [
    'an embed by a function of the row',
    'books?select=id,similar(id)',
    'SELECT "books"."id" AS "id", (SELECT coalesce(json_agg("row_1"), ' +
      `'[]') FROM (SELECT "books_1"."id" AS "id" ` +
      'FROM "public"."similar"("books"::"public"."books") AS "books_1") AS "row_1") AS "similar" FROM "books"',
  ],
  [
    'a grouped result with an embed: jsonb, which can be compared',
    'books?select=authors!author_id(name),n:count()',
    'SELECT count(*) AS "n", (SELECT to_jsonb("row_1") FROM (SELECT "authors_1"."name" AS "name" ' +
      'FROM "public"."authors" AS "authors_1" WHERE "authors_1"."id" = "books"."author_id") AS "row_1") AS ' +
      '"authors" FROM "books" GROUP BY 2',
  ],
];

describe('the rows of a request', () => {
  test.each(ROWS.map(([what, url, sql, values = []]) => ({ what, url, sql, values })))(
    '$what: $url',
    ({ url, sql, values }) => {
      expect(renderRows(url, 'rows')).toMatchObject({ text: sql, values });
    },
  );
});

const LISTS: ReadonlyArray<readonly [url: string, sql: string, forms: string]> = [
  [
    'books?select=id,title,price,born,notes,returned:words::text',
    'SELECT "books"."id", "books"."title", "books"."price", to_json("books"."born"), "books"."notes", ' +
      'to_json(CAST("books"."words" AS "text")) FROM "books"',
    'id number, title text, price number, born json, notes json, returned json',
  ],
  [
    'books?select=author_id,n:count(),price.sum()',
    'SELECT "groups_1"."c0", "groups_1"."c1", ' +
      'to_json("groups_1"."c2") FROM (SELECT "books"."author_id" AS "author_id", count(*) AS "n", ' +
      'sum("books"."price") AS "sum" FROM "books" GROUP BY 1) AS "groups_1"("c0", "c1", "c2")',
    'author_id number, n number, sum json',
  ],
  [
    'books?select=id,authors!author_id(name)',
    'SELECT "books"."id", (SELECT row_to_json("row_1") FROM (SELECT "authors_1"."name" AS "name" ' +
      'FROM "public"."authors" AS "authors_1" WHERE "authors_1"."id" = "books"."author_id") AS "row_1") ' +
      'FROM "books"',
    'id number, authors json',
  ],
];

describe('the rows of a long list leave as text, and as JSON where their JSON is not their text', () => {
  test.each(LISTS)('%s', (url, sql, forms) => {
    const { text, columns } = renderRows(url, 'texts');
    expect(text).toBe(sql);
    expect(columns?.map(({ name, form }) => `${name} ${form}`).join(', ')).toBe(forms);
  });

  test('with its page', () => {
    const { node } = planned('tags?select=label&order=id');
    expect(renderReadRows(node, { limit: { literal: 500 } })?.text).toBe(
      'SELECT "tags"."label" FROM "public"."tags" AS "tags" ORDER BY "tags"."id" LIMIT 500',
    );
  });
});

const STATEMENTS: ReadonlyArray<
  readonly [what: string, url: string, shape: Partial<ReadShape>, sql: string, values?: readonly string[]]
> = [
  [
    'a list',
    'tags?select=id',
    {},
    `SELECT coalesce(json_agg("row_1"), '[]'), ` +
      'count(*) FROM (SELECT "tags"."id" AS "id" FROM "public"."tags" AS "tags") AS "row_1"',
  ],
  [
    'HEAD makes no body',
    'tags?select=id',
    { withBody: false },
    `SELECT count(*) FROM (SELECT "tags"."id" AS "id" FROM "public"."tags" AS "tags") AS "row_1"`,
  ],
  [
    'a single object',
    'tags?select=id',
    { media: { kind: 'singular', stripped: false } },
    `SELECT string_agg(row_to_json("row_1")::text, ','), ` +
      'count(*) FROM (SELECT "tags"."id" AS "id" FROM "public"."tags" AS "tags") AS "row_1"',
  ],
  [
    'nulls stripped',
    'tags?select=id',
    { media: { kind: 'stripped' } },
    `SELECT coalesce(json_agg(json_strip_nulls(row_to_json("row_1"))), '[]'), ` +
      'count(*) FROM (SELECT "tags"."id" AS "id" FROM "public"."tags" AS "tags") AS "row_1"',
  ],
  [
    'CSV',
    'tags?select=id',
    { media: { kind: 'csv' } },
    `SELECT 'id\n' || coalesce(string_agg((SELECT coalesce(nullif(CASE WHEN strpos("fields", ` +
      `'NULL') = 0 THEN "fields" ELSE regexp_replace("fields", ` +
      `'(^|,)NULL(?=,|$)(?=(?:[^"]*"[^"]*")*[^"]*$)', '\\1"NULL"', 'g') END, ''), ` +
      `'NULL') FROM (SELECT replace(substring("text", 2, length("text") - 2), repeat(chr(92), 2), ` +
      'chr(92)) AS "fields" FROM (SELECT "row_1"::text AS "text" OFFSET 0) AS "csv" OFFSET 0) AS "csv"), ' +
      `E'\\n'), ''), count(*) FROM (SELECT "tags"."id" AS "id" FROM "public"."tags" AS "tags") AS "row_1"`,
  ],
  [
    'a page',
    'tags?select=id',
    { limit: { literal: 20 }, offset: { literal: 3 } },
    `SELECT coalesce(json_agg("row_1"), '[]'), ` +
      'count(*) FROM (SELECT "tags"."id" AS "id" FROM "public"."tags" AS "tags" LIMIT 20 OFFSET 3) AS "row_1"',
  ],
  [
    'whether there is more behind the default limit',
    'tags?select=id&label=eq.x',
    { limit: { literal: 20 }, tellCut: true },
    `SELECT coalesce(json_agg("row_1"), '[]'), count(*), ` +
      'CASE WHEN count(*) = 20 THEN EXISTS (SELECT 1 FROM "public"."tags" AS "tags" ' +
      'WHERE "tags"."label" = $1 LIMIT 1 OFFSET 20) END FROM (SELECT "tags"."id" AS "id" ' +
      'FROM "public"."tags" AS "tags" WHERE "tags"."label" = $1 LIMIT 20) AS "row_1"',
    ['x'],
  ],
  [
    'an exact count is made only when the page is full',
    'tags?select=id&label=eq.x',
    { limit: { literal: 2 }, total: 'exact' },
    `SELECT coalesce(json_agg("row_1"), '[]'), count(*), ` +
      'CASE WHEN count(*) < 2 THEN count(*) ELSE (SELECT count(*) FROM "public"."tags" AS "tags" ' +
      'WHERE "tags"."label" = $1) END FROM (SELECT "tags"."id" AS "id" FROM "public"."tags" AS "tags" ' +
      'WHERE "tags"."label" = $1 LIMIT 2) AS "row_1"',
    ['x'],
  ],
  [
    'an estimated count of a whole table is its statistic',
    'tags?select=id',
    { limit: { literal: 2 }, total: 'statistic' },
    `SELECT coalesce(json_agg("row_1"), '[]'), count(*), ` +
      `(SELECT reltuples::bigint FROM pg_catalog.pg_class WHERE oid = '"public"."tags"'::regclass) ` +
      'FROM (SELECT "tags"."id" AS "id" FROM "public"."tags" AS "tags" LIMIT 2) AS "row_1"',
  ],
  [
    'with an offset the page is cut before its embeds are made',
    'books?select=id,authors!author_id(name)&order=title',
    { limit: { literal: 2 }, offset: { literal: 4 } },
    `SELECT coalesce(json_agg("row_2"), '[]'), count(*) FROM (SELECT "books"."id" AS "id", ` +
      '(SELECT row_to_json("row_1") FROM (SELECT "authors_1"."name" AS "name" ' +
      'FROM "public"."authors" AS "authors_1" WHERE "authors_1"."id" = "books"."author_id") AS "row_1") AS ' +
      '"authors" FROM (SELECT "books"."id" AS "id", "books"."title" AS "title", ' +
      '"books"."author_id" AS "author_id" FROM "public"."books" AS "books" ORDER BY "books"."title" LIMIT 2 ' +
      'OFFSET 4) AS "books" ORDER BY "books"."title") AS "row_2"',
  ],
  [
    'headers and status that SQL sets',
    'tags?select=id',
    { withResponseSettings: true },
    `SELECT coalesce(json_agg("row_1"), '[]'), count(*), nullif(current_setting('response.headers', true), ` +
      `''), nullif(current_setting('response.status', true), ` +
      `'') FROM (SELECT "tags"."id" AS "id" FROM "public"."tags" AS "tags") AS "row_1"`,
  ],
  [
    'a failed check raises an error that names it',
    'tags?select=id',
    { checks: [{ kind: 'max-affected', most: 3 }] },
    `SELECT coalesce(json_agg("row_1"), '[]'), ` +
      `CASE WHEN count(*) > 3 THEN ('svc_check:max-affected:' || count(*))::bigint ELSE count(*) END ` +
      'FROM (SELECT "tags"."id" AS "id" FROM "public"."tags" AS "tags") AS "row_1"',
  ],
];

describe('one row with the body and what else the answer needs', () => {
  test.each(STATEMENTS.map(([what, url, shape, sql, values = []]) => ({ what, url, shape, sql, values })))(
    '$what: $url $shape',
    ({ url, shape, sql, values }) => {
      const { node, valuesOf } = planned(url);
      const statement = renderRead(node, {
        media: { kind: 'json' },
        withBody: true,
        withResponseSettings: false,
        ...shape,
      });
      expect(statement.text).toBe(sql);
      expect(valuesOf(statement)).toEqual(values);
    },
  );

  test('an estimate asks the planner for the rows without their page', () => {
    const { node } = planned('tags?select=label&label=eq.x&order=id');
    expect(renderEstimate(node).text).toBe(
      'EXPLAIN (FORMAT JSON) SELECT 1 FROM "public"."tags" AS "tags" WHERE "tags"."label" = $1',
    );
  });

  test('the columns of the result are named', () => {
    const shape: ReadShape = {
      media: { kind: 'json' },
      withBody: true,
      limit: { literal: 20 },
      tellCut: true,
      total: 'exact',
      withResponseSettings: true,
    };
    expect(renderRead(planned('tags').node, shape).columns).toEqual([
      'body',
      'page',
      'total',
      'cut',
      'headers',
      'status',
    ]);
  });
});

test('names that could break out of their quotes are doubled', () => {
  expect(renderRows('tags?select="a\\"b":label,x:label->"o\'q"', 'rows').text).toBe(
    `SELECT "tags"."label" AS "a""b", (to_jsonb("tags"."label")->'o''q') AS "x" FROM "tags"`,
  );
});
