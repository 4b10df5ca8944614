// `svc deploy` against `svc receive`, both as real processes.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { freePort } from '../../src/lib/free-port.ts';
import { generateApiKeys } from '../../src/identity/api-key.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { processesBelow } from '../support/process-environment.ts';
import { runSvc } from '../support/svc-process.ts';
import { until } from './world.ts';
import { scaled } from '../support/run/scaled.ts';

vi.setConfig({ testTimeout: scaled(300_000), hookTimeout: scaled(300_000) });

const LAUNCHER = fileURLToPath(new URL('../../bin/svc.js', import.meta.url));
const TOKEN = 'a-deploy-token-that-only-tests-know';
const folder = mkdtempSync(join(tmpdir(), 'svc-deploy-'));
const laptop = join(folder, 'laptop');
const releases = join(folder, 'server');
const keys = generateApiKeys();
let database: TestDatabase;
let receiver: ChildProcess;
let port: number;
let output = '';

function write(files: Readonly<Record<string, string>>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(laptop, path)), { recursive: true });
    writeFileSync(join(laptop, path), content);
  }
}

async function startReceiver(): Promise<void> {
  receiver = spawn(
    process.execPath,
    [LAUNCHER, 'receive', '--dir', releases, '--port', String(port), '--host', '127.0.0.1'],
    {
      env: {
        PATH: process.env['PATH'],
        HOME: process.env['HOME'],
        SVC_DEPLOY_TOKEN: TOKEN,
        SVC_DATABASE_URL: database.url,
        SVC_PUBLISHABLE_KEY: keys.publishable,
        SVC_SECRET_KEY: keys.secret,
        SVC_ENV_PLACE: 'the-server-knows',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  for (const stream of [receiver.stdout, receiver.stderr]) {
    stream?.on('data', (chunk: Buffer) => (output += chunk.toString()));
  }
  await until(
    'the receiver listens',
    () =>
      fetch(url()).then(
        () => true,
        () => false,
      ),
    60_000,
  );
}

const url = (): string => `http://127.0.0.1:${port}`;
const deploy = (env: Record<string, string> = {}) =>
  runSvc(['deploy', '--config', join(laptop, 'svc.yaml'), '--to', url()], {
    env: { SVC_DEPLOY_TOKEN: TOKEN, ...env },
  });
const hello = async (): Promise<{ status: number; text: string }> => {
  const response = await fetch(`${url()}/functions/v1/hello`);
  return { status: response.status, text: await response.text() };
};

const keptFile = async (): Promise<string> =>
  await (await fetch(`${url()}/storage/v1/object/public/files/kept.txt`)).text();

const twice = async (n: number): Promise<unknown> => {
  const client = new pg.Client(database.url);
  await client.connect();
  try {
    return (await client.query<{ twice: number }>('select twice($1::int)', [n])).rows[0]?.twice;
  } finally {
    await client.end();
  }
};

beforeAll(async () => {
  database = await createDatabase();
  port = await freePort();
  write({
    'svc.yaml':
      '# my backend\nversion: 1\nproject: { name: demo }\nfunctions:\n' +
      '  hello: { runtime: node, file: functions/hello.js, env: { PLACE: "${SVC_ENV_PLACE}" } }\n' +
      'include: parts/*.yaml\nsql: sql/*.sql\n',
    // The upload is one file.
    'sql/app.sql': `create function twice(n int) returns int language sql as 'select n * 2';`,
    'parts/storage.yaml': 'storage: { files: { public: true } }\n',
    'functions/hello.js': "export default async (req, ctx) => ({ body: 'one ' + ctx.env.PLACE });",
    'functions/package.json': '{"type":"module"}',
    'functions/package-lock.json': '{"lockfileVersion":3,"requires":true,"packages":{"":{}}}',
    'functions/.env': 'SECRET=canary-never-uploaded',
    '.env': 'SVC_ENV_PLACE=the-laptop',
  });
  await startReceiver();
});
afterAll(async () => {
  if (receiver.exitCode === null) {
    receiver.kill('SIGTERM');
    await once(receiver, 'exit');
  }
  await database.drop();
  rmSync(folder, { recursive: true, force: true });
});

test('before the first deployment nothing is served, and the API requires its token', async () => {
  expect((await fetch(`${url()}/ready`)).status).toBe(503);
  const answer = await fetch(`${url()}/deploy/v1/projects`, { method: 'POST' });
  expect(answer.status).toBe(401);
  const wrong = await deploy({ SVC_DEPLOY_TOKEN: 'another-token-of-some-length' });
  expect(wrong.code).not.toBe(0);
  expect(wrong.output).toContain('token');
});

test('a failed first release leaves nothing behind, and no previous release is mentioned', async () => {
  const text = readFileSync(join(laptop, 'functions/hello.js'), 'utf8');
  write({ 'functions/hello.js': "throw new Error('not today');" });
  const { code, output: said } = await deploy();
  expect(code).toBe(1);
  expect(said).toContain('not today');
  expect(said).toContain('nothing is being served');
  expect(said).not.toContain('still live');
  expect((await hello()).status).toBe(503);
  write({ 'functions/hello.js': text });
});

test('a lockfile is required', async () => {
  const lockfile = join(laptop, 'functions/package-lock.json');
  const text = readFileSync(lockfile, 'utf8');
  rmSync(lockfile);
  const refused = await deploy();
  expect(refused.code).not.toBe(0);
  expect(refused.output).toContain('package-lock.json');
  writeFileSync(lockfile, text);
});

test('one command uploads, builds, starts and switches; the project id is written to the file', async () => {
  const done = await deploy();
  expect(done.output).toContain('is live');
  expect(done.code).toBe(0);
  expect(await hello()).toEqual({ status: 200, text: 'one the-server-knows' });
  expect(await twice(21)).toBe(42);
  const text = readFileSync(join(laptop, 'svc.yaml'), 'utf8');
  expect(text).toContain('# my backend');
  expect(text).toMatch(/project_id: "?prj_[0-9a-f]+/);
  expect(text).not.toContain('functions_bundle');
  const [release = ''] = readdirSync(join(releases, 'releases'));
  expect(existsSync(join(releases, 'releases', release, 'functions/.env'))).toBe(false);
  expect(existsSync(join(releases, 'releases', release, '.env'))).toBe(false);
});

test.runIf(process.platform === 'linux')(
  'neither the receiver nor a release shows the environment of the server to functions',
  () => {
    const processes = processesBelow(receiver.pid ?? 0);
    expect(processes.filter(({ command }) => command.includes(' serve '))).toHaveLength(1);
    for (const { command, environment } of processes) {
      for (const secret of [TOKEN, keys.secret, database.url, 'the-server-knows']) {
        expect(environment, command).not.toContain(secret);
      }
    }
  },
);

test('the next deployment replaces the release without losing a request', async () => {
  write({
    'functions/hello.js':
      "export default async (req, ctx) => ({ body: req.query.who ? ctx.clientAddress : 'two' });",
  });
  const load = { running: true };
  const seen: string[] = [];
  const callers = Array.from({ length: 4 }, async () => {
    while (load.running) {
      const { status, text } = await hello();
      seen.push(`${status} ${text}`);
    }
  });
  const done = await deploy();
  load.running = false;
  await Promise.all(callers);
  expect(done.code).toBe(0);
  expect([...new Set(seen)].sort((a, b) => a.localeCompare(b))).toEqual([
    '200 one the-server-knows',
    '200 two',
  ]);
});

test('files uploaded to one release are served by the next', async () => {
  const uploaded = await fetch(`${url()}/storage/v1/object/files/kept.txt`, {
    method: 'POST',
    headers: { apikey: keys.secret, authorization: `Bearer ${keys.secret}`, 'content-type': 'text/plain' },
    body: 'kept',
  });
  expect(uploaded.status).toBe(200);
  const done = await deploy();
  expect([done.code, done.output]).toEqual([0, expect.stringContaining('is live')]);
  expect(await keptFile()).toBe('kept');
  expect(existsSync(join(releases, 'data/.svc/storage'))).toBe(true);
});

test('a release accepts client addresses only from the receiver', async () => {
  const who = async (base: string, headers: Record<string, string>): Promise<string> =>
    await (await fetch(`${base}/functions/v1/hello?who=1`, { headers })).text();
  expect(await who(url(), {})).toBe('127.0.0.1');
  // Headers of a local proxy that terminates TLS.
  expect(await who(url(), { 'x-forwarded-for': '203.0.113.9' })).toBe('203.0.113.9');
  if (process.platform !== 'linux') return;
  const serving = (): string[] =>
    processesBelow(receiver.pid ?? 0)
      .map(({ command }) => command)
      .filter((command) => command.includes(' serve '));
  await until('the release before it has ended', () => serving().length === 1, 60_000);
  const own = /--port (\d+)/.exec(serving()[0] ?? '')?.[1];
  const forged = { 'x-forwarded-for': '203.0.113.9', 'x-svc-front': 'f'.repeat(64) };
  expect(await who(`http://127.0.0.1:${own}`, forged)).toBe('127.0.0.1');
});

test('a release that does not load or start never receives traffic', async () => {
  write({ 'functions/hello.js': "import './missing.js'; export default async () => ({ body: 'three' });" });
  const unloadable = await deploy();
  expect(unloadable.code).toBe(1);
  expect(unloadable.output).toContain('cannot be loaded');
  expect(unloadable.output).toContain('previous release is still live');
  expect((await hello()).text).toBe('two');

  const good = readFileSync(join(laptop, 'svc.yaml'), 'utf8');
  write({
    'functions/hello.js': "export default async () => ({ body: 'three' });",
    'svc.yaml': `${good}rpc:\n  broken: { language: sql, returns: { type: integer }, body: "select no_such_column" }\n`,
  });
  const unready = await deploy();
  expect(unready.code).toBe(1);
  expect((await hello()).text).toBe('two');
  write({ 'svc.yaml': good });
});

test('a release that dies during its probation is rolled back', async () => {
  // The handler kills its own service.
  write({
    'functions/hello.js':
      "export default async () => { process.kill(process.ppid, 'SIGKILL'); return { body: 'four' }; };",
  });
  const deploying = deploy();
  await until('it has the traffic', async () => (await hello()).text !== 'two', 60_000);
  const done = await deploying;
  expect(done.code).toBe(1);
  expect(done.output).toContain('back to release');
  expect((await hello()).text).toBe('two');
  write({ 'functions/hello.js': "export default async () => ({ body: 'two' });" });
});

test('the live release is started again after a restart of the server', async () => {
  receiver.kill('SIGTERM');
  await once(receiver, 'exit');
  expect(receiver.exitCode).toBe(0);
  // Layout of versions without a common directory.
  const { live } = JSON.parse(readFileSync(join(releases, 'state.json'), 'utf8')) as { live: string };
  mkdirSync(join(releases, 'releases', live, '.svc'), { recursive: true });
  renameSync(join(releases, 'data/.svc/storage'), join(releases, 'releases', live, '.svc/storage'));
  await startReceiver();
  await until('it serves again', async () => (await hello()).text === 'two', 60_000);
  expect(await keptFile()).toBe('kept');
});

test('a killed receiver stops its release, and the next receiver starts it again', async () => {
  const isThere = (pid: number): boolean => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  const below = processesBelow(receiver.pid ?? 0);
  const release = below.find(({ command }) => command.includes(' serve '));
  expect(release?.pid).toBeGreaterThan(0);
  // An unfinished upload is left too.
  writeFileSync(join(releases, 'releases', '20200101000000-left.tgz'), 'half');
  receiver.kill('SIGKILL');
  await once(receiver, 'exit');
  // Immediately, like a supervisor: the previous release may still be running.
  await startReceiver();
  await until('it serves again', async () => (await hello()).text === 'two', 60_000);
  expect(isThere(release?.pid ?? 0)).toBe(false);
  const serving = processesBelow(receiver.pid ?? 0).filter(({ command }) => command.includes(' serve '));
  expect(serving).toHaveLength(1);
  expect(readdirSync(join(releases, 'releases')).filter((name) => name.endsWith('.tgz'))).toEqual([]);
});

test('a release whose file has already been replaced by a newer one is a failed deployment', async () => {
  const newer = Date.now() + 3_600_000;
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query(
    `insert into svc_meta.run (kind, status, schema_hash, deploy_seq, engine_version, model, instance, backend_pid)
     values ('apply', 'done', 'c3d4e5f6', $1, 1, '{}', 'elsewhere', 0)`,
    [newer],
  );
  const text = readFileSync(join(laptop, 'svc.yaml'), 'utf8');
  write({
    'svc.yaml': `${text}tables: { late: { fields: [{ name: id, type: int, primary_key: true }], rls: [] } }\n`,
  });
  const { code, output: said } = await deploy();
  expect([code, said]).toEqual([1, expect.stringContaining('MIG-403')]);
  expect(said).toContain('The previous release is still live');
  expect((await hello()).text).toBe('two');
  // With a larger number, like a later build.
  await client.query(`delete from svc_meta.run where deploy_seq = $1`, [newer]);
  await client.end();
  expect(await deploy()).toMatchObject({ code: 0 });
  write({ 'svc.yaml': text });
});

test('no secret appears in the log', () => {
  expect(output).not.toContain(TOKEN);
  expect(output).not.toContain(keys.secret);
  expect(output).not.toContain('canary-never-uploaded');
});
