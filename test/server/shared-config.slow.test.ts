// `svc serve --config database`: instances in separate processes that share one configuration.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { LAUNCHER, NODE, runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const MAIL_KEY = 're_a_value_that_is_nowhere';
const file = (columns: readonly string[], more = ''): string => `version: 1
tables:
  notes:
    fields:
      - { name: id, type: int, primary_key: true }
${columns.map((name) => `      - { name: ${name}, type: text }`).join('\n')}
    rls: [{ operations: [select], using: 'true' }]
${more}`;
const WITH_MAIL =
  'providers: { email: { type: resend, api_key: "${MAIL_KEY}", default_from_email: a@example.com } }\n';

const folder = mkdtempSync(join(tmpdir(), 'svc-shared-'));
const path = join(folder, 'svc.yaml');
let database: TestDatabase;
const running: SvcProcess[] = [];

beforeAll(async () => {
  database = await createDatabase();
});
afterAll(async () => {
  await Promise.all(running.map((svc) => svc.stop()));
  await database.drop();
  rmSync(folder, { recursive: true, force: true });
});

const environment = (more: Record<string, string> = {}): Record<string, string> => ({
  ...KEYS,
  ...more,
  SVC_DATABASE_URL: database.url,
});
const config = (...args: string[]) => runSvc(['config', ...args], { env: environment(), cwd: folder });
async function push(text: string, ...args: string[]): Promise<{ code: number | null; output: string }> {
  writeFileSync(path, text);
  return await config('push', path, ...args);
}
async function serve(env: Record<string, string> = {}, ...args: string[]): Promise<SvcProcess> {
  const svc = await startSvc({
    command: 'serve',
    config: 'database',
    env: environment(env),
    arguments: ['--dashboard', 'readwrite', ...args],
  });
  running.push(svc);
  return svc;
}
async function sql(text: string): Promise<Array<Record<string, unknown>>> {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}
const rows = () => sql('select id::text, state, reason from svc_meta.config order by id');
const applied = async () =>
  (await sql(`select id::text from svc_meta.config where state = 'applied'`))[0]?.['id'];
