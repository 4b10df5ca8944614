// Rows that are read as CSV can be written as CSV: every type, null and the empty text.
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { join, raw, sql } from '../../src/postgres/sql.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { rounds } from '../support/rounds.ts';
import { createRestWorld, KEYS, type Answer, type RestWorld } from '../support/rest-world.ts';

/** Values of each type in PostgreSQL's text form. Every column may also be null. */
const COLUMNS: Readonly<Record<string, { readonly type: string; readonly values: readonly string[] }>> = {
  c_bool: { type: 'boolean', values: ['t', 'f'] },
  c_bigint: { type: 'bigint', values: ['9007199254740993', '-1'] },
  c_numeric: { type: 'numeric', values: ['0.10', '12345678901234567890.5', 'NaN'] },
  c_float: { type: 'float8', values: ['0.1', 'Infinity', '-0'] },
  c_varchar: { type: 'varchar(8)', values: ['', ' a ', 'a,b', 'NULL', '"'] },
  c_char: { type: 'char(3)', values: ['', 'x'] },
  c_date: { type: 'date', values: ['2024-02-29', 'infinity', '0044-03-15 BC'] },
  c_timestamp: { type: 'timestamp', values: ['2024-01-01 10:00:00.000001'] },
  c_timestamptz: { type: 'timestamptz', values: ['2024-01-01 10:00:00+05:30', '-infinity'] },
  c_interval: { type: 'interval', values: ['1 year 2 days', '-00:00:01.5'] },
  c_uuid: { type: 'uuid', values: ['00000000-0000-0000-0000-000000000001'] },
  c_bytea: { type: 'bytea', values: ['\\x', '\\x005c22'] },
  c_json: { type: 'json', values: ['{"b":1,  "a":"x\\\\y"}', 'null', '12', '[3]', '"\\"NULL\\""', '""'] },
  c_jsonb: { type: 'jsonb', values: ['{"k": [1, 2]}', 'null', '12', '12.10', '"a\\nb"', '"{"', '[]'] },
  c_jsonbs: { type: 'jsonb[]', values: ['{}', '{"{\\"a\\": 1}",NULL,"null"}'] },
  c_texts: { type: 'text[]', values: ['{}', '{a,NULL,"NULL",""}', '{"a,b","\\"","\\\\"}'] },
  c_ints: { type: 'int[]', values: ['{{1,2},{3,NULL}}', '[0:1]={1,2}'] },
  c_range: { type: 'int4range', values: ['empty', '[1,5)', '(,3)'] },
  c_ranges: { type: 'int4multirange', values: ['{}', '{[1,2),[4,9)}'] },
  c_tzrange: { type: 'tstzrange', values: ['["2024-01-01 00:00:00+00",)'] },
  c_mood: { type: 'mood', values: ['so "so"', 'NULL', 'sad,'] },
  c_name: { type: 'a_name', values: ['', 'NULL', 'x\\'] },
  c_doc: { type: 'a_doc', values: ['{"a": 1}', 'null', '"x"'] },
  c_inner_doc: { type: 'an_inner_doc', values: ['{"a": 1}', 'null', '"x"'] },
  c_pair: { type: 'pair', values: ['(1,x)', '(,)', '(2,"a,""b\\\\")', '(3,"")'] },
  c_labelled: { type: 'labelled', values: ['(a,"{""k"": 1}")', '(,"null")'] },
  c_pairs: { type: 'pair[]', values: ['{"(1,x)",NULL}'] },
  c_inet: { type: 'inet', values: ['10.0.0.1/8'] },
  c_bits: { type: 'bit varying', values: ['', '101'] },
  c_vector: { type: 'tsvector', values: ["'a':1 'it''s':2", ''] },
  c_point: { type: 'point', values: ['(1,2)'] },
};
const NAMES = Object.keys(COLUMNS);

