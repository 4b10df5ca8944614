// `expose:` serves existing database objects unchanged: views with their embeds and functions, and only those that
// are named.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';

const FILE = `
version: 1
tables:
  lists:
    fields: [{ name: id, type: int, primary_key: true }, { name: title, type: text }]
    rls: [{ operations: [select], using: "true" }]
expose:
  relations:
    - list_titles
    - { name: reporting.figures, columns: [n] }
  functions:
    - twice
    - { name: whoami, auth_required: true }
`;

let world: BackendWorld;

beforeAll(async () => {
  world = await startBackendWorld(FILE, {
    prepare: async (url) => {
      const client = new pg.Client(url);
      await client.connect();
      await client.query(`
        create schema reporting;
        create type public.mood as enum ('calm', 'wild');
        create table reporting.figures (n int, hidden text);
        insert into reporting.figures values (7, 'secret');
        grant usage on schema reporting to anon;
        grant select on reporting.figures to anon;
        create table public.not_exposed (id int);
        grant select on public.not_exposed to anon;
        create function public.twice(n int) returns int language sql immutable as 'select n * 2';
        create function public.whoami() returns text language sql stable as 'select current_user::text';
        create function public.not_exposed_function() returns int language sql as 'select 1';
      `);
      await client.end();
    },
    prepareAfter: async (url) => {
      const client = new pg.Client(url);
      await client.connect();
      await client.query(`
        insert into lists values (1, 'Groceries');
        create view public.list_titles with (security_invoker = true)
          as select id, title, 'calm'::mood as mood from lists;
        grant select on public.list_titles to anon;
        notify svc_schema;
      `);
      await client.end();
    },
  });
});
afterAll(async () => {
  await world.close();
});

const get = async (
  path: string,
  headers: Record<string, string> = {},
): Promise<{ status: number; json: unknown }> => {
  const response = await fetch(`${world.url}/rest/v1${path}`, {
    headers: { apikey: world.keys.publishable, ...headers },
  });
  return { status: response.status, json: await response.json() };
};

test('a view, a table of another schema and a function are served', async () => {
  await expect
    .poll(() => get('/list_titles'))
    .toEqual({ status: 200, json: [{ id: 1, title: 'Groceries', mood: 'calm' }] });
  expect(await get('/figures', { 'accept-profile': 'reporting' })).toEqual({ status: 200, json: [{ n: 7 }] });
  expect(await get('/rpc/twice?n=21')).toEqual({ status: 200, json: 42 });
});

test('unnamed objects and hidden columns are not served', async () => {
  expect((await get('/not_exposed')).status).toBe(404);
  expect((await get('/rpc/not_exposed_function')).status).toBe(404);
  expect((await get('/figures?select=hidden', { 'accept-profile': 'reporting' })).status).toBe(400);
});

test('auth_required applies to exposed functions too', async () => {
  expect((await get('/rpc/whoami')).status).toBe(401);
  const nobody = await world.token({ sub: undefined, role: 'anon' });
  expect((await get('/rpc/whoami', { authorization: `Bearer ${nobody}` })).status).toBe(401);
  const token = await world.token({ sub: '00000000-0000-4000-8000-000000000001', role: 'authenticated' });
  expect(await get('/rpc/whoami', { authorization: `Bearer ${token}` })).toEqual({
    status: 200,
    json: 'authenticated',
  });
});
