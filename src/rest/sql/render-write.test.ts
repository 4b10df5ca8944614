// Writes and the SQL they become. $1 … are the values of the filters and the JSON body, which stays one parameter.
import { expect, test } from 'vitest';
import { LIBRARY } from '../../../test/support/library-api.ts';
import { findRelation } from '../plan/exposed.ts';
import { relationOrigin, planRead } from '../plan/plan-read.ts';
import { planWrite, type WriteKind } from '../plan/plan-write.ts';
import { readPayload } from '../request/body.ts';
import { parseQuery } from '../request/parse-query.ts';
import { parsePreferences } from '../request/preferences.ts';
import { renderWrite, type WriteShape } from './render-write.ts';

type Options = { readonly prefer?: string; readonly shape?: Partial<WriteShape> };

const WRITES: ReadonlyArray<
  readonly [what: string, kind: WriteKind, url: string, body: string, options: Options, sql: string]
> = [
  [
    'an insert: PostgreSQL takes the JSON apart',
    'insert',
    'tags',
    '{"label":"x"}',
    {},
    'INSERT INTO "public"."tags" AS "tags"("label") SELECT "body_1"."label" ' +
      'FROM json_to_record($1::json) AS "body_1"("label" text)',
  ],
  [
    'many rows',
    'insert',
    'tags',
    '[{"id":1,"label":"a"},{"id":2,"label":"b"}]',
    {},
    'INSERT INTO "public"."tags" AS "tags"("id", "label") SELECT "body_1"."id", ' +
      '"body_1"."label" FROM json_to_recordset($1::json) AS "body_1"("id" integer, "label" text)',
  ],
  [
    'no columns: defaults only',
    'insert',
    'loans',
    '[{},{}]',
    {},
    `INSERT INTO "public"."loans" AS "loans" SELECT FROM json_array_elements($1::json) AS "body_1"`,
  ],
  [
    'missing=default: columns that no row gives are left to PostgreSQL',
    'insert',
    'loans?columns=due,returned',
    '{"due":"2026-01-01"}',
    { prefer: 'missing=default' },
    'INSERT INTO "public"."loans" AS "loans"("due") SELECT "body_1"."due" ' +
      'FROM json_to_record($1::json) AS "body_1"("due" date)',
  ],
  [
    'missing=default: columns that some rows give are filled',
    'insert',
    'loans?columns=due,returned',
    '[{"due":"2026-01-01"},{"due":"2026-01-02","returned":true}]',
    { prefer: 'missing=default' },
    'INSERT INTO "public"."loans" AS "loans"("due", "returned") SELECT "body_1"."due", ' +
      `"body_1"."returned" FROM jsonb_to_recordset((SELECT coalesce(jsonb_agg(jsonb_build_object('returned', ` +
      `false) || "element"), '[]') FROM jsonb_array_elements(($1::json)::jsonb) AS "element")) AS ` +
      '"body_1"("due" date, "returned" bool)',
  ],
  [
    'missing=default of an update',
    'update',
    'loans?columns=due,returned&id=eq.1',
    '{"due":"2026-01-01"}',
    { prefer: 'missing=default' },
    'WITH "body_1" AS MATERIALIZED (SELECT "body_1"."due" ' +
      'FROM json_to_record($1::json) AS "body_1"("due" date)) UPDATE "public"."loans" AS "loans" SET "due" = ' +
      '"body_1"."due", "returned" = DEFAULT FROM "body_1" WHERE (SELECT count(*) ' +
      'FROM "body_1") > 0 AND "loans"."id" = $2',
  ],
  [
    'ignore duplicates',
    'insert',
    'tags',
    '{"id":1,"label":"x"}',
    { prefer: 'resolution=ignore-duplicates' },
    'INSERT INTO "public"."tags" AS "tags"("id", "label") SELECT "body_1"."id", ' +
      '"body_1"."label" FROM json_to_record($1::json) AS "body_1"("id" integer, ' +
      '"label" text) ON CONFLICT ("id") DO NOTHING',
  ],
  [
    'merge duplicates',
    'insert',
    'tags?on_conflict=label',
    '{"id":1,"label":"x"}',
    { prefer: 'resolution=merge-duplicates' },
    'INSERT INTO "public"."tags" AS "tags"("id", "label") SELECT "body_1"."id", ' +
      '"body_1"."label" FROM json_to_record($1::json) AS "body_1"("id" integer, ' +
      '"label" text) ON CONFLICT ("label") DO UPDATE SET "id" = EXCLUDED."id", "label" = EXCLUDED."label"',
  ],
  [
    'an update',
    'update',
    'tags?id=eq.1',
    '{"label":"x"}',
    {},
    'WITH "body_1" AS MATERIALIZED (SELECT "body_1"."label" ' +
      'FROM json_to_record($1::json) AS "body_1"("label" text)) UPDATE "public"."tags" AS "tags" SET "label" ' +
      '= "body_1"."label" FROM "body_1" WHERE (SELECT count(*) FROM "body_1") > 0 AND "tags"."id" = $2',
  ],
  ['an update of nothing', 'update', 'tags?id=eq.1', '{}', {}, `SELECT 1 WHERE false`],
  [
    'PUT: only the row that the URL names',
    'put',
    'tags?id=eq.1',
    '{"id":1,"label":"x"}',
    {},
    'INSERT INTO "public"."tags" AS "tags"("id", "label") SELECT "body_1"."id", ' +
      '"body_1"."label" FROM json_to_record($2::json) AS "body_1"("id" integer, ' +
      '"label" text) WHERE "body_1"."id" = $1 ON CONFLICT ("id") DO UPDATE SET "id" = EXCLUDED."id", ' +
      '"label" = EXCLUDED."label"',
  ],
  [
    'a delete',
    'delete',
    'tags?or=(id.eq.1,label.is.null)',
    '{}',
    {},
    `DELETE FROM "public"."tags" AS "tags" WHERE ("tags"."id" = $1 OR "tags"."label" IS NULL)`,
  ],
  [
    'a representation reads only the columns it shows',
    'delete',
    'tags?id=eq.1&select=label',
    '{}',
    { shape: { withBody: true } },
    'WITH "source_1" AS (DELETE FROM "public"."tags" AS "tags" ' +
      `WHERE "tags"."id" = $1 RETURNING "tags"."label") SELECT coalesce(json_agg("row_1"), '[]'), ` +
      'count(*) FROM (SELECT "tags"."label" AS "label" FROM "source_1" AS "tags") AS "row_1"',
  ],
  [
    'a representation with an embed',
    'update',
    'authors?id=eq.1&select=teams(name)',
    '{"name":"x"}',
    { shape: { withBody: true } },
    'WITH "source_1" AS (WITH "body_1" AS MATERIALIZED (SELECT "body_1"."name" ' +
      'FROM json_to_record($1::json) AS "body_1"("name" text)) UPDATE "public"."authors" AS "authors" SET ' +
      '"name" = "body_1"."name" FROM "body_1" WHERE (SELECT count(*) ' +
      'FROM "body_1") > 0 AND "authors"."id" = $2 RETURNING "authors"."team_id") SELECT ' +
      `coalesce(json_agg("row_2"), '[]'), count(*) FROM (SELECT (SELECT row_to_json("row_1") ` +
      'FROM (SELECT "teams_1"."name" AS "name" FROM "public"."teams" AS "teams_1" ' +
      'WHERE "teams_1"."id" = "authors"."team_id") AS "row_1") AS "teams" ' +
      'FROM "source_1" AS "authors") AS "row_2"',
  ],
  [
    'the location of a new row',
    'insert',
    'tags',
    '{"label":"x"}',
    { shape: { withLocation: true } },
    'WITH "source_1" AS (INSERT INTO "public"."tags" AS "tags"("label") SELECT "body_1"."label" ' +
      'FROM json_to_record($1::json) AS "body_1"("label" text) RETURNING "tags"."id") SELECT count(*), ' +
      '(array_agg(json_build_array("tags"."id"::text)))[1] FROM "source_1" AS "tags"',
  ],
  [
    'a maximum number of rows',
    'delete',
    'tags?id=gt.1',
    '{}',
    { shape: { guards: [{ kind: 'max-affected', most: 2 }] } },
    'WITH "source_1" AS (DELETE FROM "public"."tags" AS "tags" ' +
      `WHERE "tags"."id" > $1 RETURNING 1) SELECT CASE WHEN count(*) > 2 THEN ('svc_check:max-affected:' || ` +
      'count(*))::bigint ELSE count(*) END FROM "source_1" AS "tags"',
  ],
  [
    'a maximum number of rows, counted before the embeds choose which of them are shown',
    'delete',
    'authors?id=gt.1&select=id,teams!inner(name)',
    '{}',
    { shape: { withBody: true, guards: [{ kind: 'max-affected', most: 2 }] } },
    'WITH "source_1" AS (DELETE FROM "public"."authors" AS "authors" ' +
      'WHERE "authors"."id" > $1 RETURNING "authors"."id", ' +
      `"authors"."team_id") SELECT (SELECT CASE WHEN count(*) > 2 THEN ('svc_check:max-affected:' || ` +
      `count(*))::bigint ELSE count(*) END FROM "source_1"), coalesce(json_agg("row_2"), '[]'), ` +
      'count(*) FROM (SELECT "authors"."id" AS "id", ' +
      '(SELECT row_to_json("row_1") FROM (SELECT "teams_1"."name" AS "name" ' +
      'FROM "public"."teams" AS "teams_1" WHERE "teams_1"."id" = "authors"."team_id") AS "row_1") AS "teams" ' +
      'FROM "source_1" AS "authors" WHERE EXISTS (SELECT 1 FROM "public"."teams" AS "teams_2" ' +
      'WHERE "teams_2"."id" = "authors"."team_id")) AS "row_2"',
  ],
];

test.each(WRITES)('%s: %s %s %s', (_what, kind, url, body, { prefer = '', shape }, sql) => {
  const [name = '', text = ''] = url.split('?');
  const { query } = parseQuery(text, 'relation');
  const relation = findRelation(LIBRARY, 'public', name);
  const { node } = planRead(LIBRARY, relationOrigin(relation), query);
  const payload = readPayload(Buffer.from(body), 'json');
  const plan = planWrite(kind, relation, query, payload, parsePreferences(prefer));
  const statement = renderWrite(relation, plan, node, {
    media: { kind: 'json' },
    withBody: false,
    withResponseSettings: false,
    withLocation: false,
    countInserted: false,
    guards: [],
    countAffected: false,
    ...shape,
  });
  expect(statement.text).toBe(sql);
});
