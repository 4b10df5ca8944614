// Path confusion. The checked path is the served path; no path leads out of the page's folder, from one API into
// another, or past the read-only mode.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  startDashboardWorld,
  type DashboardWorld,
  type SignedIn,
} from '../../support/dashboard/dashboard-world.ts';

const FILE = `
version: 1
tables:
  notes:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: body, type: text }]
    rls: []
functions:
  hello: { runtime: node, file: functions/hello.js }
`;
const CANARY = 'outside of the folder of the page';

let folder: string;
let world: DashboardWorld;
let page: SignedIn;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-page-'));
  const built = join(folder, 'dashboard');
  mkdirSync(join(built, 'assets'), { recursive: true });
  writeFileSync(join(built, 'index.html'), '<title>the page</title>');
  writeFileSync(join(built, 'assets/main-1a2b.js'), 'the script');
  writeFileSync(join(folder, 'secret.txt'), CANARY);
  symlinkSync(join(folder, 'secret.txt'), join(built, 'assets/link.js'));
  world = await startDashboardWorld(FILE, {
    mode: 'readonly',
    pageDirectory: built,
    files: { 'functions/hello.js': 'export default () => ({ status: 200, body: "ran" });' },
  });
  page = await world.signIn();
});
afterAll(async () => {
  await world.close();
  rmSync(folder, { recursive: true, force: true });
});

test('a file is served under its own name', async () => {
  expect((await world.send('/dashboard/assets/main-1a2b.js')).text).toBe('the script');
});

test.each([
  '/dashboard/assets/../../secret.txt',
  '/dashboard/../secret.txt',
  '/dashboard/assets/%2e%2e/%2e%2e/secret.txt',
  '/dashboard/assets/..%2f..%2fsecret.txt',
  '/dashboard/assets/..%5c..%5csecret.txt',
  '/dashboard/assets/..\\..\\secret.txt',
  '/dashboard//assets/main-1a2b.js',
  '/dashboard/assets//main-1a2b.js',
  '/dashboard/assets/./main-1a2b.js',
  '/dashboard/assets/main-1a2b.js/',
  '/dashboard/assets/main-1a2b.js;x',
  '/dashboard/assets/main-1a2b.js%00.css',
  '/dashboard/assets/main-1a2b.js.',
  '/dashboard/assets/MAIN-1a2b.js',
  '/dashboard/ASSETS/../assets/main-1a2b.js',
  '/dashboard/assets/%6dain-1a2b.js',
  '/dashboard/assets%2fmain-1a2b.js',
  '/dashboard/assets/link.js',
  '/dashboard/assets/',
  '/dashboard/assets/index.html',
  '/dashboard/%2e%2e/%2e%2e/etc/passwd',
])('%s is not a file', async (path) => {
  const { status, text } = await world.send(path);
  expect(status).toBe(404);
  expect(text).not.toContain('the script');
  expect(text).not.toContain(CANARY);
});

test.each(['/dashboard/API/overview', '/dashboard/apis/overview', '/dashboard/api.json'])(
  '%s is the page and nothing of the API',
  async (path) => {
    const { status, text } = await world.send(path, { headers: { cookie: page.cookie } });
    expect(status).toBe(200);
    expect(text).toBe('<title>the page</title>');
  },
);

test.each([
  '/dashboard/%61pi/overview',
  '/dashboard/api/%6fverview',
  '/%64ashboard/api/overview',
  '/dashboard/api/overview/',
  '/dashboard/api/as/service/rest/v1/notes/',
])('%s needs a session in any spelling', async (path) => {
  expect((await world.send(path)).status).toBe(401);
});

describe('acting as a caller', () => {
  test('a plain path goes through', async () => {
    const { status, json } = await page.call('/as/service/rest/v1/notes');
    expect([status, json]).toEqual([200, []]);
  });

  test.each([
    '/as/service/rest/v1/../../functions/v1/hello',
    '/as/service/rest/v1/%2e%2e/%2e%2e/functions/v1/hello',
    '/as/service/rest/v1/..%2f..%2ffunctions%2fv1%2fhello',
    '/as/service/rest/v1/..\\..\\functions\\v1\\hello',
    '/as/service/rest/v1//notes',
    '/as/service/rest/v1/./notes',
    '/as/service/rest/v1/notes%00',
    '/as/service/rest/v2/notes',
    '/as/service/rest/v1x/notes',
    '/as/service/rest%2fv1/notes',
    '/as/service/%72est/v1/notes',
    '/as/service/%66unctions/v1/hello',
    '/as/service/dashboard/api/keys/secret',
    '/as/service/health',
    '/as/service//rest/v1/notes',
    '/as/../as/service/rest/v1/notes',
    '/as/SERVICE/rest/v1/notes',
    '/as/root/rest/v1/notes',
    '/as/service;anon/rest/v1/notes',
    '/as/user:1/rest/v1/notes',
    '/as/user:00000000-0000-0000-0000-00000000000g/rest/v1/notes',
    "/as/user:00000000-0000-0000-0000-000000000000'/rest/v1/notes",
    '/as/user:/rest/v1/notes',
    '/as//rest/v1/notes',
  ])('%s is refused', async (path) => {
    const { status, json, text } = await page.call(path);
    // The dashboard rejects the path before the API's router sees it.
    expect([status, json.code]).toEqual([400, 'bad_path']);
    expect(text).not.toContain('ran');
  });

  test('an unknown user is refused', async () => {
    const { status, json } = await page.call('/as/user:00000000-0000-0000-0000-000000000000/rest/v1/notes');
    expect([status, json.code]).toEqual([404, 'not_found']);
  });
});
