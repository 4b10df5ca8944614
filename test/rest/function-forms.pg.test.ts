// Functions that return their own columns, or take lists or the whole body as arguments, through the published client
// library where it supports them.
import { createClient } from '@supabase/supabase-js';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BackendWorld, startBackendWorld } from '../support/backend-world.ts';

const YAML = `version: 1
tables:
  users:
    fields: [{ name: id, type: integer, primary_key: true }, { name: name, type: text }]
    rls: [{ operations: [select], using: name <> 'hidden' }]
  projects:
    fields: [{ name: id, type: integer, primary_key: true }, { name: title, type: text },
      { name: lead_id, type: integer }]
    rls: [{ operations: [select], using: "true" }]
rpc:
  lead: { language: sql, volatility: stable, rows: 1, expose: false, execute: [anon],
    args: [{ type: projects, required: true }], returns: { type: setof users },
    body: "select * from users where id = $1.lead_id" }
  members: { language: sql, volatility: stable, expose: false, execute: [anon],
    args: [{ name: project, type: projects, required: true }], returns: { type: setof users },
    body: "select * from users where id >= project.lead_id" }
  own_of_project: { name: own, language: sql, volatility: stable, expose: false, execute: [anon],
    args: [{ type: projects, required: true }], returns: { type: setof projects },
    body: "select * from projects where id = $1.id" }
  own_of_user: { name: own, language: sql, volatility: stable, expose: false, execute: [anon],
    args: [{ type: users, required: true }], returns: { type: setof users },
    body: "select * from users where id = $1.id" }
  guarded: { language: sql, volatility: stable, expose: false, args: [{ type: projects, required: true }],
    returns: { type: setof users }, body: "select * from users" }
  label: { language: sql, volatility: stable, expose: false, execute: [anon],
    args: [{ type: projects, required: true }], returns: { type: text }, body: "select $1.id || ' ' || $1.title" }
  halves: { language: sql,
    args: [{ name: n, type: integer, required: true }, { name: half, type: integer, mode: out },
      { name: rest, type: integer, mode: out }], body: "select n / 2, n % 2" }
  numbers: { language: sql, volatility: stable, args: [{ name: most, type: integer, default: 3 }],
    returns: { table: [{ name: n, type: integer }, { name: word, type: text }] },
    body: "select g, g::text from generate_series(1, most) g" }
  joined: { language: sql, args: [{ name: words, type: "text[]", mode: variadic }], returns: { type: text },
    body: "select array_to_string(words, '-')" }
  whole: { language: sql, args: [{ type: jsonb, required: true }], returns: { type: jsonb },
    body: "select jsonb_build_object('got', $1)" }
  steady: { language: sql, volatility: stable, args: [{ type: jsonb, required: true }],
    returns: { type: jsonb }, body: "select $1" }
  letters: { language: sql, args: [{ type: text, required: true }], returns: { type: integer },
    body: "select length($1)" }
  bytes: { language: sql, args: [{ type: bytea, required: true }], returns: { type: integer },
    body: "select length($1)" }
  either: { language: sql, args: [{ type: text, required: true }], returns: { type: text },
    body: "select 'text ' || $1" }
  either_number: { name: either, language: sql, args: [{ name: n, type: integer, required: true }],
    returns: { type: text }, body: "select 'number ' || n" }
  inner: { language: sql, expose: false, execute: [anon], args: [{ type: integer, required: true }],
    returns: { type: integer }, body: "select $1" }
  work: { kind: procedure, language: sql, body: select 1 }
`;

let world: BackendWorld;
beforeAll(async () => {
  world = await startBackendWorld(YAML, {
    prepareAfter: async (url) => {
      const client = new pg.Client(url);
      await client.connect();
      await client.query(`insert into users values (1, 'Ann'), (2, 'Bob'), (3, 'hidden');
        insert into projects values (10, 'first', 1), (20, 'second', 3)`);
      await client.end();
    },
  });
});
afterAll(() => world.close());

test('results with named columns are rows', async () => {
  const client = createClient(world.url, world.keys.publishable, { auth: { persistSession: false } });
  expect((await client.rpc('halves', { n: 7 })).data).toEqual({ half: 3, rest: 1 });
  expect((await client.rpc('numbers', { most: 3 }).gt('n', 1).select('word').order('n')).data).toEqual([
    { word: '2' },
    { word: '3' },
  ]);
  expect((await client.rpc('joined', { words: ['a', 'b'] })).data).toBe('a-b');
});

