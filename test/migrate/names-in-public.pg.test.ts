// Tests undeclared objects in public, such as types and functions of an extension: their qualified names work in every
// text of the file and in a pulled file.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pulled } from './pulled.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
  await world.sql(`create extension citext schema public; create extension "uuid-ossp" schema public;
    create function public.is_short(a text) returns boolean language sql immutable as 'select length(a) < 10';
    alter function public.is_short owner to svc_owner; revoke all on function public.is_short from public;
    grant execute on function public.is_short to anon, authenticated, service_role`);
});
afterAll(() => world.close());

const FILE = `
tables:
  notes:
    fields:
      - { name: id, type: uuid, primary_key: true, default: { sql: public.uuid_generate_v4() } }
      - { name: email, type: public.citext, check: public.is_short(email::text), unique: true }
      - { name: aliases, type: "public.citext[]" }
      - { name: title, type: citext }
    indexes: [{ columns: [title], where: "public.is_short(title::text)" }]
    rls:
      - operations: [select]
        using: "public.is_short(title::text) and exists (select from public.notes n where n.email = 'a'::public.citext)"
rpc:
  by_email:
    language: sql
    args: [{ name: one, type: public.citext }]
    returns: { type: setof public.notes }
    body: select * from public.notes where email = one and public.is_short(title::text) and title <> 'public.citext'
`;

test('they work in types, defaults, checks, conditions and bodies, and the second plan is empty', async () => {
  await world.settle(FILE);
  await world.sql(`insert into notes (email, title) values ('A', 't')`);
  expect(await world.sql(`select title from by_email('a')`)).toEqual([{ title: 't' }]);
  const [fn] = await world.sql(`select prosrc from pg_proc where proname = 'by_email'`);
  expect(fn?.['prosrc']).toContain('public.is_short');
  await world.sql('truncate svc_meta.stamp');
  expect((await world.plan(FILE)).steps).toEqual([]);
});

test('a pulled file has an empty plan', async () => {
  await world.settle(FILE);
  const declared = await pulled(world);
  expect(declared).toContain('type: public.citext');
  await world.sql('truncate svc_meta.stamp, svc_meta.object');
  expect((await world.plan(declared)).steps.map((step) => step.sql)).toEqual([]);
});

test('an unknown name is reported as written in the file', async () => {
  const [first] = await world.refusal(FILE.replace('type: "public.citext[]"', 'type: public.citexd'));
  expect(first).toMatch(/^MIG-101 .*: type "public\.citexd" does not exist/);
});
