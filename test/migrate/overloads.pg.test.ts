// Tests overloaded functions: each is created, changed, granted, renamed, pulled and dropped separately.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { pulled } from './pulled.ts';
import { aWorld, type World } from './world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.empty();
});

const HEAD = `
types:
  mood: { enum: [calm, angry] }
tables:
  notes:
    rls: []
    fields: [{ name: id, type: bigint, primary_key: true }, { name: body, type: text, check: size(body) < 100 }]
rpc:
`;
const OF_TEXT = `
  size: { language: sql, volatility: immutable, args: [{ name: words, type: text, required: true }],
    returns: { type: int }, body: select length(words) }`;
const OF_MOOD = `
  size_of_mood: { name: size, language: sql, volatility: immutable,
    args: [{ name: how, type: mood, required: true }], returns: { type: int }, body: select 1 }`;
const OF_NUMBERS = `
  size_of_numbers: { name: size, expose: false, language: sql,
    args: [{ type: int, required: true }, { type: "numeric(5, 2)", default: 2 }], returns: { type: int },
    body: select 2 }`;
const OF_ROW = `
  size_of_note: { name: size, expose: false, execute: [authenticated], language: sql, volatility: stable,
    args: [{ name: note, type: notes, required: true }], returns: { type: int },
    body: "select 3 + size(note.body)" }`;
const ALL = HEAD + OF_TEXT + OF_MOOD + OF_NUMBERS + OF_ROW;

const CATALOG = `select pg_get_functiondef(p.oid) as text,
  array(select one::text from unnest(p.proacl) one order by 1) as rights from pg_proc p
  where p.pronamespace = 'public'::regnamespace order by 1`;
const oids = async (): Promise<Record<string, unknown>> =>
  Object.fromEntries(
    (
      await world.sql(
        `select oid::regprocedure::text as name, oid from pg_proc where pronamespace = 'public'::regnamespace
          order by 1`,
      )
    ).map((row) => [String(row['name']), row['oid']]),
  );

test('all overloads are created with their own rights, and the next plan is empty', async () => {
  await world.settle(ALL);
  expect(Object.keys(await oids())).toEqual([
    'size(integer,numeric)',
    'size(mood)',
    'size(notes)',
    'size(text)',
  ]);
  const [may] = await world.sql(`select has_function_privilege('anon', 'size(text)', 'execute') as text,
    has_function_privilege('anon', 'size(integer, numeric)', 'execute') as numbers,
    has_function_privilege('authenticated', 'size(notes)', 'execute') as note`);
  expect(may).toEqual({ text: true, numbers: false, note: true });
});

test('a changed, added or removed overload does not affect the others', async () => {
  await world.settle(ALL);
  const before = await oids();
  await world.settle(ALL.replace('select 2', 'select 4').replace('how, type: mood', 'feeling, type: mood'));
  expect(await oids()).toEqual({ ...before, 'size(mood)': expect.anything() });
  expect(await world.sql(`select size(7), size(null::notes) as row`)).toEqual([{ size: 4, row: null }]);
  const changed = HEAD + OF_TEXT + OF_MOOD.replace('type: mood', 'type: uuid') + OF_NUMBERS;
  await world.settle(changed);
  expect(Object.keys(await oids())).toEqual(['size(integer,numeric)', 'size(text)', 'size(uuid)']);
  expect((await oids())['size(text)']).toBe(before['size(text)']);
  await world.settle(HEAD + OF_TEXT);
  expect(Object.keys(await oids())).toEqual(['size(text)']);
  await world.settle(ALL);
  expect(await oids()).toMatchObject({
    'size(text)': before['size(text)'],
    'size(notes)': expect.anything(),
  });
});

test('an undeclared overload is kept and reported', async () => {
  await world.settle(HEAD + OF_TEXT + OF_MOOD);
  await world.sql(`create function size(uuid) returns int language sql as 'select 9'`);
  const plan = await world.plan(HEAD + OF_TEXT + OF_MOOD);
  expect(plan.unmanaged).toEqual([{ table: 'public.size', what: 'function', name: 'size(uuid)' }]);
  expect(plan.steps).toEqual([]);
  await world.settle(HEAD + OF_TEXT);
  expect(Object.keys(await oids())).toEqual(['size(text)', 'size(uuid)']);
});

test('a manual change of an overload is reverted', async () => {
  await world.settle(ALL);
  const before = await world.sql(CATALOG);
  await world.sql(`alter function size(mood) volatile; revoke execute on function size(text) from anon;
    drop function size(int, numeric)`);
  expect(await world.refusal(ALL)).toEqual([expect.stringContaining('may call it: more than')]);
  expect((await world.plan(ALL)).steps.map(({ at }) => at)).toEqual(
    expect.arrayContaining(['rpc.size', 'rpc.size_of_mood', 'rpc.size_of_numbers']),
  );
  await world.settle(ALL, { allow: ['authz_open=rpc.size'] });
  expect(await world.sql(CATALOG)).toEqual(before);
});

