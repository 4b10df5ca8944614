// The APIs through the dashboard: the right caller, unchanged bodies, and responses that cannot run scripts in the
// dashboard's origin.
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  startDashboardWorld,
  type DashboardWorld,
  type SignedIn,
} from '../support/dashboard/dashboard-world.ts';

const FILE = `
version: 1
auth: { email: {} }
tables:
  notes:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: owner_id, type: uuid, default: { sql: auth.uid() } }
      - { name: body, type: text }
    rls: [{ operations: [select, insert], using: owner_id = auth.uid(), with_check: owner_id = auth.uid() }]
rpc:
  me: { language: sql, volatility: stable, returns: { type: jsonb },
    body: "select current_setting('request.jwt.claims')::jsonb" }
storage:
  docs: { public: true }
functions:
  echo: { runtime: node, file: functions/echo.js }
  closed: { runtime: node, file: functions/echo.js, auth_required: true }
`;
const ECHO = `export default (req, ctx) => ({
  status: 200,
  headers: { 'set-cookie': 'svc_dashboard=planted; Path=/', 'content-security-policy': "default-src *",
    'clear-site-data': '"*"', 'service-worker-allowed': '/', refresh: '0;url=/', 'x-own': 'kept',
    'content-type': 'text/html' },
  body: JSON.stringify({ method: req.method, path: req.path, query: req.query, headers: req.headers,
    claims: ctx.claims, bytes: req.rawBody?.length ?? 0 }),
});`;

let world: DashboardWorld;
let page: SignedIn;
let ada: string;
beforeAll(async () => {
  world = await startDashboardWorld(FILE, { files: { 'functions/echo.js': ECHO } });
  page = await world.signIn();
  const made = await page.call('/as/service/auth/v1/admin/users', {
    method: 'POST',
    body: {
      email: 'ada@example.com',
      password: 'a long password',
      email_confirm: true,
      user_metadata: { nick: 'A' },
    },
  });
  if (made.status !== 200) throw new Error(made.text);
  ada = made.json.id;
});
afterAll(async () => {
  await world.close();
});

describe('the caller', () => {
  test('service bypasses row-level security', async () => {
    const { json } = await page.call('/as/service/rest/v1/rpc/me');
    expect(json).toMatchObject({ role: 'service_role' });
  });

  test('anon has no user', async () => {
    const { json } = await page.call('/as/anon/rest/v1/rpc/me');
    expect(json).toEqual({ role: 'anon' });
  });

  test('a user has the claims of a sign-in, without a session', async () => {
    const { json } = await page.call(`/as/user:${ada}/rest/v1/rpc/me`);
    const signIn = await world.send('/auth/v1/token?grant_type=password', {
      method: 'POST',
      headers: { apikey: world.keys.publishable },
      body: { email: 'ada@example.com', password: 'a long password' },
    });
    const own = await world.send('/rest/v1/rpc/me', {
      headers: { apikey: world.keys.publishable, authorization: `Bearer ${signIn.json.access_token}` },
    });
    const { session_id: session, ...claims } = own.json;
    expect(session).toBeDefined();
    const times = { exp: expect.any(Number), iat: expect.any(Number), amr: expect.any(Array) };
    expect(json).toEqual({ ...claims, ...times });
    expect(json).toMatchObject({ sub: ada, role: 'authenticated', user_metadata: { nick: 'A' } });
    expect(json.exp - json.iat).toBe(300);
  });

  test('a colon may be encoded', async () => {
    const { json } = await page.call(`/as/user%3A${ada}/rest/v1/rpc/me`);
    expect(json.sub).toBe(ada);
  });

  test('row-level security applies as for the user', async () => {
    const written = await page.call(`/as/user:${ada}/rest/v1/notes`, {
      method: 'POST',
      headers: { prefer: 'return=representation' },
      body: { body: 'mine' },
    });
    expect(written.json).toEqual([expect.objectContaining({ owner_id: ada, body: 'mine' })]);
    expect((await page.call(`/as/user:${ada}/rest/v1/notes?select=body`)).json).toEqual([{ body: 'mine' }]);
    expect((await page.call('/as/anon/rest/v1/notes')).json).toEqual([]);
    expect((await page.call('/as/service/rest/v1/notes?select=body')).json).toEqual([{ body: 'mine' }]);
  });

  test('a deleted user is refused', async () => {
    const users = '/as/service/auth/v1/admin/users';
    const made = await page.call(users, { method: 'POST', body: { email: 'gone@example.com' } });
    const id = String(made.json.id);
    expect((await page.call(`/as/user:${id}/rest/v1/notes`)).status).toBe(200);
    await page.call(`${users}/${id}`, { method: 'DELETE', body: { should_soft_delete: true } });
    const { status, json } = await page.call(`/as/user:${id}/rest/v1/notes`);
    expect([status, json.code]).toEqual([404, 'not_found']);
  });

  test('API headers are forwarded in both directions', async () => {
    const { status, headers } = await page.call('/as/service/rest/v1/notes?limit=1', {
      headers: { prefer: 'count=exact' },
    });
    expect(status).toBe(200);
    expect(headers['content-range']).toBe('0-0/1');
    expect(headers['x-request-id']).toBeDefined();
  });

  test('an error of the API is forwarded unchanged', async () => {
    const { status, json } = await page.call('/as/service/rest/v1/nowhere');
    expect([status, json.code]).toEqual([404, 'PGRST205']);
  });

  test('credentials in the request are ignored', async () => {
    const { json } = await page.call('/as/anon/rest/v1/rpc/me', {
      headers: { apikey: world.keys.secret, authorization: `Bearer ${world.keys.secret}` },
    });
    expect(json).toEqual({ role: 'anon' });
  });
});