const SQL = `
create type mood as enum ('so "so"', 'NULL', 'sad,');
create domain a_name as text;
create domain a_doc as jsonb;
create domain an_inner_doc as a_doc;
create type pair as (x int, y text);
create type labelled as (label text, doc jsonb);
create table kinds (id int primary key, c_text text,
  ${NAMES.map((name) => `${name} ${COLUMNS[name]?.type}`).join(', ')});
create table lone (word text);
create table "odd ""names" ("a,b" text, "c""d" jsonb);
create function keep(doc jsonb, docs jsonb default null) returns jsonb language sql volatile as 'select doc';
grant all on all tables in schema public to service_role;
`;

let database: TestDatabase;
let world: RestWorld;

beforeAll(async () => {
  database = await createDatabase();
  world = await createRestWorld({ url: database.url, sql: SQL });
});
afterAll(async () => {
  await world.close();
  await database.drop();
});

const send = (path: string, method: string, body = '', type = 'text/csv'): Promise<Answer> =>
  world.send(path, {
    method,
    apikey: KEYS.secret,
    headers: { accept: 'text/csv', 'content-type': type },
    body,
  });

async function contents(table: string): Promise<unknown> {
  const rows = await world.owner.query<{ row: string }>(
    raw(`select t::text as row from ${table} t order by t::text collate "C"`),
  );
  return rows.map(({ row }) => row);
}

async function expectRoundTrip(table: string, path: string): Promise<void> {
  const before = await contents(table);
  const exported = await world.send(`${path}?limit=100`, {
    apikey: KEYS.secret,
    headers: { accept: 'text/csv' },
  });
  expect(exported.status).toBe(200);
  await world.owner.query(raw(`truncate ${table}`));
  const imported = await send(path, 'POST', exported.text);
  expect([imported.status, imported.text]).toEqual([201, '']);
  expect(await contents(table)).toEqual(before);
}

const TEXTS = fc.oneof(
  fc.constantFrom(null, '', 'NULL', 'null', ',NULL,', '"', '\\', '\\\\', ' ', '\r\n', '\n', '\ufeff', 'a""b'),
  fc.string({ unit: fc.constantFrom('a', ',', '"', '\\', '\n', '\r', ' ', 'NULL', 'ü', '\t', '(', ')') }),
);
const ROW = fc.record({
  c_text: TEXTS,
  ...Object.fromEntries(
    NAMES.map((name) => [name, fc.constantFrom(null, ...(COLUMNS[name]?.values ?? []))] as const),
  ),
});

test('rows of every type survive an export and an import', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(ROW, { minLength: 1, maxLength: 6 }), async (rows) => {
      await world.owner.query(raw('truncate kinds'));
      const inserted = rows.map((row, id) => {
        const texts: Record<string, string | null> = row;
        const values = NAMES.map((name) => literal(texts[name] ?? null, COLUMNS[name]?.type ?? ''));
        return sql`(${id}::int, ${texts['c_text'] ?? null}::text, ${raw(values.join(', '))})`;
      });
      await world.owner.query(sql`insert into kinds values ${join(inserted)}`);
      await expectRoundTrip('kinds', '/kinds');
    }),
    { numRuns: rounds(20, 300) },
  );
});

function literal(text: string | null, type: string): string {
  return text === null ? 'null' : `'${text.replaceAll("'", "''")}'::${type}`;
}

test('a table with one column keeps its nulls, and unusual column names are quoted', async () => {
  await world.owner.query(raw(`insert into lone values (null), (''), ('NULL'), ('x')`));
  await expectRoundTrip('lone', '/lone');
  await world.owner.query(raw(`insert into "odd ""names" values ('x', '{"a": 1}'), (null, null)`));
  await expectRoundTrip('"odd ""names"', '/odd%20%22names');
});

