// Overloaded functions: the names of the arguments select the function, as in PostgREST.
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BackendWorld, startBackendWorld } from '../support/backend-world.ts';

const YAML = `version: 1
tables:
  notes:
    rls: [{ operations: [select], using: "true" }]
    fields: [{ name: id, type: integer, primary_key: true }, { name: body, type: text }]
rpc:
  find: { language: sql, volatility: stable, args: [{ name: id, type: integer, required: true }],
    returns: { type: setof notes }, body: select * from notes n where n.id = find.id }
  find_by_body: { name: find, language: sql, volatility: stable,
    args: [{ name: like, type: text, required: true }, { name: most, type: integer, default: 5 }],
    returns: { type: setof notes }, body: select * from notes where body like find.like limit most }
  find_none: { name: find, language: sql, auth_required: true, returns: { type: text }, body: select 'nothing' }
  find_hidden: { name: find, language: sql, expose: false, args: [{ name: id, type: uuid, required: true }],
    returns: { type: text }, body: select 'hidden' }
  find_in: { name: find, args: [{ type: jsonb, required: true }], language: sql, returns: { type: jsonb },
    body: "select jsonb_build_object('got', $1)" }
  find_by_both: { name: find, language: sql,
    args: [{ name: id, type: integer, required: true }, { name: like, type: text, required: true }],
    returns: { type: text }, body: select 'both' }
  twins: { language: sql,
    args: [{ name: a, type: integer, required: true }, { name: b, type: integer, default: 1 }],
    returns: { type: integer }, body: select 1 }
  other_twin: { name: twins, language: sql,
    args: [{ name: a, type: integer, required: true }, { name: c, type: text, default: x }],
    returns: { type: integer }, body: select 2 }
`;

let world: BackendWorld;
let client: SupabaseClient;
beforeAll(async () => {
  world = await startBackendWorld(YAML);
  client = createClient(world.url, world.keys.publishable, { auth: { persistSession: false } });
  await createClient(world.url, world.keys.secret)
    .from('notes')
    .insert([
      { id: 1, body: 'one' },
      { id: 2, body: 'two' },
    ]);
});
afterAll(() => world.close());

const get = async (path: string, key = world.keys.publishable): Promise<unknown> => {
  const response = await fetch(`${world.url}/rest/v1/rpc/${path}`, { headers: { apikey: key } });
  return [response.status, await response.json()];
};

test('the names of the arguments select the function, by POST and by GET', async () => {
  expect((await client.rpc('find', { id: 1 })).data).toEqual([{ id: 1, body: 'one' }]);
  expect((await client.rpc('find', { like: 't%' })).data).toEqual([{ id: 2, body: 'two' }]);
  expect((await client.rpc('find', { like: '%o%', most: 1 }).select('id')).data).toEqual([{ id: 1 }]);
  expect((await client.rpc('find', { id: 1, like: 'x' })).data).toBe('both');
  expect(await get('find?id=2')).toEqual([200, [{ id: 2, body: 'two' }]]);
  expect(await get('find?like=%25o%25&most=3&id=eq.2&select=body')).toEqual([200, [{ body: 'two' }]]);
  expect(await get('find?id=1&like=x')).toMatchObject([405, {}]);
});

test('a body without matching names is the unnamed argument', async () => {
  expect((await client.rpc('find', { other: 1 })).data).toEqual({ got: { other: 1 } });
  const response = await fetch(`${world.url}/rest/v1/rpc/find`, {
    method: 'POST',
    headers: { apikey: world.keys.publishable, 'content-type': 'application/json' },
    body: '[1]',
  });
  expect(await response.json()).toEqual({ got: [1] });
});

test('the privilege of the selected function applies', async () => {
  expect((await client.rpc('find', {})).status).toBe(401);
  // The plan of the previous call was made for another caller.
  expect((await createClient(world.url, world.keys.secret).rpc('find', {})).data).toBe('nothing');
  expect((await client.rpc('find', {})).status).toBe(401);
});

test('an ambiguous call returns all candidates', async () => {
  expect(await client.rpc('twins', { a: 1 })).toMatchObject({
    status: 300,
    error: {
      code: 'PGRST203',
      message:
        'Could not choose the best candidate function between: ' +
        'public.twins(a => integer, b => integer), public.twins(a => integer, c => text)',
    },
  });
  expect((await client.rpc('twins', { a: 1, c: 'y' })).data).toBe(2);
  expect(await client.rpc('twins', { b: 1 })).toMatchObject({ status: 404, error: { code: 'PGRST202' } });
});

test('the description contains the arguments of each overload', async () => {
  const document: unknown = await (
    await fetch(`${world.url}/rest/v1/`, {
      headers: { apikey: world.keys.publishable, accept: 'application/vnd.oai.openapi+json' },
    })
  ).json();
  expect(document).toMatchObject({
    paths: {
      '/rpc/twins': {
        post: {
          requestBody: {
            content: {
              'application/json': {
                schema: {
                  oneOf: [
                    { required: ['a'], properties: { a: {}, b: {} } },
                    { required: ['a'], properties: { a: {}, c: {} } },
                  ],
                },
              },
            },
          },
        },
      },
    },
  });
  expect(JSON.stringify(document)).not.toContain('"format":"uuid"');
});