/** Columns of the API, which are those of the file and the database. */
async function knows(svc: SvcProcess, column: string): Promise<boolean> {
  const response = await fetch(`${svc.url}/rest/v1/notes?select=${column}`, {
    headers: { apikey: KEYS.SVC_PUBLISHABLE_KEY },
  });
  await response.body?.cancel();
  return response.status === 200;
}
async function ready(svc: SvcProcess): Promise<unknown> {
  return await (await fetch(`${svc.url}/ready`, { headers: { apikey: KEYS.SVC_SECRET_KEY } })).json();
}
type Call = (
  method: string,
  path: string,
  body?: unknown,
) => Promise<{ status: number; json: Record<string, unknown> }>;
async function signIn({ url }: SvcProcess): Promise<Call> {
  const headers = { 'content-type': 'application/json', origin: url };
  const session = await fetch(`${url}/dashboard/api/session`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ secret_key: KEYS.SVC_SECRET_KEY }),
  });
  const cookie = session.headers.get('set-cookie')?.split(';')[0] ?? '';
  const { csrf } = (await session.json()) as { csrf: string };
  return async (method, where, body) => {
    const response = await fetch(`${url}/dashboard/api${where}`, {
      method,
      headers: { ...headers, cookie, 'x-svc-csrf': csrf },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return { status: response.status, json: (await response.json()) as Record<string, unknown> };
  };
}

test('a start without a configuration explains how to get one', async () => {
  const { code, output } = await runSvc(['serve', '--config', 'database', '--port', '0'], {
    env: environment(),
  });
  expect([code, output]).toEqual([78, expect.stringContaining('svc config push svc.yaml')]);
});

test('a file with mistakes, or one that needs source files, changes nothing', async () => {
  const wrong = await push('version: 1\ntables: { notes: { feilds: [] } }\n');
  expect([wrong.code, wrong.output]).toEqual([1, expect.stringContaining('feilds')]);
  const code = await push(file([], 'functions: { hello: { runtime: node, file: hello.js } }\n'));
  expect([code.code, code.output]).toEqual([1, expect.stringContaining('svc bundle')]);
  expect(await rows()).toEqual([]);
});

test('every compatible instance serves a pushed or saved file', async () => {
  expect(await push(file(['body']))).toMatchObject({ code: 0 });
  const same = await push(file(['body']));
  expect([same.code, same.output]).toEqual([0, expect.stringContaining('nothing to do')]);
  const [a, b] = await Promise.all([serve({ MAIL_KEY }), serve()]);
  expect(await knows(a, 'body')).toBe(true);

  // A push from somewhere else.
  const first = await applied();
  expect(await push(file(['body', 'title']), '--note', 'titles')).toMatchObject({ code: 0 });
  for (const svc of [a, b]) await expect.poll(() => knows(svc, 'title')).toBe(true);

  // A save in the dashboard of one.
  const [atA, atB] = [await signIn(a), await signIn(b)];
  const opened = await atB('GET', '/config');
  expect(opened.json).toMatchObject({
    editable: true,
    version: await applied(),
    text: file(['body', 'title']),
  });
  const version = opened.json['version'];
  const saved = await atB('POST', '/config/apply', { version, text: file(['body', 'title', 'stars']) });
  expect([saved.status, saved.json]).toEqual([
    200,
    expect.objectContaining({ pending: { kind: 'in-sync' } }),
  ]);
  expect(await knows(b, 'stars')).toBe(true);
  await expect.poll(() => knows(a, 'stars')).toBe(true);

  // Another one that was made from the same text.
  const stale = await atA('POST', '/config/apply', { version, text: file(['body', 'title', 'colour']) });
  expect([stale.status, stale.json]).toEqual([
    409,
    expect.objectContaining({
      code: 'file_changed',
      details: expect.stringMatching(/-.*stars[^]*\+.*colour/),
    }),
  ]);
  const behind = await push(file(['body', 'colour']), '--base', String(first));
  expect([behind.code, behind.output]).toEqual([
    1,
    expect.stringContaining('is served by now (by dashboard)'),
  ]);

  // One instance lacks a variable: it stays, and is named.
  const base = (await atA('GET', '/config')).json['version'];
  const withMail = await atA('POST', '/config/apply', {
    version: base,
    text: file(['body', 'title', 'stars'], WITH_MAIL),
  });
  expect(withMail.status).toBe(200);
  await expect
    .poll(() => ready(b))
    .toMatchObject({ degraded: [{ code: 'config_not_taken', reason: expect.stringContaining('MAIL_KEY') }] });
  expect((await fetch(`${b.url}/ready`)).status).toBe(200);
  expect(await knows(b, 'stars')).toBe(true);
  const status = await config('status');
  expect((await atA('GET', '/config')).json).toMatchObject({
    shared: [expect.stringMatching(/^1 of 2 instances serve/), expect.stringContaining('MAIL_KEY')],
  });
  expect(status.output).toMatch(/1 of 2 instances serve \d+\n.*serves \d+: .*MAIL_KEY/);

  // Values stay with the instances.
  const everything = await sql(`
    select query_to_xml('select * from svc_meta.' || quote_ident(relname), true, false, '')::text as text
    from pg_class where relnamespace = 'svc_meta'::regnamespace and relkind = 'r'`);
  expect(everything.length).toBeGreaterThan(4);
  expect(JSON.stringify(everything)).toContain('MAIL_KEY');
  expect(JSON.stringify(everything)).not.toContain(MAIL_KEY);

  // Back to one that everybody can serve.
  const back = await config('rollback', String(first));
  expect([back.code, back.output]).toEqual([0, expect.stringContaining('is applied')]);
  for (const svc of [a, b]) await expect.poll(() => knows(svc, 'stars')).toBe(false);
  await expect.poll(() => ready(b)).toMatchObject({ status: 'ready', degraded: [] });
  expect((await config('status')).output).toContain('2 of 2 instances serve');
  expect((await config('pull', 'pulled.yaml')).code).toBe(0);
  expect(readFileSync(join(folder, 'pulled.yaml'), 'utf8')).toBe(file(['body']));
  expect((await config('history')).output).toContain(`back to ${String(first)}`);
  writeFileSync(path, file(['body', 'title']));
  expect((await config('diff', path)).output).toContain('+       - { name: title, type: text }');
});

test('a killed push changes nothing, and the next push succeeds', async () => {
  const before = await applied();
  const blocker = new pg.Client({ connectionString: database.url });
  await blocker.connect();
  try {
    await blocker.query('begin');
    await blocker.query('lock table public.notes in access share mode');
    writeFileSync(path, file(['body', 'after_the_kill']));
    const child = spawn(NODE, [LAUNCHER, 'config', 'push', path], {
      env: { ...process.env, ...environment() },
      stdio: 'ignore',
    });
    await expect.poll(async () => (await rows()).some(({ state }) => state === 'proposed')).toBe(true);
    await expect
      .poll(async () => (await sql(`select 1 from pg_locks where not granted`)).length)
      .toBeGreaterThan(0);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await blocker.query('rollback');
    expect(await applied()).toBe(before);
  } finally {
    await blocker.end();
  }
  expect(await push(file(['body', 'after_the_kill']))).toMatchObject({ code: 0 });
  expect(await applied()).not.toBe(before);
  for (const svc of running) await expect.poll(() => knows(svc, 'after_the_kill')).toBe(true);
});

test('an empty database is seeded once, at its first start', async () => {
  const empty = await createDatabase();
  try {
    const env = { ...environment(), SVC_DATABASE_URL: empty.url };
    writeFileSync(path, file(['seeded']));
    const start = () =>
      startSvc({ command: 'serve', config: 'database', env, arguments: ['--initial-config', path] });
    const first = await start();
    expect(await knows(first, 'seeded')).toBe(true);
    await first.stop();
    writeFileSync(path, file(['other']));
    const second = await start();
    expect(await knows(second, 'seeded')).toBe(true);
    expect(await knows(second, 'other')).toBe(false);
    await second.stop();
  } finally {
    await empty.drop();
  }
});