test('an empty field is null, quotes mean the empty text, and empty lines are skipped', async () => {
  await world.owner.query(raw('truncate kinds'));
  const body = '\ufeffid,c_text,c_bigint\r\n\r\n1,,\r\n2,"",5\r\n3,NULL,6\r\n4,"NULL",7\r\n\r\n\r\n';
  expect((await send('/kinds', 'POST', body)).status).toBe(201);
  const { json } = await world.send('/kinds?select=c_text,c_bigint&order=id', { apikey: KEYS.secret });
  expect(json).toEqual([
    { c_text: null, c_bigint: null },
    { c_text: '', c_bigint: 5 },
    { c_text: null, c_bigint: 6 },
    { c_text: 'NULL', c_bigint: 7 },
  ]);
});

const FORM = 'application/x-www-form-urlencoded';

test('a cell or form field of a json column contains JSON, in inserts, updates and upserts', async () => {
  await world.owner.query(raw('truncate kinds'));
  expect((await send('/kinds', 'POST', 'id,c_jsonb\n7,"{""k"":[1,2]}"')).status).toBe(201);
  expect(
    (await send('/kinds', 'POST', `id=8&c_json=${encodeURIComponent('[3]')}&c_doc=12`, FORM)).status,
  ).toBe(201);
  expect((await send('/kinds?id=eq.8', 'PATCH', 'c_inner_doc\n"{""a"":null}"')).status).toBe(204);
  expect((await send('/kinds?id=eq.9', 'PUT', 'id,c_jsonb\n9,null')).status).toBe(204);
  const defaults = await world.send('/kinds?columns=id,c_jsonb', {
    method: 'POST',
    apikey: KEYS.secret,
    headers: { 'content-type': 'text/csv', prefer: 'missing=default' },
    body: 'id,c_jsonb\n10,"[""x""]"',
  });
  expect(defaults.status).toBe(201);
  const rows = await world.owner.query(
    raw(`select id, c_jsonb::text, c_json::text, c_doc::text, c_inner_doc::text from kinds order by id`),
  );
  expect(rows.map((row) => Object.values(row))).toEqual([
    [7, '{"k": [1, 2]}', null, null, null],
    [8, null, '[3]', '12', '{"a": null}'],
    [9, 'null', null, null, null],
    [10, '["x"]', null, null, null],
  ]);
});

test.each([
  ['text/csv', 'id,c_jsonb\n1,{x'],
  ['text/csv', 'id,c_inner_doc\n1,{x'],
  [FORM, 'id=1&c_json={x'],
  [FORM, 'id=1&c_jsonb='],
])('%s: %j is not JSON and is rejected', async (type, body) => {
  const answer = await world.send('/kinds', {
    method: 'POST',
    apikey: KEYS.secret,
    headers: { 'content-type': type },
    body,
  });
  expect([answer.status, answer.json]).toMatchObject([400, { code: '22P02' }]);
});

test('an argument of type json in CSV or a form contains JSON', async () => {
  for (const [type, body] of [
    ['text/csv', 'doc\n"{""a"":1}"'],
    [FORM, 'doc=%7B%22a%22%3A1%7D'],
  ] as const) {
    const { json } = await world.send('/rpc/keep', {
      method: 'POST',
      headers: { 'content-type': type },
      body,
    });
    expect(json).toEqual({ a: 1 });
  }
});

test('a JSON body may begin with a byte order mark, and must be UTF-8', async () => {
  await world.owner.query(raw('truncate kinds'));
  expect((await send('/kinds', 'POST', '\ufeff[{"id":1}]', 'application/json')).status).toBe(201);
  for (const type of ['application/json; charset=utf-16', 'text/csv;charset="iso-8859-1"']) {
    const answer = await world.send('/kinds', {
      method: 'POST',
      apikey: KEYS.secret,
      headers: { 'content-type': type },
      body: '{"id":2}',
    });
    expect([answer.status, answer.json]).toMatchObject([415, { code: 'SVC106' }]);
  }
  expect((await send('/kinds', 'POST', '{"id":3}', 'application/json; charset=UTF-8')).status).toBe(201);
});
