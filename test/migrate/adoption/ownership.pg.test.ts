// Tests declared objects of other roles: transferred over a connection with the right, refused with statements
// otherwise.
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { ownershipTaker } from '../../../src/migrate/apply/transfer-ownership.ts';
import { migrationPolicy } from '../../../src/migrate/apply/policy.ts';
import { OwnerDatabase } from '../../../src/postgres/owner-database.ts';
import { parseAddress } from '../../../src/postgres/address/parse-address.ts';
import { LAUNCHER, NODE } from '../../support/svc-process.ts';
import { pulled } from '../pulled.ts';
import { aWorld, type World } from '../world.ts';

/** Roles belong to the cluster. */
const APP = `svc_test_app_${process.pid}`;
const STRANGER = `svc_test_stranger_${process.pid}`;

let world: World;
let folder: string;
beforeAll(async () => {
  world = await aWorld();
  folder = await mkdtemp(join(tmpdir(), 'svc-ownership-'));
  await world.sql(`create role ${APP}; create role ${STRANGER} login password 'stranger'`);
});
afterAll(async () => {
  await world.empty();
  await world.sql(
    `drop schema if exists shop cascade; drop owned by ${APP}, ${STRANGER}; drop role ${APP}, ${STRANGER}`,
  );
  await world.close();
  await rm(folder, { recursive: true });
});
beforeEach(async () => {
  await world.empty();
  await world.sql(`drop schema if exists shop cascade; grant usage, create on schema public to ${APP};
    create schema shop authorization ${APP};
    set role ${APP};
    create table public.orders (id bigserial primary key, note text) ;
    create table shop.items (id integer primary key);
    create function public.total(a integer) returns integer language sql as 'select a';
    grant execute on function public.total(integer) to anon, authenticated, service_role;
    create table public.unrelated (id integer);
    create view public.notes as select id, note from public.orders;
    reset role;
    insert into orders (note) values ('kept')`);
});

const FILE = `
tables:
  orders:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: note, type: text, required: true }
  items:
    schema: shop
    fields: [{ name: id, type: integer, primary_key: true }]
views:
  notes: { query: "select note, id from orders" }
rpc:
  total: { language: sql, volatility: volatile, args: [{ name: a, type: integer, required: true }],
    returns: { type: integer }, body: select a }
`;

const owners = (): Promise<Record<string, unknown>[]> =>
  world.sql(`select c.relname as name, c.relowner::regrole::text as owner from pg_class c
    where c.relname in ('notes', 'orders', 'orders_id_seq', 'items', 'unrelated') union all
    select proname, proowner::regrole::text from pg_proc where proname = 'total' union all
    select nspname, nspowner::regrole::text from pg_namespace where nspname = 'shop' order by 1`);

const owned = (role: string): Record<string, unknown>[] =>
  ['items', 'notes', 'orders', 'orders_id_seq', 'shop', 'total', 'unrelated'].map((name) => ({
    name,
    owner: name === 'unrelated' ? APP : role,
  }));

function svc(...args: string[]): Promise<{ code: number; out: string }> {
  const env = { ...process.env, SVC_DATABASE_URL: world.url, NO_COLOR: '1' };
  return new Promise((resolve) => {
    execFile(NODE, [LAUNCHER, ...args], { cwd: folder, env }, (error, stdout, stderr) => {
      const code = error && typeof error.code === 'number' ? error.code : 0;
      resolve({ code, out: stdout + stderr });
    });
  });
}

test('a superuser transfers all declared objects to svc_owner, and the plan lists this', async () => {
  await writeFile(join(folder, 'svc.yaml'), `version: 1${FILE}`);
  const planned = await svc('migrate', 'plan', '--check');
  expect(planned.out).toContain(`~ table public.orders: taken from ${APP}`);
  expect(planned.out).toContain(`~ function public.total(a integer): taken from ${APP}`);
  expect(planned.code).toBe(2);
  expect((await svc('migrate', 'plan', '--sql')).out).toContain('alter table shop.items owner to svc_owner;');
  expect(await owners()).toEqual(owned(APP));
  const applied = await svc('migrate', 'apply');
  expect(applied.out).toContain(`~ schema shop: taken from ${APP}`);
  expect(applied.code).toBe(0);
  expect(await owners()).toEqual(owned('svc_owner'));
  expect(await world.sql('select note from orders')).toEqual([{ note: 'kept' }]);
  expect(await svc('migrate', 'plan', '--check')).toMatchObject({ code: 0 });
  await world.sql(`alter table orders owner to ${APP}`);
  expect(await svc('migrate', 'drift')).toMatchObject({
    code: 4,
    out: expect.stringContaining(`~ table public.orders: belongs to ${APP}`),
  });
});

