// Projects from Supabase's guides: the output of `prepare` is valid, can be applied unchanged, and builds an equal
// database.
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { prepare } from '../../src/import/prepare.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';
import { parseConfig } from '../migrate/parse-config.ts';
import { aWorld, type World } from '../migrate/world.ts';
import { createProject } from './supabase-project.ts';
import { CHAT_OVER_FILES, PAYMENTS, TEAM_CHAT, USER_MANAGEMENT } from './typical-projects.ts';
import { scaled } from '../support/run/scaled.ts';

vi.setConfig({ testTimeout: scaled(120_000) });

let world: World;
beforeAll(async () => {
  world = await aWorld();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.empty();
  await world.sql(`drop schema if exists private cascade; create schema if not exists extensions;
    grant create on database ${new URL(world.url).pathname.slice(1)} to svc_owner`);
});

/** Default privileges of the hosted product. */
const DEFAULTS = ['tables', 'functions', 'sequences']
  .map(
    (kind) =>
      `alter default privileges in schema public grant all on ${kind} to anon, authenticated, service_role`,
  )
  .join(';');

const HELPERS = `create function auth.jwt() returns jsonb language sql stable
    as $$ select nullif(current_setting('request.jwt.claims', true), '')::jsonb $$;
  create function auth.role() returns text language sql stable as $$ select auth.jwt() ->> 'role' $$`;

async function prepared(schema: string): Promise<string> {
  const project = await createProject();
  try {
    await project.query(`create schema if not exists extensions; ${HELPERS}; ${DEFAULTS}; ${schema}`);
    return (await prepare(parseAddress(project.url))).replace('version: 1\n', '');
  } finally {
    await project.drop();
  }
}

const servedBy = (text: string): string[] =>
  parseConfig(text).rpc.flatMap(({ name, expose }) => (expose ? [name] : []));

describe.each([
  ['user management', USER_MANAGEMENT, []],
  ['a team chat', TEAM_CHAT, ['authorize', 'custom_access_token_hook']],
  ['subscriptions and payments', PAYMENTS, []],
  ['a chat over uploaded files', CHAT_OVER_FILES, ['match_sections']],
] as const)('%s', (_name, schema, served) => {
  test('is prepared, applied without remaining steps, and rebuilt', async () => {
    const text = await prepared(schema);
    expect(text).not.toMatch(/svc rejects it/);
    expect(servedBy(text)).toEqual(served);
    await world.settle(text);
    await world.empty();
    await world.sql('drop schema if exists private cascade');
    await world.settle(text);
  });
});

test('a table with the default privileges of the hosted product has no grants in the file', async () => {
  const text = await prepared(`
    create table granted (id integer primary key); alter table granted enable row level security;
    create policy "read all" on granted for select using (true);
    create table revoked (id integer primary key); revoke all on revoked from anon, authenticated;
    create table narrowed (id integer primary key); revoke insert on narrowed from anon`);
  const grantsOf = (table: string): string | undefined =>
    new RegExp(`^  ${table}:\\n(?:    .*\\n)*?    grants: (.*)$`, 'm').exec(text)?.[1];
  expect(['granted', 'revoked', 'narrowed'].map((table) => grantsOf(table))).toEqual([
    undefined,
    '{ anon: [], authenticated: [] }',
    '{ anon: [ delete, references, select, trigger, truncate, update ] }',
  ]);
  await world.settle(text);
  const can = (role: string, privilege: string): string =>
    `has_table_privilege('${role}', 'granted', '${privilege}')`;
  expect(
    await world.sql(`select ${can('anon', 'insert')} as insert, ${can('authenticated', 'truncate')} as truncate,
      ${can('service_role', 'truncate')} as service`),
  ).toEqual([{ insert: true, truncate: false, service: true }]);
});

test('the trigger of a new user works, because its function gets the missing search path', async () => {
  await world.settle(await prepared(USER_MANAGEMENT));
  await world.sql(
    `insert into auth.users (id, raw_user_meta_data)
      values ('00000000-0000-4000-8000-00000000000a', '{"full_name": "Ann"}')`,
  );
  expect(await world.sql('select full_name from profiles')).toEqual([{ full_name: 'Ann' }]);
  await world.sql('delete from profiles; delete from auth.users');
});

test('objects that a file cannot declare are reported with their users', async () => {
  const text = await prepared(CHAT_OVER_FILES);
  for (const line of [
    'foreign key documents_storage_object_id_fkey: it refers to storage.objects(id), which svc manages',
    'trigger on_file_upload of storage.objects: svc makes this table',
  ])
    expect(text).toContain(line);
});

test('functions that use objects of the hosted product are left out with their dependants', async () => {
  const text = await prepared(`
    create schema vault; create table vault.secrets (id integer, secret text);
    create schema net; create function net.http_post(url text) returns bigint language sql as 'select 1';
    create table orders (id integer primary key);
    create function secret_of(number integer) returns text language sql
      as 'select secret from vault.secrets where id = number';
    create function report_order() returns trigger language plpgsql
      as $$ begin perform net.http_post('https://hook.example'); return new; end $$;
    create function count_orders() returns bigint language sql as 'select count(*) from public.orders';
    create trigger report_order after insert on orders for each row execute function report_order()`);
  for (const line of [
    'function public.secret_of(number integer): it uses table vault.secrets, which is not in the file',
    'function public.report_order(): it uses function net.http_post, which is not in the file',
    'trigger report_order of public.orders: it uses function public.report_order()',
  ])
    expect(text).toContain(line);
  expect(parseConfig(text).rpc.map(({ name }) => name)).toEqual(['count_orders']);
  await world.settle(text);
});