describe('functions', () => {
  test('see the caller, but no headers of the dashboard', async () => {
    const { status, json, text } = await page.call(`/as/user:${ada}/functions/v1/echo/a/b?c=d`, {
      method: 'POST',
      headers: { 'x-own': 'x', 'sec-fetch-site': 'same-origin', referer: `${world.url}/dashboard/functions` },
      body: { hello: 'world' },
    });
    expect(status, text).toBe(200);
    expect(json).toMatchObject({ method: 'POST', query: { c: 'd' }, claims: { sub: ada } });
    expect(json.headers['x-own']).toBe('x');
    for (const name of ['cookie', 'x-svc-csrf', 'origin', 'referer', 'sec-fetch-site']) {
      expect(json.headers[name], name).toBeUndefined();
    }
    expect(text).not.toContain(world.keys.secret);
  });

  test('that require a sign-in accept users and the service, not anon', async () => {
    expect((await page.call(`/as/user:${ada}/functions/v1/closed`)).status).toBe(200);
    const service = await page.call('/as/service/functions/v1/closed');
    expect(service.status).toBe(200);
    expect(service.text).not.toContain(world.keys.secret);
    expect((await page.call('/as/anon/functions/v1/closed')).status).toBe(401);
  });

  test('cannot override the security headers of their answers', async () => {
    const { headers } = await page.call('/as/anon/functions/v1/echo');
    expect(headers['content-security-policy']).toMatch(/^sandbox; default-src 'none'/);
    expect(headers['x-content-type-options']).toBe('nosniff');
    expect(headers['set-cookie']).toBeUndefined();
    expect(headers['clear-site-data']).toBeUndefined();
    expect(headers['service-worker-allowed']).toBeUndefined();
    expect(headers['refresh']).toBeUndefined();
    expect(headers['cache-control']).toBe('no-store');
    expect(headers['x-own']).toBe('kept');
  });
});

describe('storage', () => {
  test('a large object is uploaded and downloaded unchanged', async () => {
    const bytes = randomBytes(3 * 1024 * 1024);
    const up = await page.call('/as/service/storage/v1/object/docs/big.bin', {
      method: 'POST',
      headers: { 'content-type': 'application/octet-stream' },
      body: bytes,
    });
    expect(up.status, up.text).toBe(200);
    const down = await fetch(`${world.url}/dashboard/api/as/service/storage/v1/object/docs/big.bin`, {
      headers: { cookie: page.cookie },
    });
    expect(Buffer.from(await down.arrayBuffer()).equals(bytes)).toBe(true);
  });

  test.each(['text/html', 'image/svg+xml', 'application/pdf', 'text/javascript'])(
    'an object of %s is inert, and private although its bucket is public',
    async (type) => {
      const path = '/as/service/storage/v1/object/docs/active';
      await page.call(path, {
        method: 'POST',
        headers: { 'content-type': type, 'x-upsert': 'true' },
        body: '<script>alert(1)</script>',
      });
      for (const url of [path, '/as/anon/storage/v1/object/public/docs/active']) {
        const { status, headers } = await page.call(url);
        expect(status).toBe(200);
        expect(headers['content-security-policy']).toMatch(/^sandbox; default-src 'none'/);
        expect(headers['content-security-policy']).not.toContain('allow-scripts');
        expect(headers['x-content-type-options']).toBe('nosniff');
        expect(headers['cache-control']).toBe('private, no-cache');
      }
    },
  );
});

test('each request has one log line, which names the API', async () => {
  const { headers } = await page.call('/as/anon/rest/v1/notes?id=eq.42');
  const id = headers['x-request-id'] ?? '';
  await expect.poll(() => world.log()).toContain(id);
  const lines = world.log().split('\n');
  const own = lines.filter((line) => line.includes(id));
  expect(own).toHaveLength(1);
  expect(own[0]).toContain('"url":"/rest/v1/notes?id=eq.42"');
  // Operators do not need log lines of data that the page shows.
  expect(own[0]).toContain('"level":"debug"');
});
