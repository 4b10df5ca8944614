// Sign-in and sign-out: with the key, without it on this machine, over https, after a change of keys.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DashboardSessions } from '../../src/dashboard-api/session/session.ts';
import { Keyring } from '../../src/identity/keyring.ts';
import { sql } from '../../src/postgres/sql.ts';
import { startDashboardWorld, type DashboardWorld } from '../support/dashboard/dashboard-world.ts';

const FILE = 'version: 1\nproject: { name: shop }\n';
const SESSION = '/dashboard/api/session';

let world: DashboardWorld;
beforeAll(async () => {
  world = await startDashboardWorld(FILE);
});
afterAll(async () => {
  await world.close();
});

const signInWith = (key: string, headers: Record<string, string> = {}): ReturnType<DashboardWorld['send']> =>
  world.send(SESSION, {
    method: 'POST',
    headers: { origin: world.url, ...headers },
    body: { secret_key: key },
  });

describe('with the secret key', () => {
  test('without a session nothing about the project is shown', async () => {
    const { status, json } = await world.send(SESSION);
    expect(status).toBe(200);
    expect(json).toEqual({
      signedIn: false,
      localSignIn: false,
      mode: 'readwrite',
      csrf: '',
      project: null,
      superseded: null,
    });
  });

  test('the key opens a session in a cookie that scripts cannot read', async () => {
    const { status, json, headers } = await signInWith(world.keys.secret);
    expect(status).toBe(200);
    expect(json).toMatchObject({ signedIn: true, project: { name: 'shop', dev: false } });
    expect(headers['set-cookie']).toMatch(
      /^svc_dashboard=[\w-]{43}; Path=\/dashboard; Max-Age=43200; HttpOnly; SameSite=Strict$/,
    );
    const cookie = headers['set-cookie']?.split(';')[0] ?? '';
    const again = await world.send(SESSION, { headers: { cookie } });
    expect(again.json).toMatchObject({ signedIn: true, csrf: json.csrf });
  });

  test('the cookie is Secure if the browser uses https', async () => {
    const { status, headers } = await signInWith(world.keys.secret, { origin: `https://${world.host}` });
    expect(status).toBe(200);
    expect(headers['set-cookie']).toMatch(/; Secure$/);
  });

  test.each([
    ['another key', () => `svc_secret_${'x'.repeat(43)}`],
    ['the publishable key', () => world.keys.publishable],
    ['nothing', () => ''],
  ])('%s does not open a session', async (_what, key) => {
    const { status, json, headers } = await signInWith(key());
    expect(status).toBe(401);
    expect(json.code).toBe('wrong_key');
    expect(headers['set-cookie']).toBeUndefined();
  });

  test('only a digest of the token is stored', async () => {
    const { cookie } = await world.signIn();
    const token = cookie.split('=')[1] ?? '';
    const rows = await world.owner.query(sql`select * from svc_meta.dashboard_sessions`);
    expect(rows.length).toBeGreaterThan(0);
    expect(JSON.stringify(rows)).not.toContain(token);
    const [found] = await world.owner.query(sql`
      select from svc_meta.dashboard_sessions where position(convert_to(${token}, 'utf8') in token_hash) > 0`);
    expect(found).toBeUndefined();
  });

  test('signing out ends the session on the server', async () => {
    const page = await world.signIn();
    expect((await page.call('/overview')).status).toBe(200);
    const out = await page.call('/session', { method: 'DELETE' });
    expect(out.status).toBe(204);
    expect(out.headers['set-cookie']).toMatch(/^svc_dashboard=; .*Max-Age=0/);
    const after = await page.call('/overview');
    expect(after.status).toBe(401);
    expect(after.json.code).toBe('dashboard_signed_out');
  });

  test('a session expires after twelve hours without use', async () => {
    const page = await world.signIn();
    await world.owner.query(
      sql`update svc_meta.dashboard_sessions set expires_at = now() - interval '1 second'`,
    );
    expect((await page.call('/overview')).status).toBe(401);
  });

  test('use extends a session, but not beyond a week', async () => {
    const page = await world.signIn();
    await world.owner.query(sql`
      update svc_meta.dashboard_sessions
      set created_at = now() - interval '6 days 20 hours', last_seen_at = now() - interval '1 hour',
        expires_at = now() + interval '1 minute'`);
    expect((await page.call('/overview')).status).toBe(200);
    const [row] = await world.owner.query<{ left: number }>(sql`
      select extract(epoch from max(expires_at) - now())::float8 as left from svc_meta.dashboard_sessions`);
    expect(row?.left).toBeGreaterThan(3.9 * 3600);
    expect(row?.left).toBeLessThan(4.1 * 3600);
  });
});

test('a new secret key ends every session', async () => {
  const { owner, keys } = world;
  const keyring = await Keyring.open(owner, { current: keys.secret, previous: [] });
  const now = (): Date => new Date();
  const before = new DashboardSessions({ owner, keyring, keys, now });
  const { token } = await before.open();
  expect(await before.find(token)).toBeDefined();
  const after = new DashboardSessions({ owner, keyring, keys: { ...keys, secret: `${keys.secret}x` }, now });
  expect(await after.find(token)).toBeUndefined();
});

test('wrong keys are limited by address, across all instances', async () => {
  const limited = await startDashboardWorld(FILE);
  try {
    const tries = await Promise.all(
      Array.from({ length: 40 }, () =>
        limited.send(SESSION, {
          method: 'POST',
          headers: { origin: limited.url },
          body: { secret_key: 'svc_secret_wrong' },
        }),
      ),
    );
    const refused = tries.filter(({ status }) => status === 429);
    // The limit refills, so a slow machine may allow a few more.
    expect(tries.filter(({ status }) => status === 401).length).toBeGreaterThanOrEqual(30);
    expect(refused.length).toBeGreaterThan(0);
    expect(Number(refused[0]?.headers['retry-after'])).toBeGreaterThan(0);
  } finally {
    await limited.close();
  }
});

describe('without a key, under `svc dev`', () => {
  let dev: DashboardWorld;
  beforeAll(async () => {
    dev = await startDashboardWorld(FILE, { dev: true });
  });
  afterAll(async () => {
    await dev.close();
  });

  const local = (headers: Record<string, string> = {}): ReturnType<DashboardWorld['send']> =>
    dev.send(`${SESSION}/local`, { method: 'POST', headers: { origin: dev.url, ...headers } });

  test('a request from this machine is signed in', async () => {
    expect((await dev.send(SESSION)).json.localSignIn).toBe(true);
    const { status, json, headers } = await local({ 'sec-fetch-site': 'same-origin' });
    expect(status).toBe(200);
    expect(json).toMatchObject({ signedIn: true, project: { name: 'shop', dev: true } });
    const cookie = headers['set-cookie']?.split(';')[0] ?? '';
    expect((await dev.send('/dashboard/api/overview', { headers: { cookie } })).status).toBe(200);
  });

  test('localhost counts as this machine', async () => {
    const host = dev.host.replace('127.0.0.1', 'localhost');
    expect((await local({ host, origin: `http://${host}` })).status).toBe(200);
  });

  test('`svc serve` always requires a key', async () => {
    const answer = await world.send(`${SESSION}/local`, { method: 'POST', headers: { origin: world.url } });
    expect(answer.status).toBe(403);
    expect(answer.json.code).toBe('not_local');
  });
});
