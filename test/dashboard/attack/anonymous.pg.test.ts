// Missing authentication: every route of the dashboard's route table without credentials, and sign-in without a key
// by clients that only appear to be on this machine.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  dashboardRoutes,
  startDashboardWorld,
  type DashboardWorld,
} from '../../support/dashboard/dashboard-world.ts';

const FILE = `
version: 1
tables:
  notes:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: body, type: text }]
    rls: []
`;

let world: DashboardWorld;
let dev: DashboardWorld;
beforeAll(async () => {
  world = await startDashboardWorld(FILE);
  dev = await startDashboardWorld(FILE, { dev: true });
});
afterAll(async () => {
  await world.close();
  await dev.close();
});

const filled = (path: string): string =>
  path.replaceAll(/:\w+/g, 'x').replace('/as/*', '/as/service/rest/v1/notes').replace('*', 'x');

const PUBLIC = [
  'GET /dashboard',
  'GET /dashboard/',
  'GET /dashboard/*',
  'HEAD /dashboard',
  'HEAD /dashboard/',
  'HEAD /dashboard/*',
  'GET /dashboard/api/session',
  'HEAD /dashboard/api/session',
  'POST /dashboard/api/session',
  'POST /dashboard/api/session/local',
];

test('only the page and signing in are public', async () => {
  const open = (await dashboardRoutes(world)).filter(({ access }) => access === 'public');
  const names = open.map(({ method, path }) => `${method} ${path}`);
  expect(names.filter((name) => !PUBLIC.includes(name))).toEqual([]);
});

test('every other route answers 401 without a session', async () => {
  const closed = (await dashboardRoutes(world)).filter(({ access }) => access !== 'public');
  expect(closed.length).toBeGreaterThan(15);
  const admitted: string[] = [];
  for (const { method, path } of closed) {
    for (const headers of [
      {},
      { origin: world.url, cookie: `svc_dashboard=${'A'.repeat(43)}`, 'x-svc-csrf': 'A'.repeat(43) },
      // API keys do not authenticate at the dashboard: a page that has one must not act as the dashboard.
      { origin: world.url, apikey: world.keys.secret, authorization: `Bearer ${world.keys.secret}` },
    ]) {
      const { status, json } = await world.send(filled(path), { method, headers });
      if (status !== 401 || (method !== 'HEAD' && json?.code !== 'dashboard_signed_out'))
        admitted.push(`${method} ${path}: ${status}`);
    }
  }
  expect(admitted).toEqual([]);
});

test('an unknown path of the API requires a session too', async () => {
  for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS']) {
    expect((await world.send('/dashboard/api/nowhere/at/all', { method })).status).toBe(401);
  }
});

test('a disabled dashboard answers 404', async () => {
  const { startBackendWorld } = await import('../../support/backend-world.ts');
  const off = await startBackendWorld(FILE);
  try {
    for (const path of ['/dashboard', '/dashboard/', '/dashboard/api/session', '/dashboard/assets/x.js']) {
      const response = await fetch(off.url + path, { redirect: 'manual' });
      expect(response.status, path).toBe(404);
    }
  } finally {
    await off.close();
  }
});

describe('signing in without a key', () => {
  const local = (headers: Record<string, string>): ReturnType<DashboardWorld['send']> =>
    dev.send('/dashboard/api/session/local', { method: 'POST', headers });

  test.each<[string, (world: DashboardWorld) => Record<string, string>]>([
    [
      'by a name that was rebound to this machine',
      ({ host }) => {
        const rebound = host.replace('127.0.0.1', 'evil.example');
        return { host: rebound, origin: `http://${rebound}` };
      },
    ],
    [
      'by a name that only starts like this machine',
      ({ host }) => {
        const rebound = host.replace('127.0.0.1', '127.0.0.1.evil.example');
        return { host: rebound, origin: `http://${rebound}` };
      },
    ],
    ['from another origin', () => ({ origin: 'https://evil.example' })],
    ['from another port of this machine', () => ({ origin: 'http://127.0.0.1:1' })],
    ['from an origin without a name', () => ({ origin: 'null' })],
    ['without an origin', () => ({})],
    ['from a page of another site', ({ url }) => ({ origin: url, 'sec-fetch-site': 'cross-site' })],
    ['from another page of this machine', ({ url }) => ({ origin: url, 'sec-fetch-site': 'same-site' })],
    ['through a proxy', ({ url }) => ({ origin: url, 'x-forwarded-for': '127.0.0.1' })],
    ['through a tunnel', ({ url }) => ({ origin: url, 'x-forwarded-host': 'x.tunnel.example' })],
    ['through a proxy that follows the standard', ({ url }) => ({ origin: url, forwarded: 'for=127.0.0.1' })],
    ['through a gateway', ({ url }) => ({ origin: url, via: '1.1 gateway' })],
    ['through a network in front', ({ url }) => ({ origin: url, 'cf-connecting-ip': '127.0.0.1' })],
  ])('is refused %s', async (_how, headers) => {
    const { status, headers: answered } = await local(headers(dev));
    expect(status).toBe(403);
    expect(answered['set-cookie']).toBeUndefined();
  });

  test('is not offered if it would be refused', async () => {
    const { json } = await dev.send('/dashboard/api/session', {
      headers: { 'x-forwarded-for': '127.0.0.1' },
    });
    expect(json.localSignIn).toBe(false);
  });
});
