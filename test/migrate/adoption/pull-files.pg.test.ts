// Tests the options of `svc migrate pull`: several files, the report, and the comparison with the database.
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import pg from 'pg';
import { verifyPulled } from '../../../src/cli/migrate/verify-pulled.ts';
import { OwnerDatabase } from '../../../src/postgres/owner-database.ts';
import { parseAddress } from '../../../src/postgres/address/parse-address.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { runSvc } from '../../support/svc-process.ts';
import { parseConfig } from '../parse-config.ts';

const SHOP = `
  create type mood as enum ('sad', 'happy');
  create table "Orders" (id integer primary key, mood mood);
  create table orders (id serial primary key, parent integer references "Orders" (id), body text)
    with (toast.autovacuum_enabled = false);
  create table "a/b" (note text);
  alter table "Orders" enable row level security;
  create function twice(n integer) returns integer language sql immutable as 'select n * 2';
  create view open_orders as select id, body from orders`;

let folder: string;
let database: TestDatabase;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-pull-'));
  database = await createDatabase();
  await sql(SHOP);
});
afterEach(async () => {
  await database.drop();
  await rm(folder, { recursive: true });
});

const svc = (...args: string[]): ReturnType<typeof runSvc> =>
  runSvc(args, { cwd: folder, env: { SVC_DATABASE_URL: database.url, NO_COLOR: '1' } });

async function sql(text: string): Promise<void> {
  const client = new pg.Client(database.url);
  await client.connect();
  await client.query(text);
  await client.end();
}

const read = (name: string): Promise<string> => readFile(join(folder, name), 'utf8');

test('files per table contain the same as one file', async () => {
  expect(await svc('migrate', 'pull', '--split', '--out', 'svc.yaml')).toMatchObject({ code: 0 });
  expect((await readdir(join(folder, 'tables'))).sort()).toEqual([
    'Orders.yaml',
    'a_b.yaml',
    'orders_2.yaml',
  ]);
  expect(await read('svc.yaml')).toMatch(
    /include:\n +- tables\/\*\.yaml\n +- types\.yaml\n +- views\.yaml\n +- rpc\.yaml\n/,
  );
  expect(await read('svc.yaml')).toContain(
    'storage parameters of its TOAST table (autovacuum_enabled=false)',
  );
  expect(await read('tables/Orders.yaml')).toMatch(/^tables:\n {2}Orders:\n {4}fields:\n {6}- \{ name: id, /);
  expect(await svc('validate')).toMatchObject({ code: 0 });
  expect(await svc('migrate', 'apply')).toMatchObject({ code: 0 });
  expect(await svc('migrate', 'pull', '--out', 'one/svc.yaml')).toMatchObject({ code: 0 });
  expect(await svc('migrate', 'plan', '--check', '-c', 'one/svc.yaml')).toMatchObject({ code: 0 });
  expect(await svc('migrate', 'pull', '--split', '--out', 'svc.yaml')).toMatchObject({
    code: 0,
    output: expect.stringContaining('already matches the database'),
  });
});

test('an existing file in the folder of tables is refused, and a file with other content is kept', async () => {
  await svc('migrate', 'pull', '--split', '--out', 'svc.yaml');
  await sql('drop table "a/b"; alter table orders add more text');
  const stale = await svc('migrate', 'pull', '--split', '--out', 'svc.yaml', '--force');
  expect(stale).toMatchObject({
    code: 1,
    output: expect.stringContaining('tables/a_b.yaml already exists and belongs to no table'),
  });
  await rm(join(folder, 'tables/a_b.yaml'));
  const before = await read('tables/orders_2.yaml');
  const kept = await svc('migrate', 'pull', '--split', '--out', 'svc.yaml');
  expect(kept).toMatchObject({
    code: 1,
    output: expect.stringContaining('+       - { name: more, type: text }'),
  });
  expect(await read('tables/orders_2.yaml')).toBe(before);
  expect(await svc('migrate', 'pull', '--split')).toMatchObject({ code: 2 });
});

test('the report lists declared, omitted and doubtful objects, and --strict exits with 2 on omissions', async () => {
  await sql('grant select on orders to public');
  const strict = await svc('migrate', 'pull', '--out', 'svc.yaml', '--report', 'ADOPTION.md', '--strict');
  expect(strict.code).toBe(2);
  expect(strict.output).toContain(
    'table public.orders: storage parameters of its TOAST table (autovacuum_enabled=false)',
  );
  const report = await read('ADOPTION.md');
  expect(report).toMatch(
    /## In the file\n[^#]*- tables: 3\n[^#]*- views: 1\n[^#]*- functions: 1\n[^#]*- fields: 6\n/,
  );
  expect(report).toMatch(/## Not in the file\n[^#]*- table public\.orders: storage parameters/);
  expect(
    report
      .slice(report.indexOf('## To review'))
      .split('\n')
      .filter((line) => line.startsWith('- '))
      .sort(),
  ).toEqual([
    expect.stringMatching(/^- function public\.twice\(n integer\): only PUBLIC may execute it/),
    '- table public.a/b: it has no primary key',
    '- table public.orders: PUBLIC may use it, and no API role has an explicit grant: the file removes access',
    '- table public.orders: no index for the foreign key of parent: deleting a referenced row reads the whole table',
    '- view public.open_orders: it reads with the rights of its owner and bypasses policies',
  ]);
  await sql('alter table orders reset (toast.autovacuum_enabled)');
  expect(await svc('migrate', 'pull', '--strict')).toMatchObject({ code: 0 });
});

test('the file is compared with the database if svc is set up in it', async () => {
  const first = await svc('migrate', 'pull', '--json');
  expect(first.output).toContain('"verified": false');
  await writeFile(join(folder, 'empty.yaml'), 'version: 1\ntables: {}\n');
  expect(await svc('migrate', 'plan', '-c', 'empty.yaml')).toMatchObject({ code: 0 });
  const second = await svc('migrate', 'pull', '--json');
  expect(second).toMatchObject({ code: 0, output: expect.stringContaining('"verified": true') });
  const administrator = new OwnerDatabase({
    address: parseAddress(database.url),
    applicationName: 'svc-test',
    max: 2,
    idleTimeoutMs: 5_000,
  });
  const wrong = parseConfig(
    'tables: { Orders: { fields: [{ name: id, type: bigint, primary_key: true }], rls: [] } }',
  );
  expect(await verifyPulled(administrator, wrong, [])).toMatchObject({
    kind: 'differs',
    lines: expect.arrayContaining([expect.stringContaining('id integer → bigint')]),
  });
  await administrator.close();
});
