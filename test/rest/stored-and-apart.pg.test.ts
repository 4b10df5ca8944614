// Materialized views, views with triggers and exclusion constraints through the published client library.
import { createClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BackendWorld, startBackendWorld } from '../support/backend-world.ts';

const YAML = `version: 1
tables:
  bookings:
    rls: false
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: guest, type: text }
      - { name: period, type: int4range }
    constraints:
      - { exclude: [{ column: period, with: "&&" }] }
views:
  guests:
    query: select guest, count(*)::integer as stays from bookings group by guest
    materialized: true
    indexes: [{ columns: [guest], unique: true }]
    expose: true
    grants: { anon: [select] }
  hidden: { query: select guest from bookings, materialized: true }
  loud:
    query: select id, upper(guest) as guest from bookings
    grants: { anon: [select, insert] }
    triggers: [{ timing: instead_of, events: insert, call: book }]
rpc:
  book: { language: plpgsql, returns: { type: trigger },
    body: "begin insert into bookings (id, guest) values (new.id, lower(new.guest)); return new; end" }
`;

let world: BackendWorld;
beforeAll(async () => {
  world = await startBackendWorld(YAML);
});
afterAll(() => world.close());

const client = (): ReturnType<typeof createClient> =>
  createClient(world.url, world.keys.publishable, { auth: { persistSession: false } });

test('a violation of an exclusion constraint is a conflict', async () => {
  const table = client().from('bookings');
  expect((await table.insert({ id: 1, guest: 'ada', period: '[1,5)' } as never)).error).toBeNull();
  const { status, error } = await table.insert({ id: 2, guest: 'ben', period: '[4,8)' } as never);
  expect([status, error?.code]).toEqual([409, '23P01']);
  expect(error?.hint).toMatch(/conflicts with a row that is there/);
});

test('a declared materialized view can be read but not written', async () => {
  const read = await client().from('guests').select('guest, stays').eq('stays', 1);
  expect([read.status, read.error]).toEqual([200, null]);
  expect(
    (
      await client()
        .from('guests')
        .insert({ guest: 'eve' } as never)
    ).error,
  ).not.toBeNull();
  expect((await client().from('hidden').select()).status).toBe(404);
});

test('the trigger of a view handles writes', async () => {
  const { error } = await client()
    .from('loud')
    .insert({ id: 7, guest: 'EVE' } as never);
  expect(error).toBeNull();
  expect((await client().from('bookings').select('guest').eq('id', 7)).data).toEqual([{ guest: 'eve' }]);
  expect((await client().from('loud').select().eq('id', 7)).data).toEqual([{ id: 7, guest: 'EVE' }]);
});
