// The server enforces `--dashboard readonly`: every route that writes, and every write through an API, is rejected
// even with a valid session and CSRF token.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import {
  dashboardRoutes,
  startDashboardWorld,
  type DashboardWorld,
  type SignedIn,
} from '../../support/dashboard/dashboard-world.ts';

const FILE = `
version: 1
auth: { email: {} }
tables:
  notes:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: body, type: text }]
    rls: []
storage:
  docs: { public: false }
rpc:
  note: { language: sql, volatility: volatile, args: [{ name: body, type: text }], returns: { type: void },
    body: "insert into notes (body) values ($1)" }
  sneak: { language: plpgsql, volatility: stable, returns: { type: text },
    body: "begin insert into notes (body) values ('sneaked'); return 'done'; end" }
  number: { language: sql, volatility: stable, returns: { type: int }, body: "select 7" }
functions:
  hello: { runtime: node, file: functions/hello.js }
`;

let world: DashboardWorld;
let page: SignedIn;
beforeAll(async () => {
  world = await startDashboardWorld(FILE, {
    mode: 'readonly',
    files: { 'functions/hello.js': 'export default () => ({ status: 200, body: "ran" });' },
  });
  page = await world.signIn();
});
afterAll(async () => {
  await world.close();
});

test('every route that writes is refused', async () => {
  const writes = (await dashboardRoutes(world)).filter(({ access }) => access === 'write');
  expect(writes.length).toBeGreaterThan(1);
  const admitted: string[] = [];
  for (const { method, path } of writes) {
    const url = path.replace('/dashboard/api', '').replaceAll(/:\w+/g, 'hello');
    const { status, json } = await page.call(url, { method, body: {} });
    if (status !== 403 || json.code !== 'dashboard_read_only') admitted.push(`${method} ${path}: ${status}`);
  }
  expect(admitted).toEqual([]);
});

test.each<[string, string, unknown?]>([
  ['POST', '/rest/v1/notes', { body: 'x' }],
  ['PATCH', '/rest/v1/notes?id=eq.1', { body: 'x' }],
  ['PUT', '/rest/v1/notes?id=eq.1', { id: 1, body: 'x' }],
  ['DELETE', '/rest/v1/notes?id=gt.0'],
  ['POST', '/rest/v1/rpc/note', { body: 'x' }],
  ['POST', '/auth/v1/admin/users', { email: 'a@example.com' }],
  ['DELETE', '/auth/v1/admin/users/00000000-0000-0000-0000-000000000000'],
  ['POST', '/auth/v1/admin/generate_link', { type: 'magiclink', email: 'a@example.com' }],
  ['GET', '/auth/v1/verify?type=recovery&token=x'],
  ['GET', '/auth/v1/callback?code=x'],
  ['GET', '/auth/v1/authorize?provider=google'],
  ['GET', '/auth/v1/reauthenticate'],
  ['POST', '/storage/v1/object/docs/a.txt', 'x'],
  ['DELETE', '/storage/v1/object/docs/a.txt'],
  ['POST', '/storage/v1/object/sign/docs/a.txt', { expiresIn: 60 }],
  ['POST', '/storage/v1/object/move', {}],
  ['POST', '/storage/v1/object/list/docs/../../move', {}],
  ['POST', '/storage/v1/bucket', { name: 'x' }],
  ['POST', '/storage/v1/upload/resumable'],
  ['GET', '/functions/v1/hello'],
  ['POST', '/functions/v1/hello'],
  ['OPTIONS', '/functions/v1/hello'],
])('%s %s is refused for every caller', async (method, path, body) => {
  for (const caller of ['service', 'anon']) {
    const { status, json, text } = await page.call(`/as/${caller}${path}`, {
      method,
      ...(body === undefined ? {} : { body }),
    });
    expect([400, 403], text).toContain(status);
    expect(['dashboard_read_only', 'bad_path']).toContain(json.code);
  }
});

describe('reads are allowed', () => {
  test.each<[string, string, unknown?]>([
    ['GET', '/rest/v1/notes'],
    ['HEAD', '/rest/v1/notes'],
    ['GET', '/rest/v1/'],
    ['GET', '/rest/v1/rpc/number'],
    ['GET', '/auth/v1/admin/users'],
    ['GET', '/auth/v1/settings'],
    ['GET', '/storage/v1/bucket'],
    ['POST', '/storage/v1/object/list/docs', { prefix: '' }],
  ])('%s %s is allowed', async (method, path, body) => {
    const { status, text } = await page.call(`/as/service${path}`, {
      method,
      ...(body === undefined ? {} : { body }),
    });
    expect(status, text).toBe(200);
  });
});

test('a database function called by GET cannot write', async () => {
  for (const path of ['/rest/v1/rpc/note?body=x', '/rest/v1/rpc/sneak']) {
    const { status } = await page.call(`/as/service${path}`);
    expect(status, path).toBeGreaterThanOrEqual(400);
  }
  const rows = await world.owner.query(sql`select * from public.notes`);
  expect(rows).toEqual([]);
});
