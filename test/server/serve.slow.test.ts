// `svc serve`: refusals, serving without --migrate, environment files, and stopping.
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';
import { copyTodoProject, type TodoProject } from '../support/todo-project.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};

let project: TodoProject;
let database: TestDatabase;
let svc: SvcProcess | undefined;

beforeEach(async () => {
  project = copyTodoProject();
  database = await createDatabase();
});
afterEach(async () => {
  await svc?.stop();
  svc = undefined;
  await database.drop();
  project.remove();
});

test.each<[string, Record<string, string>, RegExp]>([
  ['without keys', {}, /SVC_PUBLISHABLE_KEY and SVC_SECRET_KEY are not set\n.*svc keys/],
  ['with one key', { SVC_SECRET_KEY: KEYS.SVC_SECRET_KEY }, /SVC_PUBLISHABLE_KEY is not set/],
  ['with an empty key', { ...KEYS, SVC_SECRET_KEY: '' }, /SVC_SECRET_KEY is not set/],
  ['with a short key', { ...KEYS, SVC_SECRET_KEY: 'svc_secret_short' }, /too short/],
  [
    'with keys of another product',
    { ...KEYS, SVC_SECRET_KEY: 'sb_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbb' },
    /must start with svc_secret_/,
  ],
  ['without a database', { ...KEYS }, /SVC_DATABASE_URL is not set/],
])('refuses to start %s', async (_what, env, message) => {
  const { code, output } = await runSvc(['serve', '--config', project.config], { env });
  expect(code).toBe(78);
  expect(output).toMatch(message);
  expect(output).not.toContain('svc_secret_short');
});

test('serves the existing schema and lists pending changes, and migrates with --migrate', async () => {
  const env = { ...KEYS, SVC_DATABASE_URL: database.url };
  svc = await startSvc({ command: 'serve', config: project.config, env });
  expect(svc.output()).toContain('Start with --migrate to apply pending changes');
  expect(svc.output()).toContain('tables.todos');
  expect(
    (await fetch(`${svc.url}/rest/v1/tips`, { headers: { apikey: KEYS.SVC_PUBLISHABLE_KEY } })).status,
  ).toBe(404);
  await svc.stop();

  svc = await startSvc({ command: 'serve', config: project.config, env, arguments: ['--migrate'] });
  expect(
    (await fetch(`${svc.url}/rest/v1/tips`, { headers: { apikey: KEYS.SVC_PUBLISHABLE_KEY } })).status,
  ).toBe(200);
});

test('as a container runs it: secrets from files, a log for people, and no word of the secrets', async () => {
  const write = (name: string, text: string): string => {
    writeFileSync(join(project.directory, name), `${text}\n`, { mode: 0o600 });
    return join(project.directory, name);
  };
  svc = await startSvc({
    command: 'serve',
    config: project.config,
    arguments: ['--migrate'],
    env: {
      SVC_PUBLISHABLE_KEY: KEYS.SVC_PUBLISHABLE_KEY,
      SVC_SECRET_KEY_FILE: write('secret', KEYS.SVC_SECRET_KEY),
      SVC_DATABASE_URL_FILE: write('database', database.url),
      SVC_LOG_FORMAT: 'pretty',
      SVC_SLOW_MS: '1',
    },
  });
  const ask = async (path: string): Promise<number> =>
    (await fetch(`${svc?.url}${path}`, { headers: { apikey: KEYS.SVC_SECRET_KEY } })).status;
  expect(await ask('/rest/v1/tips')).toBe(200);
  expect(await ask('/rest/v1/nothing')).toBe(404);
  await expect
    .poll(() => svc?.output())
    .toMatch(/INFO: 404 GET \/rest\/v1\/nothing PGRST205 [\d.]+ ms\n {4}→ /);
  expect(svc.output()).not.toContain('{"level"');
  expect(svc.output()).not.toContain(KEYS.SVC_SECRET_KEY);
  expect(svc.output()).not.toContain(database.url);
});

test('.production.env next to the file is loaded, and the environment overrides it', async () => {
  const fromFile = 'svc_publishable_from_the_file_aaaaaaaa';
  writeFileSync(
    join(project.directory, '.production.env'),
    `SVC_PUBLISHABLE_KEY=${fromFile}\nSVC_SECRET_KEY=${KEYS.SVC_SECRET_KEY}\n` +
      'SVC_DATABASE_URL=postgres://nobody@127.0.0.1:1/x\n',
  );
  svc = await startSvc({
    command: 'serve',
    config: project.config,
    env: { SVC_DATABASE_URL: database.url, SVC_PUBLISHABLE_KEY: undefined },
    arguments: ['--migrate'],
  });
  expect((await fetch(`${svc.url}/rest/v1/tips`, { headers: { apikey: fromFile } })).status).toBe(200);
  expect(
    (await fetch(`${svc.url}/rest/v1/tips`, { headers: { apikey: KEYS.SVC_PUBLISHABLE_KEY } })).status,
  ).toBe(401);
});