const post = async (name: string, type: string, body: string | Uint8Array<ArrayBuffer>): Promise<unknown> => {
  const response = await fetch(`${world.url}/rest/v1/rpc/${name}`, {
    method: 'POST',
    headers: { apikey: world.keys.publishable, 'content-type': type },
    body,
  });
  return [response.status, await response.json()];
};

test('an argument without a name is the whole body', async () => {
  const client = createClient(world.url, world.keys.publishable, { auth: { persistSession: false } });
  expect((await client.rpc('whole', { a: 1 })).data).toEqual({ got: { a: 1 } });
  expect(await post('whole', 'application/json', '[1, 2]')).toEqual([200, { got: [1, 2] }]);
  expect(await post('letters', 'text/plain', 'größe')).toEqual([200, 5]);
  expect(await post('bytes', 'application/octet-stream', new Uint8Array([0, 255, 10]))).toEqual([200, 3]);
  expect(await post('letters', 'application/json', '"x"')).toMatchObject([400, { code: 'PGRST102' }]);
});

test('an argument without a name may be passed by its empty name', async () => {
  expect(await post('letters', 'application/json', '{"": "größe"}')).toEqual([200, 5]);
  expect(await post('letters', 'application/json; charset=utf-8', '{"": null}')).toEqual([200, null]);
  expect(await post('bytes', 'application/json', String.raw`{"": "\\x00ff"}`)).toEqual([200, 2]);
  expect(await post('either', 'application/json', '{"": "abc"}')).toEqual([200, 'text abc']);
  expect(await post('either', 'text/plain', 'abc')).toEqual([200, 'text abc']);
  expect(await post('either', 'application/json', '{"n": 1}')).toEqual([200, 'number 1']);
  expect(await post('whole', 'application/json', '{"": 1}')).toEqual([200, { got: { '': 1 } }]);
  expect(await post('letters', 'application/json', '{"a": "x"}')).toMatchObject([400, { code: 'PGRST102' }]);
});

test('an omitted variadic argument is reported', async () => {
  const refused = { code: 'PGRST202', details: 'Missing required arguments: words.' };
  expect(await post('joined', 'application/json', '{}')).toMatchObject([400, refused]);
  expect(await post('joined', 'application/json', '{"words": []}')).toEqual([200, '']);
});

test('missing and invalid bodies and GET calls get an error response', async () => {
  expect(await post('letters', 'text/plain', '')).toEqual([200, 0]);
  expect(await post('whole', 'application/json', '')).toEqual([200, { got: {} }]);
  expect(await post('whole', 'application/json', '{')).toMatchObject([400, { code: 'PGRST102' }]);
  const response = await fetch(`${world.url}/rest/v1/rpc/steady?a=1`, {
    headers: { apikey: world.keys.publishable },
  });
  expect([response.status, await response.json()]).toMatchObject([400, { code: 'PGRST202' }]);
});

test('functions of one row are relationships and columns of its table, whether or not they can be called', async () => {
  const client = createClient(world.url, world.keys.publishable, { auth: { persistSession: false } });
  const { data, error } = await client
    .from('projects')
    .select('id, label, lead(name), members(id), own(id)')
    .order('id');
  expect(error).toBeNull();
  // Policies apply to the rows of a relationship as to any others.
  expect(data).toEqual([
    { id: 10, label: '10 first', lead: { name: 'Ann' }, members: [{ id: 1 }, { id: 2 }], own: [{ id: 10 }] },
    { id: 20, label: '20 second', lead: null, members: [], own: [{ id: 20 }] },
  ]);
  expect((await client.from('projects').select('id, lead!inner(name)')).data).toEqual([
    { id: 10, lead: { name: 'Ann' } },
  ]);
  expect((await client.from('users').select('id, own(name)').eq('id', 2)).data).toEqual([
    { id: 2, own: [{ name: 'Bob' }] },
  ]);
  // Only the EXECUTE privilege matters, even if no key can call it.
  expect((await client.from('projects').select('id, guarded(name)')).error).toMatchObject({ code: '42501' });
  for (const name of ['lead', 'own', 'guarded'])
    expect((await client.rpc(name, {})).error).toMatchObject({ code: 'PGRST202' });
});

test('unserved functions are missing for every key', async () => {
  for (const name of ['inner', 'work']) {
    for (const key of [world.keys.publishable, world.keys.secret]) {
      const response = await fetch(`${world.url}/rest/v1/rpc/${name}`, {
        method: 'POST',
        headers: { apikey: key },
      });
      expect(response.status).toBe(404);
    }
  }
});
