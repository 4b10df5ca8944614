// What the dashboard writes into svc.yaml is served: by `svc dev` through its watcher, by `svc serve` at once.
import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ConfigApplied, ConfigFile } from '../../src/dashboard-api/contract.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { startSvc, type SvcProcess } from '../support/svc-process.ts';
import { copyTodoProject, type TodoProject } from '../support/todo-project.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const ADD_STARS = [
  {
    kind: 'append',
    path: ['tables', 'tips', 'fields'],
    value: { name: 'stars', type: 'integer', default: 3 },
  },
];

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

type Call = (method: string, path: string, body?: unknown) => Promise<Response>;

async function signIn({ url, secretKey }: SvcProcess): Promise<Call> {
  const headers = { origin: url, 'content-type': 'application/json' };
  const signedIn = await fetch(`${url}/dashboard/api/session`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ secret_key: secretKey }),
  });
  const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? '';
  const { csrf } = (await signedIn.json()) as { csrf: string };
  return (method, path, body) =>
    fetch(`${url}/dashboard/api${path}`, {
      method,
      headers: { ...headers, cookie, 'x-svc-csrf': csrf },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
}

async function apply(call: Call): Promise<ConfigApplied> {
  const { version } = (await (await call('GET', '/config')).json()) as ConfigFile;
  const answer = await call('POST', '/config/apply', { version, edits: ADD_STARS });
  expect(answer.status).toBe(200);
  return (await answer.json()) as ConfigApplied;
}

const readsStars = async ({ url, publishableKey }: SvcProcess): Promise<number> =>
  (await fetch(`${url}/rest/v1/tips?select=stars`, { headers: { apikey: publishableKey } })).status;

test('svc dev takes a file that was replaced as it takes one that was edited', async () => {
  svc = await startSvc({
    command: 'dev',
    config: project.config,
    env: { SVC_DATABASE_URL: database.url },
  });
  const call = await signIn(svc);
  const { text, pending } = await apply(call);
  expect(pending).toBeNull();
  expect(readFileSync(project.config, 'utf8')).toBe(text);
  await expect.poll(async () => await readsStars(svc as SvcProcess)).toBe(200);
  // And the next change of the file, too: the watcher has not lost it with the replaced one.
  const reloads = svc.output().match(/reloaded/g)?.length ?? 0;
  const { version } = (await (await call('GET', '/config')).json()) as ConfigFile;
  const again = await call('POST', '/config/apply', {
    version,
    edits: [{ kind: 'set', path: ['project', 'name'], value: 'Another' }],
  });
  expect(again.status).toBe(200);
  await expect.poll(() => svc?.output().match(/reloaded/g)?.length ?? 0).toBeGreaterThan(reloads);
});

const serve = (...flags: string[]): Promise<SvcProcess> =>
  startSvc({
    command: 'serve',
    config: project.config,
    env: { ...KEYS, SVC_DATABASE_URL: database.url },
    arguments: flags,
  });

test('svc serve takes it before it answers, and migrates as it was told to', async () => {
  svc = await serve('--migrate', '--dashboard', 'readwrite');
  const applied = await apply(await signIn(svc));
  expect(applied.pending).toEqual({ kind: 'in-sync' });
  expect(await readsStars(svc)).toBe(200);
});

test('svc serve without --migrate takes it, and says what the database lacks', async () => {
  svc = await serve('--dashboard', 'readwrite');
  const { pending } = await apply(await signIn(svc));
  expect(pending).toMatchObject({
    kind: 'pending',
    steps: expect.arrayContaining([expect.stringContaining('tables.tips')]) as string[],
  });
  expect(await readsStars(svc)).toBe(404);
});

test('a dashboard to look at plans a change and does not make it', async () => {
  svc = await serve('--dashboard', 'readonly');
  const call = await signIn(svc);
  const { text, version } = (await (await call('GET', '/config')).json()) as ConfigFile;
  const change = { version, edits: [{ kind: 'delete', path: ['tables', 'tips'] }] };
  expect((await call('POST', '/config/plan', change)).status).toBe(200);
  for (const [method, path] of [
    ['POST', '/config/apply'],
    ['DELETE', '/users/11111111-1111-4111-8111-111111111111/sessions'],
    ['DELETE', '/users/11111111-1111-4111-8111-111111111111/sessions/22222222-2222-4222-8222-222222222222'],
  ] as const) {
    const refused = await call(method, path, change);
    const { code } = (await refused.json()) as { code: string };
    expect([refused.status, code]).toEqual([403, 'dashboard_read_only']);
  }
  expect(readFileSync(project.config, 'utf8')).toBe(text);
});
