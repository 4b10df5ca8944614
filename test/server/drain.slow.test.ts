// A shutdown as a load balancer sees it: `/ready` reports it before the port closes.
import { once } from 'node:events';
import { writeFileSync, readFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { spawn } from 'node:child_process';
import { freePort } from '../../src/lib/free-port.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { LAUNCHER, NODE, startSvc, type SvcProcess } from '../support/svc-process.ts';
import { copyTodoProject, type TodoProject } from '../support/todo-project.ts';
import { scaled } from '../support/run/scaled.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};

let database: TestDatabase;
let project: TodoProject;
let svc: SvcProcess | undefined;
// Each project has its database, because a database records the directory of its files.
beforeEach(async () => {
  database = await createDatabase();
  project = copyTodoProject();
});
afterEach(async () => {
  await svc?.stop('SIGKILL');
  svc = undefined;
  project.remove();
  await database.drop();
});

async function start(server: string): Promise<SvcProcess> {
  const text = readFileSync(project.config, 'utf8');
  writeFileSync(project.config, `${text.replace(/^server:\n(?: .*\n|\n)*/m, '')}\nserver: ${server}\n`);
  const env = { ...KEYS, SVC_DATABASE_URL: database.url };
  return (svc = await startSvc({ command: 'serve', config: project.config, env, arguments: ['--migrate'] }));
}

const fetchStatus = (url: string): Promise<number | 'refused'> =>
  fetch(url).then(
    (response) => response.status,
    () => 'refused' as const,
  );
const tips = (url: string): Promise<Response> =>
  fetch(`${url}/rest/v1/tips`, { headers: { apikey: KEYS.SVC_PUBLISHABLE_KEY } });

test('the port stays open for the delay after /ready returns 503, and responses close their connections', async () => {
  const { url, child } = await start('{ timeouts: { drain_delay: 2s } }');
  const before = await tips(url);
  expect([before.status, before.headers.get('keep-alive')]).toEqual([200, 'timeout=75']);
  expect(await fetchStatus(`${url}/ready`)).toBe(200);
  const exit = once(child, 'exit');
  const startedAt = performance.now();
  child.kill('SIGTERM');
  await expect.poll(() => fetchStatus(`${url}/ready`), { interval: 10 }).toBe(503);
  const answers: string[] = [];
  const isRefused = async (): Promise<boolean> => {
    const answer = await tips(url).catch(() => undefined);
    if (answer) answers.push(`${answer.status} ${answer.headers.get('connection')}`);
    return !answer;
  };
  await expect.poll(isRefused, { interval: 50 }).toBe(true);
  expect(performance.now() - startedAt).toBeGreaterThan(1_900);
  expect(new Set(answers)).toEqual(new Set(['200 close']));
  expect(await exit).toEqual([0, null]);
});

test('there is no delay if no client polls /ready', async () => {
  const { child, ...started } = await start('{ timeouts: { drain_delay: 1h } }');
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  expect(await exit).toEqual([0, null]);
  expect(started.output()).not.toContain('waiting until balancers');
});

test('a second signal ends the delay, and the shutdown remains graceful', async () => {
  const { url, child, ...started } = await start('{ timeouts: { drain_delay: 1h } }');
  expect(await fetchStatus(`${url}/ready`)).toBe(200);
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  await expect.poll(() => started.output()).toContain('waiting until balancers');
  expect(await fetchStatus(`${url}/ready`)).toBe(503);
  child.kill('SIGTERM');
  expect(await exit).toEqual([0, null]);
  expect(started.output()).toContain('"stopped"');
});

test('with listen_early: false the port opens when the service is ready', async () => {
  const fresh = await createDatabase();
  const port = await freePort();
  writeFileSync(
    project.config,
    `${readFileSync(project.config, 'utf8').replace(/^server:\n(?: .*\n|\n)*/m, '')}\n` +
      'server: { listen_early: false }\n',
  );
  const child = spawn(
    NODE,
    [LAUNCHER, 'serve', '--migrate', '--config', project.config, '--port', String(port)],
    {
      env: { ...process.env, ...KEYS, SVC_DATABASE_URL: fresh.url },
      stdio: 'ignore',
    },
  );
  try {
    const seen = new Set<number | 'refused'>();
    const ready = async (): Promise<number | 'refused'> => {
      const status = await fetchStatus(`http://127.0.0.1:${port}/ready`);
      seen.add(status);
      return status;
    };
    await expect.poll(ready, { interval: 50, timeout: scaled(50_000) }).toBe(200);
    expect(seen).toEqual(new Set(['refused', 200]));
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
    await fresh.drop();
  }
});
