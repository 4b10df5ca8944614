// Cross-site request forgery. Neither the cookie alone, nor the token of another session, nor a page of another
// origin can change anything, and a foreign page cannot sign a visitor in.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  dashboardRoutes,
  startDashboardWorld,
  type DashboardWorld,
  type SignedIn,
} from '../../support/dashboard/dashboard-world.ts';

const FILE = `
version: 1
server: { cors: { origins: ["*"] } }
tables:
  notes:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: body, type: text }]
    rls: []
`;

let world: DashboardWorld;
let page: SignedIn;
beforeAll(async () => {
  world = await startDashboardWorld(FILE);
  page = await world.signIn();
});
afterAll(async () => {
  await world.close();
});

const show = (headers: Record<string, string>): ReturnType<DashboardWorld['send']> =>
  world.send('/dashboard/api/keys/secret', { method: 'POST', headers: { cookie: page.cookie, ...headers } });

test('a change from the page itself is accepted', async () => {
  const { status, json } = await page.call('/keys/secret', { method: 'POST' });
  expect(status).toBe(200);
  expect(json.secretKey).toBe(world.keys.secret);
});

describe('a change is refused', () => {
  test('with the cookie alone', async () => {
    const { status, json } = await show({ origin: world.url });
    expect([status, json.code]).toEqual([403, 'csrf_token']);
  });

  test('with the token of another session', async () => {
    const otherSession = await world.signIn();
    const { status, json } = await show({ origin: world.url, 'x-svc-csrf': otherSession.csrf });
    expect([status, json.code]).toEqual([403, 'csrf_token']);
  });

  test('with the token in the URL', async () => {
    const { status } = await world.send(`/dashboard/api/keys/secret?x-svc-csrf=${page.csrf}`, {
      method: 'POST',
      headers: { cookie: page.cookie, origin: world.url },
    });
    expect(status).toBe(403);
  });

  test.each([
    ['https://evil.example'],
    ['null'],
    ['http://127.0.0.1:1'],
    ['http://127.0.0.1'],
    ['file://'],
    ['not an origin'],
  ])('from origin %s, although allowed by the file and with the right token', async (origin) => {
    const { status, json } = await show({ origin, 'x-svc-csrf': page.csrf });
    expect([status, json.code]).toEqual([403, 'foreign_origin']);
  });

  test('without an origin', async () => {
    expect((await show({ 'x-svc-csrf': page.csrf })).json.code).toBe('foreign_origin');
  });

  test.each(['cross-site', 'same-site'])('from a page that the browser calls %s', async (site) => {
    const { json } = await show({ origin: world.url, 'x-svc-csrf': page.csrf, 'sec-fetch-site': site });
    expect(json.code).toBe('foreign_origin');
  });

  test('on every route that is not a GET', async () => {
    const routes = (await dashboardRoutes(world)).filter(
      ({ method, path }) => !['GET', 'HEAD'].includes(method) && path.startsWith('/dashboard/api'),
    );
    expect(routes.length).toBeGreaterThan(5);
    const admitted: string[] = [];
    for (const { method, path } of routes) {
      const url = path.replaceAll(/:\w+/g, 'x').replace('*', 'service/rest/v1/notes');
      for (const headers of [
        { cookie: page.cookie },
        { cookie: page.cookie, origin: 'https://evil.example' },
      ]) {
        const { status } = await world.send(url, { method, headers, body: {} });
        if (status !== 403) admitted.push(`${method} ${path}: ${status}`);
      }
    }
    expect(admitted).toEqual([]);
  });
});

test('a plain form of another site cannot write through an API', async () => {
  const { status } = await world.send('/dashboard/api/as/service/rest/v1/notes', {
    method: 'POST',
    headers: {
      cookie: page.cookie,
      origin: 'https://evil.example',
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: 'body=planted',
  });
  expect(status).toBe(403);
  const rows = await page.call('/as/service/rest/v1/notes');
  expect(rows.json).toEqual([]);
});

test.each(['cross-site', 'same-site'])('an image or frame in a %s page gets no data', async (site) => {
  const { status, json } = await world.send('/dashboard/api/as/service/rest/v1/notes', {
    headers: { cookie: page.cookie, 'sec-fetch-site': site },
  });
  expect([status, json.code]).toEqual([403, 'foreign_origin']);
});

test.each(['https://evil.example', 'null', ''])('a page of %s cannot sign a visitor in', async (origin) => {
  const { status, headers } = await world.send('/dashboard/api/session', {
    method: 'POST',
    headers: origin === '' ? {} : { origin },
    body: { secret_key: world.keys.secret },
  });
  expect(status).toBe(403);
  expect(headers['set-cookie']).toBeUndefined();
});

test('no other origin may read the dashboard, even if CORS allows every origin for the APIs', async () => {
  const origin = 'https://app.example';
  const api = await world.send('/rest/v1/', { headers: { origin, apikey: world.keys.publishable } });
  expect(api.headers['access-control-allow-origin']).toBe('*');
  for (const path of ['/dashboard/', '/dashboard/api/session', '/dashboard/api/as/anon/rest/v1/notes']) {
    for (const method of ['GET', 'OPTIONS']) {
      const { headers } = await world.send(path, {
        method,
        headers: { origin, cookie: page.cookie, 'access-control-request-method': 'POST' },
      });
      const allowed = Object.keys(headers).filter((name) => name.startsWith('access-control-'));
      expect(allowed, `${method} ${path}`).toEqual([]);
    }
  }
});

test('with an https base URL, an http origin is foreign', async () => {
  const secure = await startDashboardWorld(FILE, { baseUrl: 'https://api.example.com' });
  try {
    const signIn = (origin: string): ReturnType<DashboardWorld['send']> =>
      secure.send('/dashboard/api/session', {
        method: 'POST',
        headers: { host: 'api.example.com', origin },
        body: { secret_key: secure.keys.secret },
      });
    const right = await signIn('https://api.example.com');
    expect(right.status).toBe(200);
    expect(right.headers['set-cookie']).toMatch(/; Secure$/);
    expect((await signIn('http://api.example.com')).status).toBe(403);
  } finally {
    await secure.close();
  }
});