test('two overloads with the same argument types are refused', async () => {
  const twin = `
  size_of_name: { name: size, language: sql, args: [{ name: title, type: "public.text_like" }],
    returns: { type: int }, body: select 1 }`;
  expect(
    await world
      .refusal(`${HEAD}${OF_TEXT}${twin}`.replace('"public.text_like"', 'pg_catalog.text'))
      .catch((error: Error) => [error.message]),
  ).toEqual([expect.stringMatching(/rpc\.size is already size\(text\)/)]);
  expect(
    await world.refusal(`${HEAD}${OF_TEXT}
  big: { name: size, language: sql, args: [{ name: many, type: "notes.id%type" }], returns: { type: int },
    body: select 1 }
  bigger: { name: size, expose: false, language: sql, args: [{ name: many, type: bigint }],
    returns: { type: int }, body: select 1 }`),
  ).toEqual([
    expect.stringMatching(/^MIG-111 .*another function called size has arguments of the same types/),
  ]);
});

test('overloads can be renamed separately or together', async () => {
  await world.settle(ALL);
  const before = await oids();
  const renamed = ALL.replace(
    'size_of_mood: { name: size,',
    'size_of_mood: { name: extent, renamed_from: size,',
  );
  await world.settle(renamed);
  expect(await oids()).toMatchObject({
    'extent(mood)': before['size(mood)'],
    'size(text)': before['size(text)'],
  });
  await world.settle(
    ALL.replace('size_of_mood: { name: size,', 'size_of_mood: { name: size, renamed_from: extent,'),
  );
  expect(await oids()).toEqual(before);
  const all = ALL.replaceAll('name: size,', 'name: bulk, renamed_from: size,')
    .replace('  size: { ', '  bulk: { renamed_from: size, ')
    .replaceAll('size(', 'bulk(');
  await world.settle(all);
  expect(new Set(Object.values(await oids()))).toEqual(new Set(Object.values(before)));
});

test('a pulled file contains all overloads, has an empty plan, and builds the same in an empty database', async () => {
  await world.sql(`set local role svc_owner; create schema crm;
    create function crm.size(int) returns int language sql as 'select 5';
    create procedure size(inout a int) language sql as 'select 1';
    revoke all on all routines in schema public from public; revoke all on all routines in schema crm from public;
    grant execute on all routines in schema public to anon, authenticated, service_role; reset role`);
  await world.settle(ALL.replaceAll('size(body)', 'length(body)'));
  const before = await world.sql(CATALOG);
  const text = await pulled(world);
  expect(text).not.toMatch(/left alone/i);
  expect((await world.plan(text)).steps.map(({ sql }) => sql)).toEqual([]);
  await world.empty();
  await world.settle(text);
  expect(await world.sql(CATALOG)).toEqual(before);
});

test('functions with the same signature in two schemas, or without quotes, are all pulled', async () => {
  await world.sql(`set role svc_owner; create schema crm;
    create function f(x integer) returns integer language sql return 1;
    create function f(x text) returns integer language sql return 2;
    create function crm.f(x integer) returns integer language sql return 3;
    create function "crm.f"(x integer) returns integer language sql return 4;
    create function "crm.f"(x text) returns integer language sql return 5;
    create function "f(text)"() returns integer language sql return 6;
    reset role`);
  const bodies = `select pg_get_functiondef(p.oid) as text from pg_proc p
    where p.pronamespace in ('public'::regnamespace, 'crm'::regnamespace) order by 1`;
  const before = await world.sql(bodies);
  const text = await pulled(world, ['public', 'crm']);
  expect(text).not.toMatch(/left alone/i);
  await world.empty();
  await world.settle(text);
  expect(await world.sql(bodies)).toEqual(before);
});

test('a function that the file cannot distinguish from another is named in the pulled file', async () => {
  await world.sql(`set role svc_owner; create type mood as enum ('calm'); create type "Mood" as enum ('angry');
    create function f(x mood) returns integer language sql return 1;
    create function f(x "Mood") returns integer language sql return 2;
    reset role`);
  const text = await pulled(world);
  expect(text).toMatch(
    /left alone:\n.*rpc\.f\(mood\) 2: svc rejects it \(rpc\.f\(mood\) is already f\(mood\)\)/,
  );
});

test('a renamed type keeps the overloads, and their records use the new name', async () => {
  await world.settle(ALL);
  const before = await oids();
  const renamed = ALL.replace('mood: { enum', 'feeling: { renamed_from: mood, enum').replace(
    'type: mood,',
    'type: feeling,',
  );
  await world.settle(renamed);
  expect(new Set(Object.values(await oids()))).toEqual(new Set(Object.values(before)));
  await world.settle(renamed.replace(OF_MOOD.replace('type: mood,', 'type: feeling,'), ''));
  expect(Object.keys(await oids())).toEqual(['size(integer,numeric)', 'size(notes)', 'size(text)']);
});
