// `svc dev` watches svc.yaml: a valid change is served, an invalid one is reported and changes nothing.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase } from '../support/database.ts';
import { scaled } from '../support/run/scaled.ts';
import { freePort } from '../../src/lib/free-port.ts';
import { LAUNCHER, NODE, runSvc, startSvc } from '../support/svc-process.ts';
import { copyTodoProject, startTodoServer, type TodoServer } from '../support/todo-project.ts';

/** Adds a table to the file. */
const NOTICES =
  '  notices:\n    fields: [{ name: id, type: bigserial, primary_key: true }]\n' +
  '    rls: [{ operations: [select], using: "true" }]\n';

let svc: TodoServer;

beforeAll(async () => {
  svc = await startTodoServer();
});
afterAll(async () => {
  await svc?.stop();
});

const get = (path: string): Promise<Response> =>
  fetch(`${svc.url}${path}`, { headers: { apikey: svc.publishableKey } });

function edit(change: (text: string) => string): void {
  writeFileSync(svc.config, change(readFileSync(svc.config, 'utf8')));
}

test('the first start prints its progress, the addresses, and a request that works', async () => {
  expect(svc.output()).toContain('creating a database in .svc');
  const [, url = '', key = ''] = /curl '(\S+)' -H 'apikey: (\S+)'/.exec(svc.output()) ?? [];
  const response = await fetch(url, { headers: { apikey: key } });
  // The example has a function that adds 1 to its argument.
  expect([response.status, await response.text()]).toEqual([200, '2']);
  const page = await fetch(`${svc.url}/`, { headers: { accept: 'text/html' } });
  expect([page.status, page.headers.get('content-type')]).toEqual([
    200,
    expect.stringContaining('text/html'),
  ]);
});

