// Every form of SQL function in the file, called with supabase-js.
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';

let world: BackendWorld;
let client: SupabaseClient;
beforeAll(async () => {
  world = await startBackendWorld(`
version: 1
rpc:
  halves:
    language: sql
    args: [{ name: n, type: integer, required: true }, { name: low, type: integer, mode: out },
      { name: high, type: integer, mode: out }]
    body: select n / 2, n - n / 2
  twice:
    args: [{ name: n, type: integer, mode: inout, required: true }]
    body: begin n := n * 2; end
  steps:
    language: sql
    volatility: stable
    args: [{ name: most, type: integer, default: 3 }]
    returns: { table: [{ name: step, type: integer }, { name: label, type: text }] }
    body: select n, 'step ' || n from generate_series(1, most) n
  longest:
    language: sql
    volatility: stable
    args: [{ name: words, type: "text[]", mode: variadic, required: true }]
    returns: { type: text }
    body: select w from unnest(words) w order by length(w) desc limit 1
  inner_sum:
    language: sql
    expose: false
    args: [{ type: integer, required: true }, { type: integer, required: true }]
    returns: { type: integer }
    body: select $1 + $2
  safe_length:
    language: sql
    strict: true
    args: [{ name: words, type: text, required: true }]
    returns: { type: integer }
    body: select 1 / (case when words is null then 0 else 1 end) * length(words)
`);
  client = createClient(world.url, world.keys.publishable, { auth: { persistSession: false } });
});
afterAll(() => world?.close());

test('output arguments are returned as columns, including a single one', async () => {
  expect((await client.rpc('halves', { n: 9 })).data).toEqual({ low: 4, high: 5 });
  expect((await client.rpc('twice', { n: 4 })).data).toEqual({ n: 8 });
});

test('rows of the table of a function can be selected, filtered and ordered', async () => {
  const { data } = await client
    .rpc('steps', { most: 5 })
    .select('label')
    .gt('step', 2)
    .order('step', { ascending: false })
    .limit(2);
  expect(data).toEqual([{ label: 'step 5' }, { label: 'step 4' }]);
  expect((await client.rpc('steps', {}, { get: true, count: 'exact' })).count).toBe(3);
});

test('any number of values as one argument', async () => {
  expect((await client.rpc('longest', { words: ['a', 'ccc', 'bb'] })).data).toBe('ccc');
});

test('a strict function returns null for null, and hidden functions are not found', async () => {
  expect((await client.rpc('safe_length', { words: null })).data).toBeNull();
  expect((await client.rpc('inner_sum', { a: 1, b: 2 })).error).toMatchObject({ code: 'PGRST202' });
});
