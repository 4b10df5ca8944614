// Tests that the default grant of EXECUTE to PUBLIC does not publish a function.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { renderPulled } from '../../../src/migrate/commands/pull.ts';
import { listReviewItems } from '../../../src/migrate/commands/adoption/review-items.ts';
import { readLive } from '../../../src/migrate/schema/live/read-live.ts';
import { parseConfig } from '../parse-config.ts';
import { pulled } from '../pulled.ts';
import { aWorld, type World } from '../world.ts';

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(() => world.empty());

const SECRETS = `create table accounts (id integer primary key, owner uuid, secret text);
  create function all_secrets() returns setof text language sql stable security definer set search_path = public
    as 'select secret from accounts'`;

async function execute(sql: string): Promise<void> {
  await world.sql(`begin; set local role svc_owner; ${sql}; commit`);
}

const callers = (name: string): Promise<Record<string, unknown>[]> =>
  world.sql(
    `select r as role from unnest(array['anon', 'authenticated', 'service_role', 'public']) r
     where has_function_privilege(r, $1::regproc, 'execute') order by 1`,
    [name],
  );

const isServed = (text: string, name: string): boolean | undefined =>
  parseConfig(text).rpc.find((fn) => fn.name === name)?.expose;

test('a security definer function of PUBLIC is pulled with expose: false and without API roles', async () => {
  await execute(SECRETS);
  const text = await pulled(world);
  expect(isServed(text, 'all_secrets')).toBe(false);
  await world.settle(text);
  expect(await callers('all_secrets')).toEqual([]);
});

test.each([
  ['before the first apply', false],
  ['after it', true],
])('exposing it needs an explicit permission %s', async (_when, isApplied) => {
  await execute(SECRETS);
  const text = await pulled(world);
  if (isApplied) await world.settle(text);
  const open = text.replace(/ +expose: false\n/, '');
  expect(await world.refusal(open)).toEqual([
    expect.stringMatching(
      /^MIG-303 .*function all_secrets: anon, authenticated may call it: more than the database grants/,
    ),
  ]);
  await world.settle(open, { allow: ['authz_open=rpc.all_secrets'] });
  expect(await callers('all_secrets')).toHaveLength(3);
});

test('a function that a policy calls is not exposed and needs an explicit permission', async () => {
  await execute(`${SECRETS};
    create function owns(account integer) returns boolean language sql stable security definer set search_path = public
      as 'select exists (select from accounts where id = account and owner = auth.uid())';
    create function helper(n integer) returns integer language sql immutable as 'select n + 1';
    create function label(accounts) returns text language sql stable as 'select $1.id::text';
    alter table accounts enable row level security;
    create policy own on accounts for select to authenticated using (owns(id))`);
  const text = await pulled(world);
  for (const name of ['owns', 'helper', 'label', 'all_secrets']) expect(isServed(text, name)).toBe(false);
  await world.settle(text);
  expect(await callers('owns')).toHaveLength(3);
  expect(await callers('label')).toHaveLength(3);
  expect(await callers('helper')).toEqual([]);
  expect(await callers('all_secrets')).toEqual([]);
  const open = text.replace(/(  owns:\n(?: {4}.*\n)*?) {4}expose: false\n/, '$1');
  expect(open).not.toBe(text);
  expect(await world.refusal(open)).toEqual([
    expect.stringMatching(/^MIG-303 .*function owns: .*may call it/),
  ]);
  await world.settle(open, { allow: ['authz_open=rpc.owns'] });
  expect(isServed(open, 'owns')).toBe(true);
});

test('a grant to an API role publishes a function to that role', async () => {
  await execute(`${SECRETS}; grant execute on function all_secrets() to authenticated`);
  const text = await pulled(world);
  expect(isServed(text, 'all_secrets')).toBe(true);
  await world.settle(text);
  expect(await callers('all_secrets')).toEqual([{ role: 'authenticated' }]);
  expect(await world.refusal(text.replace(/ {4}execute: \[ authenticated \]\n/, ''))).toEqual([
    expect.stringMatching(/^MIG-303 .*function all_secrets: anon.* may call it: more/),
  ]);
});

test('the report lists functions that PUBLIC may execute and functions without a search path', async () => {
  await execute(`${SECRETS}; alter function all_secrets() reset search_path`);
  const live = await world.owner.session((session) => readLive(session, ['public']));
  expect(listReviewItems(live, () => true).filter((line) => line.startsWith('function'))).toEqual([
    expect.stringMatching(
      /^function public\.all_secrets\(\): only PUBLIC may execute it.*rights of its owner.*expose: false/,
    ),
    expect.stringMatching(
      /^function public\.all_secrets\(\): .* no search_path: the file sets public, extensions, pg_temp$/,
    ),
  ]);
  expect(renderPulled(live, () => true)).toContain(
    'settings: { search_path: "public, extensions, pg_temp" }',
  );
});

test('a function that names itself in its body is not called by it', async () => {
  await execute(`create schema hidden;
    create function hidden.role_of(who text) returns text language plpgsql as 'begin return role_of.who; end'`);
  const text = await world.owner.session(async (session) =>
    renderPulled(await readLive(session, ['public', 'hidden']), () => true),
  );
  const [fn] = parseConfig(text.replace('version: 1\n', '')).rpc;
  expect(fn).toMatchObject({ name: 'role_of', expose: false });
  expect(fn?.execute ?? []).toEqual([]);
  await world.sql('drop schema hidden cascade');
});

test('roles outside of the API keep what they were granted by name, in a new database too', async () => {
  const role = `svc_test_caller_${process.pid}`;
  await world.sql(`create role ${role}`);
  try {
    await execute(`create function due() returns integer language sql as 'select 1';
      create function paid() returns integer language sql as 'select 2';
      revoke execute on function due(), paid() from public;
      grant execute on function due() to ${role}, service_role; grant execute on function paid() to ${role}`);
    const text = await pulled(world);
    expect(parseConfig(text).rpc).toMatchObject([
      { name: 'due', expose: true, execute: ['service_role', role] },
      { name: 'paid', expose: false, execute: [role] },
    ]);
    await world.settle(text);
    await world.empty();
    await world.settle(text);
    const [may] = await world.sql(
      `select has_function_privilege('${role}', 'due()', 'execute') as due,
        has_function_privilege('${role}', 'paid()', 'execute') as paid`,
    );
    expect(may).toEqual({ due: true, paid: true });
  } finally {
    await world.empty();
    await world.sql(`drop role ${role}`);
  }
});
