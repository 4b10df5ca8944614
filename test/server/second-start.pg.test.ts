// A start with everything in place changes nothing in the database and waits for no lock.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { generateApiKeys } from '../../src/identity/api-key.ts';
import { silentLog } from '../../src/log/log.ts';
import { migrate } from '../../src/migrate/migrate.ts';
import { oneAddress } from '../../src/postgres/address/database-addresses.ts';
import { startBackend, type Backend } from '../../src/server/backend.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';

const YAML = `version: 1
project: { name: second-start }
tables:
  notes:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: body, type: text, unique: true }
    rls:
      - operations: [select]
        using: "true"
storage:
  pictures: { public: true }
rpc:
  answer: { language: sql, volatility: stable, returns: { type: integer }, body: select 42 }
`;

let database: TestDatabase;
let superuser: pg.Client;

beforeAll(async () => {
  database = await createDatabase();
  superuser = new pg.Client({ connectionString: database.url });
  await superuser.connect();
});
afterAll(async () => {
  await superuser.end();
  await database.drop();
});

const keys = generateApiKeys();

async function start(): Promise<Backend> {
  const loaded = loadConfig({ name: 'svc.yaml', directory: '/', text: YAML }, { variables: {} });
  if (!loaded.ok) throw new Error(loaded.mistakes.map((mistake) => mistake.message).join('\n'));
  return await startBackend({
    config: loaded.config,
    database: oneAddress(database.url),
    keys,
    env: {},
    host: '127.0.0.1',
    port: 0,
    log: silentLog,
    dev: false,
    migrate: async (owner, config) => {
      const outcome = await migrate({ owner, config, log: silentLog });
      if (outcome.kind === 'refused') throw new Error('refused');
    },
  });
}

test('while every table is being read by a dump, a second start makes no DDL and becomes ready', async () => {
  const first = await start();
  await first.stop();
  await superuser.query(`
    create schema watch; create table watch.commands (tag text);
    create function watch.note() returns event_trigger language plpgsql security definer as
      $$ begin insert into watch.commands values (tg_tag); end $$;
    create event trigger watch_commands on ddl_command_end execute function watch.note();
    create event trigger watch_drops on sql_drop execute function watch.note();`);
  const dump = new pg.Client({ connectionString: database.url });
  await dump.connect();
  try {
    await dump.query('begin');
    const { rows } = await dump.query<{ name: string }>(
      `select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema', 'watch')`,
    );
    expect(rows.length).toBeGreaterThan(10);
    await dump.query(`lock table ${rows.map(({ name }) => name).join(', ')} in access share mode`);
    const second = await start();
    await expect.poll(async () => (await fetch(`${second.url}/ready`)).status).toBe(200);
    expect((await superuser.query('select tag from watch.commands')).rows).toEqual([]);
    const stopped = second.stop();
    // No other client polls `/ready`.
    second.skipDrainDelay();
    await stopped;
  } finally {
    await dump.end();
  }
  // The watch works.
  await superuser.query('create table watch.more ()');
  expect((await superuser.query('select tag from watch.commands')).rows).toEqual([{ tag: 'CREATE TABLE' }]);
});