test.each([
  ['lines for a person', undefined],
  ['JSON lines', 'json'],
])('without a terminal stdout has %s only', async (_what, format) => {
  const database = await createDatabase();
  const project = copyTodoProject();
  const port = await freePort();
  const streams = { stdout: '', stderr: '' };
  const child = spawn(NODE, [LAUNCHER, 'dev', '--config', project.config, '--port', String(port)], {
    env: {
      PATH: process.env['PATH'],
      SVC_DATABASE_URL: database.url,
      ...(format === undefined ? {} : { SVC_LOG_FORMAT: format }),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  try {
    for (const name of ['stdout', 'stderr'] as const)
      child[name].on('data', (chunk: Buffer) => (streams[name] += chunk.toString()));
    await expect.poll(() => streams.stdout + streams.stderr, { timeout: scaled(60_000) }).toContain('Try it');
    await fetch(`http://localhost:${port}/nothing`);
    child.kill('SIGTERM');
    await once(child, 'close');
    const isJson = (line: string): boolean => line.startsWith('{');
    const lines = streams.stdout.split('\n').filter((line) => line !== '');
    expect(lines.length).toBeGreaterThan(0);
    expect(lines.map(isJson)).toEqual(lines.map(() => format === 'json'));
    expect(streams.stderr.split('\n').filter(isJson)).toEqual([]);
  } finally {
    child.kill('SIGKILL');
    project.remove();
    await database.drop();
  }
});

test.each([
  ['application/json', 404, null],
  ['*/*', 404, null],
  [undefined, 404, null],
  ['text/html,application/xhtml+xml,*/*;q=0.8', 302, '/dashboard/'],
])('GET / with Accept %s answers %i', async (accept, status, location) => {
  const answer = await fetch(`${svc.url}/`, { headers: accept ? { accept } : {}, redirect: 'manual' });
  expect([answer.status, answer.headers.get('location')]).toEqual([status, location]);
  if (status === 404) expect(await answer.json()).toMatchObject({ code: 'not_found' });
});

test('a port in use is reported before anything is created', async () => {
  const project = copyTodoProject();
  try {
    const second = await runSvc(['dev', '--config', project.config, '--port', new URL(svc.url).port]);
    expect(second.code).toBe(78);
    expect(second.output).toContain('is already in use');
    expect(['.svc', '.env'].filter((name) => existsSync(join(project.directory, name)))).toEqual([]);
  } finally {
    project.remove();
  }
});

test.each([
  ['/nothing', 'not_found'],
  ['/rest/v1/nothing', 'PGRST205'],
  ['/auth/v1/user', 'no_authorization'],
  ['/storage/v1/object/nothing/a', 'NoSuchBucket'],
  ['/storage/v1/s3/nothing/a', 'NotImplemented'],
  ['/functions/v1/nothing', 'function_not_found'],
  ['/dashboard/api/nothing', 'dashboard_signed_out'],
])('the log contains the reason why %s was refused', async (path, code) => {
  const id = `why${path.replaceAll('/', '.')}`;
  await fetch(`${svc.url}${path}`, { headers: { apikey: svc.publishableKey, 'x-request-id': id } });
  const lines = (): string[] =>
    svc
      .output()
      .split('\n')
      .filter((line) => line.includes(`"${id}"`));
  await expect.poll(lines).toEqual([expect.stringContaining(`"code":"${code}"`)]);
});

test('a new column and a new table appear without a restart, and no request fails in the meantime', async () => {
  const seen = { failures: 0, done: false };
  const watching = (async () => {
    while (!seen.done) {
      const response = await get('/rest/v1/tips?select=body');
      if (!response.ok) seen.failures += 1;
    }
  })();
  edit((text) =>
    text
      .replace(
        '      - { name: body, type: text, required: true, unique: true }\n',
        '      - { name: body, type: text, required: true, unique: true }\n' +
          '      - { name: stars, type: integer, default: 3 }\n',
      )
      .replace('storage:\n', `${NOTICES}\nstorage:\n`),
  );
  await expect.poll(async () => (await get('/rest/v1/tips?select=stars')).status).toBe(200);
  await expect.poll(async () => (await get('/rest/v1/notices')).status).toBe(200);
  seen.done = true;
  await watching;
  expect(seen.failures).toBe(0);
  await expect.poll(() => svc.output()).toContain('reloaded');
  // The database changes are printed once, as a list.
  expect(svc.output().match(/tables\.notices: table notices/g)).toHaveLength(1);
  expect(svc.output()).not.toContain('migrated');
});

test('mistakes in the file are reported with their line, and the last valid file stays in service', async () => {
  const good = readFileSync(svc.config, 'utf8');
  edit((text) => text.replace('on_delete: cascade } }', 'on_delete: cascde } }'));
  await expect.poll(() => svc.output()).toContain('Did you mean cascade?');
  expect(svc.output()).toMatch(/svc\.yaml:\d+:\d+ error tables\.lists\.fields\[1\]\.foreign_key\.on_delete/);
  expect((await get('/rest/v1/tips?select=body')).status).toBe(200);
  writeFileSync(svc.config, good);
  await expect.poll(() => svc.output().match(/reloaded/g)?.length ?? 0).toBeGreaterThan(1);
});

test('a change that the database refuses leaves the served file and the database unchanged', async () => {
  const service = { apikey: svc.secretKey, 'content-type': 'application/json' };
  const inserted = await fetch(`${svc.url}/rest/v1/tips`, {
    method: 'POST',
    headers: service,
    body: JSON.stringify({ body: 'keep me', stars: null }),
  });
  expect(inserted.status).toBe(201);
  const good = readFileSync(svc.config, 'utf8');
  edit((text) =>
    text.replace(
      '{ name: stars, type: integer, default: 3 }',
      '{ name: stars, type: integer, required: true }',
    ),
  );
  await expect.poll(() => svc.output()).toContain('MIG-201');
  expect((await get('/rest/v1/tips?select=stars')).status).toBe(200);
  writeFileSync(svc.config, good);
});

test('the dashboard is at the address in the banner, and needs no key on this machine', async () => {
  expect(svc.output()).toMatch(/dashboard +http:\/\/localhost:\d+\/dashboard\n/);
  const api = `${svc.url}/dashboard/api`;
  const signedIn = await fetch(`${api}/session/local`, {
    method: 'POST',
    headers: { origin: new URL(svc.url).origin },
  });
  expect(await signedIn.json()).toMatchObject({ signedIn: true, mode: 'readwrite', project: { dev: true } });
  const cookie = signedIn.headers.getSetCookie()[0]?.split(';')[0] ?? '';
  const logs = await fetch(`${api}/logs?source=request`, { headers: { cookie } });
  expect(await logs.text()).toContain('POST /dashboard/api/session/local');
});

test('a change during the start is served after the start', async () => {
  const database = await createDatabase();
  const project = copyTodoProject();
  const holder = new pg.Client(database.url);
  try {
    await holder.connect();
    // Holds the provisioning lock: the start waits for it after it has read the file.
    await holder.query('select pg_advisory_lock(7566947, 1)');
    const starting = startSvc({
      command: 'dev',
      config: project.config,
      env: { SVC_DATABASE_URL: database.url },
    });
    await expect
      .poll(async () => {
        const waiting = `select from pg_stat_activity where datname = $1 and application_name = 'svc-provision'
          and query like '%pg_try_advisory_lock%'`;
        return (await holder.query(waiting, [database.name])).rowCount;
      })
      .toBe(1);
    const before = readFileSync(project.config, 'utf8');
    writeFileSync(project.config, before.replace('storage:\n', `${NOTICES}\nstorage:\n`));
    await holder.end();
    const started = await starting;
    try {
      await expect
        .poll(async () => {
          const headers = { apikey: started.publishableKey };
          return (await fetch(`${started.url}/rest/v1/notices`, { headers })).status;
        })
        .toBe(200);
    } finally {
      await started.stop();
    }
  } finally {
    await holder.end();
    project.remove();
    await database.drop();
  }
});
