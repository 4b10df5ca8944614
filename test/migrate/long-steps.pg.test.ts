// Tests long steps that remain after an instance was killed or a connection was lost: instances that serve the same
// file continue them.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { migrator } from '../../src/cli/project/migrator.ts';
import { processTerminal } from '../../src/cli/terminal.ts';
import { silentLog } from '../../src/log/log.ts';
import { runSvc } from '../support/svc-process.ts';
import { parseConfig } from './parse-config.ts';
import { aWorld, type World } from './world.ts';

const CHILD = fileURLToPath(new URL('crash-child.ts', import.meta.url));

const FIELDS = `
migrations: { max_write_block: 1ms }
tables:
  people:
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: name, type: text }
      - { name: mail, type: text }
    rls: []
`;
const INDEXED = `${FIELDS}    indexes: [{ columns: [name] }, { columns: [mail] }]\n`;

let folder: string;
let world: World;
let reader: pg.Client;
let stopping: AbortController;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-long-steps-'));
});
afterAll(() => rm(folder, { recursive: true }));
beforeEach(async () => {
  world = await aWorld();
  await world.settle(FIELDS);
  await world.sql(
    `insert into people select n, 'name ' || n, 'mail ' || n from generate_series(1, 50000) n; analyze people`,
  );
  reader = new pg.Client(world.url);
  await reader.connect();
  stopping = new AbortController();
});
afterEach(async () => {
  stopping.abort();
  await reader.end();
  await world.close();
});

/** Blocks concurrent index builds, which wait for all older transactions, until `releaseBuilds`. */
async function blockBuilds(): Promise<void> {
  await reader.query('begin isolation level repeatable read');
  await reader.query('select from people');
}

async function releaseBuilds(): Promise<void> {
  await reader.query('commit');
}

/** Returns the backend pid of the running index build. */
async function builder(): Promise<number> {
  const building = `select pid from pg_stat_activity
    where query like 'create index concurrently%' and state = 'active' and datname = current_database()`;
  let pid: unknown;
  await expect.poll(async () => (pid = (await world.sql(building))[0]?.['pid'])).toBeTypeOf('number');
  return pid as number;
}

/** Does the same as a start of `svc serve --migrate`. Returns a function that does the same as a reload. */
async function serve(yaml: string): Promise<(yaml: string) => Promise<void>> {
  const migrate = migrator({
    mode: 'apply',
    instance: 'test',
    log: silentLog,
    terminal: processTerminal({}),
  });
  const reload = (next: string): Promise<void> => migrate(world.owner, parseConfig(next), stopping.signal);
  await reload(yaml);
  return reload;
}

async function expectDone(): Promise<void> {
  await expect.poll(() => world.sql(`select complete from svc_meta.stamp`)).toEqual([{ complete: true }]);
  expect(
    await world.sql(`select indexrelid::regclass::text as index, indisvalid as valid from pg_index
      where indrelid = 'people'::regclass and not indisprimary order by 1`),
  ).toEqual([
    { index: 'people_mail_idx', valid: true },
    { index: 'people_name_idx', valid: true },
  ]);
}

test('an instance that serves the same file continues the steps of a killed instance', async () => {
  const file = join(folder, 'indexed.yaml');
  await writeFile(file, INDEXED);
  await blockBuilds();
  const killed: ChildProcess = spawn(process.execPath, [CHILD, world.ownerUrl, file], { stdio: 'ignore' });
  const ended = once(killed, 'exit');
  await builder();
  await serve(INDEXED);
  killed.kill('SIGKILL');
  await ended;
  // PostgreSQL continues the build of the killed process and keeps its lock.
  await builder();
  await releaseBuilds();
  await expectDone();
});

test('a long step whose connection is lost is continued', async () => {
  await blockBuilds();
  await serve(INDEXED);
  const pid = await builder();
  await world.sql(`select pg_terminate_backend($1)`, [pid]);
  await expect.poll(() => world.sql(`select from pg_stat_activity where pid = $1`, [pid])).toEqual([]);
  await releaseBuilds();
  await expectDone();
});

test('a file that is refused at a reload does not stop the long steps of the served file', async () => {
  await blockBuilds();
  const reload = await serve(INDEXED);
  const pid = await builder();
  await world.sql(`select pg_terminate_backend($1)`, [pid]);
  await expect.poll(() => world.sql(`select from pg_stat_activity where pid = $1`, [pid])).toEqual([]);
  await expect(reload(INDEXED.replace('name: mail, type: text', 'name: mail, type: uuid'))).rejects.toThrow(
    'The change was refused',
  );
  await releaseBuilds();
  await expectDone();
});

test('svc migrate apply reports that another instance is working', async () => {
  const config = join(folder, 'svc.yaml');
  await writeFile(config, `version: 1${INDEXED}`);
  await blockBuilds();
  await serve(INDEXED);
  await builder();
  const env = { SVC_DATABASE_URL: world.url };
  const { code, output } = await runSvc(['migrate', 'apply', '--config', config], { env });
  expect(output).toContain('MIG-402 another instance is still running the long steps of this migration');
  expect(code).toBe(5);
  await releaseBuilds();
  await expectDone();
  expect(await runSvc(['migrate', 'apply', '--config', config], { env })).toMatchObject({ code: 0 });
});
