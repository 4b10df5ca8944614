// Changes that the dashboard writes are served: by `svc dev` through its watcher, by `svc serve` immediately.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ConfigApplied, ConfigFile } from '../../src/dashboard-api/contract.ts';
import { provisionAt } from '../support/provision.ts';
import { createDatabase, templateDatabase, type TestDatabase } from '../support/database.ts';
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
  database = await createDatabase({
    template: await templateDatabase('provisioned', async (url) => void (await provisionAt(url))),
  });
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

test('svc dev reloads a replaced file like an edited one', async () => {
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
  // The watcher must also see the next change after the file was replaced.
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

test('svc serve reloads before it answers, and migrates with --migrate', async () => {
  svc = await serve('--migrate', '--dashboard', 'readwrite');
  const applied = await apply(await signIn(svc));
  expect(applied.pending).toEqual({ kind: 'in-sync' });
  expect(await readsStars(svc)).toBe(200);
});

test('svc serve without --migrate reloads, and lists the pending migration steps', async () => {
  svc = await serve('--dashboard', 'readwrite');
  const { pending } = await apply(await signIn(svc));
  expect(pending).toMatchObject({
    kind: 'pending',
    steps: expect.arrayContaining([expect.stringContaining('tables.tips')]) as string[],
  });
  expect(await readsStars(svc)).toBe(404);
});

test('a read-only dashboard can plan a change but not apply it', async () => {
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

const hello = async ({ url }: SvcProcess, name: string): Promise<[number, string]> => {
  const answer = await fetch(`${url}/functions/v1/${name}`);
  return [answer.status, await answer.text()];
};

test('svc serve runs a function created on the page, and its source as saved', async () => {
  svc = await serve('--migrate', '--dashboard', 'readwrite');
  const call = await signIn(svc);
  const made = await call('POST', '/functions', { name: 'greet', language: 'js', authRequired: false });
  expect([made.status, await made.json()]).toEqual([
    201,
    expect.objectContaining({
      loaded: true,
      error: null,
      files: expect.arrayContaining(['functions/greet.js']),
    }),
  ]);
  expect(await hello(svc, 'greet')).toEqual([200, '{"message":"Hello"}']);

  const save = async (
    text: string,
  ): Promise<[number, { loaded?: boolean; error?: string | null; code?: string }]> => {
    const { version } = (await (await call('GET', '/functions/greet/source')).json()) as { version: string };
    const answer = await call('PUT', '/functions/greet/source', { text, version });
    return [answer.status, (await answer.json()) as { loaded: boolean; error: string | null }];
  };
  expect(await save('export default async () => ({ body: "second" });')).toMatchObject([
    200,
    { loaded: true, error: null },
  ]);
  expect(await hello(svc, 'greet')).toEqual([200, 'second']);
  // A source that does not parse or load is reverted, and the previous version is served.
  const invalid = await save('export default async () => (;');
  expect(invalid).toMatchObject([
    422,
    { code: 'function_syntax_error', details: expect.stringMatching(/^functions\/greet\.js: line 1: /) },
  ]);
  const failing = await save('\nthrow new Error("not today");\nexport default () => ({});');
  expect(failing).toMatchObject([
    422,
    { code: 'function_not_loaded', details: expect.stringMatching(/greet\.js:2:\d+/) },
  ]);
  expect(await hello(svc, 'greet')).toEqual([200, 'second']);
  // A source that a start would reject is not written.
  const [refused, { code }] = await save('export default async (req, ctx) => ctx.serviceClient;');
  expect([refused, code]).toEqual([422, 'service_client_in_public_function']);
  expect(readFileSync(join(project.directory, 'functions/greet.js'), 'utf8')).toContain('second');
});

test('a change of the file that names a missing handler is refused before it is written', async () => {
  svc = await serve('--migrate', '--dashboard', 'readwrite');
  const call = await signIn(svc);
  const { version, text } = (await (await call('GET', '/config')).json()) as ConfigFile;
  const edits = [
    { kind: 'set', path: ['functions', 'gone'], value: { runtime: 'node', file: 'functions/gone.js' } },
    ...ADD_STARS,
  ];
  const answer = await call('POST', '/config/apply', { version, edits });
  expect(answer.status).toBe(422);
  expect(readFileSync(project.config, 'utf8')).toBe(text);
  expect(await readsStars(svc)).toBe(400);
});

test('a change of the file that names a handler with a syntax error is refused with its line', async () => {
  svc = await serve('--migrate', '--dashboard', 'readwrite');
  const call = await signIn(svc);
  writeFileSync(join(project.directory, 'functions/invalid.js'), '\nexport default () => (;');
  const { version, text } = (await (await call('GET', '/config')).json()) as ConfigFile;
  const value = { runtime: 'node', file: 'functions/invalid.js' };
  const edits = [{ kind: 'set', path: ['functions', 'invalid'], value }];
  const answer = await call('POST', '/config/apply', { version, edits });
  expect([answer.status, await answer.text()]).toEqual([
    422,
    expect.stringContaining('functions/invalid.js: line 2: '),
  ]);
  expect(readFileSync(project.config, 'utf8')).toBe(text);
});

test('with a second instance on the same database no file is changed', async () => {
  svc = await serve('--migrate', '--dashboard', 'readwrite');
  const call = await signIn(svc);
  const { version, text, editable } = (await (await call('GET', '/config')).json()) as ConfigFile;
  expect(editable).toBe(true);
  const secondInstance = await serve('--dashboard', 'off');
  try {
    expect(await (await call('GET', '/config')).json()).toMatchObject({ editable: false, instances: 2 });
    expect(await (await call('GET', '/functions')).json()).toMatchObject({
      readable: true,
      editable: false,
      instances: 2,
    });
    const { version: source } = (await (await call('GET', '/functions/hello/source')).json()) as {
      version: string;
    };
    for (const [method, path, body] of [
      ['POST', '/config/apply', { version, edits: ADD_STARS }],
      ['POST', '/functions', { name: 'greet', language: 'js', authRequired: false }],
      ['PUT', '/functions/hello/source', { text: 'export default () => ({});', version: source }],
    ] as const) {
      const refused = await call(method, path, body);
      expect([refused.status, await refused.json()]).toEqual([
        409,
        expect.objectContaining({
          code: 'not_alone',
          message: expect.stringMatching(/[0-9a-f]{8} would not see the change/),
        }),
      ]);
    }
    expect(readFileSync(project.config, 'utf8')).toBe(text);
  } finally {
    await secondInstance.stop();
  }
  // Back to a single instance.
  await expect
    .poll(async () => ((await (await call('GET', '/config')).json()) as ConfigFile).editable)
    .toBe(true);
  await apply(call);
});