test('a connection without the right is refused with the statements, and nothing changes', async () => {
  const url = new URL(world.url);
  url.username = STRANGER;
  url.password = 'stranger';
  const administrator = new OwnerDatabase({
    address: parseAddress(url.href),
    applicationName: 'svc-test',
    max: 1,
    idleTimeoutMs: 5_000,
  });
  try {
    const outcome = await world.apply(
      FILE,
      {},
      { ownership: ownershipTaker(administrator, migrationPolicy()) },
    );
    expect(outcome).toMatchObject({ kind: 'refused', begun: false });
    const problems = outcome.kind === 'refused' ? outcome.problems : [];
    expect(problems.map((problem) => `${problem.code} ${problem.place ?? ''}: ${problem.message}`)).toEqual([
      expect.stringMatching(/^ADO-301 svc\.yaml:\d+:\d+: schema shop belongs to /),
      expect.stringMatching(/^ADO-301 svc\.yaml:\d+:\d+: view public\.notes belongs to /),
      expect.stringMatching(/^ADO-301 svc\.yaml:\d+:\d+: table public\.orders belongs to /),
      expect.stringMatching(/^ADO-301 svc\.yaml:\d+:\d+: table shop\.items belongs to /),
      expect.stringMatching(/^ADO-301 svc\.yaml:\d+:\d+: function public\.total\(a integer\) belongs to /),
    ]);
    expect(problems[2]?.hint).toContain('alter table public.orders owner to svc_owner;');
    expect(await owners()).toEqual(owned(APP));
    expect(await world.sql('select from svc_meta.object')).toEqual([]);
  } finally {
    await administrator.close();
  }
});

test('svc serve transfers nothing and names the command that does', async () => {
  expect((await world.refusal(FILE)).join('\n')).toMatch(/^ADO-301 /);
  expect(await owners()).toEqual(owned(APP));
});

test('a refused file transfers nothing', async () => {
  await world.sql(`insert into orders (note) values (null); alter table orders owner to svc_owner`);
  await writeFile(join(folder, 'svc.yaml'), `version: 1${FILE}`);
  expect(await svc('migrate', 'apply')).toMatchObject({ code: 6 });
  expect(await owners()).toEqual(
    owned(APP).map((item) =>
      String(item['name']).startsWith('orders') ? { ...item, owner: 'svc_owner' } : item,
    ),
  );
});

test('partitions are transferred with their table, and the plan of the pulled file is empty afterwards', async () => {
  await world.empty();
  await world.sql(`grant usage, create on schema public to ${APP}; set role ${APP};
    create table base (id integer primary key) partition by range (id);
    create table base_low partition of base for values from (0) to (10); reset role`);
  await writeFile(join(folder, 'svc.yaml'), `version: 1\n${await pulled(world)}`);
  expect(await svc('migrate', 'apply')).toMatchObject({ code: 0 });
  expect(
    await world.sql(
      `select relowner::regrole::text as owner from pg_class where relname like 'base%' and relkind in ('r', 'p')`,
    ),
  ).toEqual([{ owner: 'svc_owner' }, { owner: 'svc_owner' }]);
  expect(await svc('migrate', 'plan', '--check')).toMatchObject({ code: 0 });
});

test('a procedure with output arguments is transferred too', async () => {
  await world.sql(`set role ${APP};
    create procedure public.tally(n integer, out sum integer) language plpgsql as 'begin sum := n; end';
    reset role`);
  const tally =
    '  tally: { kind: procedure, ' +
    'args: [{ name: n, type: integer, required: true }, { name: sum, type: integer, mode: out }], ' +
    'body: begin sum := n; end }\n';
  await writeFile(join(folder, 'svc.yaml'), `version: 1${FILE}${tally}`);
  const applied = await svc('migrate', 'apply');
  expect(applied.out).toMatch(/~ procedure public\.tally\(.*\): taken from/);
  expect(applied.code).toBe(0);
  expect(
    await world.sql(`select proowner::regrole::text as owner from pg_proc where proname = 'tally'`),
  ).toEqual([{ owner: 'svc_owner' }]);
  expect(await svc('migrate', 'plan', '--check')).toMatchObject({ code: 0 });
});