test('a configuration is read from a URL', async () => {
  const text =
    'version: 1\ntables:\n  things:\n    fields: [{ name: id, type: int, primary_key: true }]\n' +
    '    rls: [{ operations: [select], using: "true" }]\n';
  const server = createServer((_request, response) => response.end(text)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  try {
    svc = await startSvc({
      command: 'serve',
      config: `http://127.0.0.1:${port}/svc.yaml`,
      env: { ...KEYS, SVC_DATABASE_URL: database.url },
      arguments: ['--migrate'],
    });
    expect(
      (await fetch(`${svc.url}/rest/v1/things`, { headers: { apikey: KEYS.SVC_PUBLISHABLE_KEY } })).status,
    ).toBe(200);
  } finally {
    server.close();
  }
});

test('--strict refuses an open table; without it the table is named in a warning', async () => {
  const file = join(project.directory, 'open.yaml');
  writeFileSync(
    file,
    'version: 1\ntables: { open: { fields: [{ name: id, type: int, primary_key: true }] } }\n',
  );
  const env = { ...KEYS, SVC_DATABASE_URL: database.url };
  const strict = await runSvc(['serve', '--config', file, '--strict', '--migrate'], { env });
  expect(strict.code).toBe(78);
  expect(strict.output).toContain('the table open has no rls key');
  svc = await startSvc({ command: 'serve', config: file, env, arguments: ['--migrate'] });
  expect(svc.output()).toContain('the table open has no rls key');
});

test.each([
  [[], 'readonly'],
  [['--dashboard', 'off'], undefined],
  [['--dashboard', 'readonly'], 'readonly'],
  [['--dashboard', 'readwrite'], 'readwrite'],
])('with %j the dashboard is %s', async (options, mode) => {
  const env = { ...KEYS, SVC_DATABASE_URL: database.url };
  svc = await startSvc({ command: 'serve', config: project.config, env, arguments: options });
  const response = await fetch(`${svc.url}/dashboard/api/session`);
  expect(response.status).toBe(mode === undefined ? 404 : 200);
  if (mode !== undefined) expect(await response.json()).toMatchObject({ mode, localSignIn: false });
});

test('SIGTERM lets requests in flight finish before the process exits', async () => {
  const file = join(project.directory, 'slow.yaml');
  writeFileSync(
    file,
    'version: 1\nrpc: { slow: { language: sql, returns: { type: text }, body: "select \'done\' from pg_sleep(1)" } }\n',
  );
  svc = await startSvc({
    command: 'serve',
    config: file,
    env: { ...KEYS, SVC_DATABASE_URL: database.url },
    arguments: ['--migrate'],
  });
  const slow = fetch(`${svc.url}/rest/v1/rpc/slow`, {
    method: 'POST',
    headers: { apikey: KEYS.SVC_PUBLISHABLE_KEY, 'content-type': 'application/json' },
    body: '{}',
  });
  await expect.poll(() => busyStatements(database.url)).toBe(1);
  const stopped = svc.stop('SIGTERM');
  const response = await slow;
  expect(response.status).toBe(200);
  expect(await response.json()).toBe('done');
  expect(await stopped).toBe(0);
});

async function busyStatements(url: string): Promise<number> {
  const { Client } = (await import('pg')).default;
  const client = new Client(url);
  await client.connect();
  try {
    const { rows } = await client.query(
      `select count(*)::int as n from pg_stat_activity
        where datname = current_database() and state = 'active' and application_name ~ '^svc/[0-9a-f]+/request$'`,
    );
    return rows[0].n;
  } finally {
    await client.end();
  }
}

test('a start refused because of its functions changes no table', async () => {
  const text = readFileSync(project.config, 'utf8');
  writeFileSync(project.config, `${text}\nfunctions_bundle: gone.tgz#${'0'.repeat(64)}\n`);
  const { code, output } = await runSvc(['serve', '--migrate', '--config', project.config, '--port', '0'], {
    env: { ...KEYS, SVC_DATABASE_URL: database.url },
  });
  expect([code, output]).toEqual([78, expect.stringContaining('gone.tgz cannot be reached')]);
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  const { rows } = await client.query(`select to_regclass('public.tips') as tips`);
  await client.end();
  expect(rows).toEqual([{ tips: null }]);
});

test('SIGHUP applies keys that can change, and names the keys that need a restart', async () => {
  svc = await startSvc({
    command: 'serve',
    config: project.config,
    env: { ...KEYS, SVC_DATABASE_URL: database.url },
    arguments: ['--migrate'],
  });
  const text = readFileSync(project.config, 'utf8');
  const settings =
    'server:\n  max_body_size: 64B\n  timeouts: { db_query: 7s }\n' +
    'database: { pool: { max: 7, min: 1, idle_timeout: 5s } }\n';
  writeFileSync(project.config, `${text.replace(/^server:\n(?: .*\n|\n)*/m, '')}\n${settings}`);
  svc.child.kill('SIGHUP');
  await expect.poll(() => svc?.output()).toContain('"reloaded"');
  const line =
    svc
      .output()
      .split('\n')
      .find((line) => line.includes('restart the service to apply them')) ?? '{}';
  expect(JSON.parse(line)).toMatchObject({
    level: 'warn',
    keys: [
      'database.pool.max',
      'database.pool.min',
      'database.pool.idle_timeout',
      // Follows `max` if the file does not set it.
      'database.pool.queue',
      'server.timeouts.db_query',
    ],
  });
  const large = await fetch(`${svc.url}/rest/v1/tips`, {
    method: 'POST',
    headers: { apikey: KEYS.SVC_SECRET_KEY, 'content-type': 'application/json' },
    body: JSON.stringify({ body: 'x'.repeat(100) }),
  });
  expect(large.status).toBe(413);
});
