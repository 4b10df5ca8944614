// Functions whose results are columns of their own, whose arguments are lists or the whole body, through the published
// client library where it can say them.
import { createClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BackendWorld, startBackendWorld } from '../support/backend-world.ts';

const YAML = `version: 1
rpc:
  halves: { language: sql, args: [{ name: n, type: integer, required: true }, { name: half, type: integer, mode: out }, { name: rest, type: integer, mode: out }], body: "select n / 2, n % 2" }
  numbers: { language: sql, volatility: stable, args: [{ name: most, type: integer, default: 3 }], returns: { table: [{ name: n, type: integer }, { name: word, type: text }] }, body: "select g, g::text from generate_series(1, most) g" }
  joined: { language: sql, args: [{ name: words, type: "text[]", mode: variadic }], returns: { type: text }, body: "select array_to_string(words, '-')" }
  whole: { language: sql, args: [{ type: jsonb, required: true }], returns: { type: jsonb }, body: "select jsonb_build_object('got', $1)" }
  steady: { language: sql, volatility: stable, args: [{ type: jsonb, required: true }], returns: { type: jsonb }, body: "select $1" }
  letters: { language: sql, args: [{ type: text, required: true }], returns: { type: integer }, body: "select length($1)" }
  bytes: { language: sql, args: [{ type: bytea, required: true }], returns: { type: integer }, body: "select length($1)" }
  inner: { language: sql, expose: false, execute: [anon], args: [{ type: integer, required: true }], returns: { type: integer }, body: "select $1" }
  work: { kind: procedure, language: sql, body: select 1 }
`;

let world: BackendWorld;
beforeAll(async () => {
  world = await startBackendWorld(YAML);
});
afterAll(() => world.close());

test('results with columns of their own are rows', async () => {
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

test('a body that is missing or broken, and a call by GET, are answered', async () => {
  expect(await post('letters', 'text/plain', '')).toEqual([200, 0]);
  expect(await post('whole', 'application/json', '')).toEqual([200, { got: {} }]);
  expect(await post('whole', 'application/json', '{')).toMatchObject([400, { code: 'PGRST102' }]);
  const response = await fetch(`${world.url}/rest/v1/rpc/steady?a=1`, {
    headers: { apikey: world.keys.publishable },
  });
  expect([response.status, await response.json()]).toMatchObject([400, { code: 'PGRST202' }]);
});

test('what is not served is not there for any key', async () => {
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
