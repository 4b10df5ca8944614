// A sign-out, a ban and a deletion reach the data APIs of every instance before the access token expires.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';
import { sql } from '../../src/postgres/sql.ts';
import { startBackend, type Backend } from '../../src/server/backend.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { startSilentProxy, type SilentProxy } from '../support/network/silent-proxy.ts';

let world: BackendWorld;
let neighbour: Backend;
/** The way of the neighbour's connection for notices. */
let notices: SilentProxy;
beforeAll(async () => {
  world = await startBackendWorld(
    `version: 1
providers: { storage: { type: local } }
tables:
  notes:
    fields:
      - { name: id, type: bigint, primary_key: true }
    rls: []
functions:
  whoami: { runtime: node, file: functions/whoami.js }
  members: { runtime: node, file: functions/whoami.js, auth_required: true }
`,
    {
      dev: true,
      files: {
        'functions/package.json': '{"type":"module"}',
        'functions/whoami.js':
          'export default async (_req, ctx) => ({ body: { signedIn: ctx.claims !== null } });',
      },
    },
  );
  notices = await startSilentProxy(world.databaseUrl);
  const direct = parseAddress(notices.through(world.databaseUrl), { attrs: 'primary' });
  neighbour = await startBackend({ ...world.options, database: { ...world.options.database, direct } });
});
afterAll(async () => {
  await neighbour.stop();
  await notices.close();
  await world.close();
});

type Session = { readonly token: string; readonly id: string };

const authHeaders = (token: string) => ({ apikey: world.keys.publishable, authorization: `Bearer ${token}` });

let count = 0;
async function signUp(): Promise<Session> {
  const response = await fetch(`${world.url}/auth/v1/signup`, {
    method: 'POST',
    headers: { apikey: world.keys.publishable, 'content-type': 'application/json' },
    body: JSON.stringify({ email: `ended${++count}@example.com`, password: 'correct horse' }),
  });
  const { access_token, user } = (await response.json()) as { access_token: string; user: { id: string } };
  return { token: access_token, id: user.id };
}

const status = async (url: string, { token }: Session): Promise<number> =>
  (await fetch(url, { headers: authHeaders(token) })).status;
const statuses = (session: Session): Promise<number[]> =>
  Promise.all(
    [world.url, neighbour.url].flatMap((url) => [
      status(`${url}/rest/v1/notes`, session),
      status(`${url}/storage/v1/bucket`, session),
    ]),
  );
const admin = (method: string, id: string, body: unknown): Promise<Response> =>
  fetch(`${world.url}/auth/v1/admin/users/${id}`, {
    method,
    headers: { apikey: world.keys.secret, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

const OPEN = [200, 200, 200, 200];
const REFUSED = [401, 401, 401, 401];

test('a sign-out ends only the token of its session', async () => {
  const session = await signUp();
  const second = await signUp();
  expect(await statuses(session)).toEqual(OPEN);
  await fetch(`${world.url}/auth/v1/logout`, { method: 'POST', headers: authHeaders(session.token) });
  await expect.poll(() => statuses(session)).toEqual(REFUSED);
  expect(await statuses(second)).toEqual(OPEN);
  const refused = await fetch(`${neighbour.url}/rest/v1/notes`, { headers: authHeaders(session.token) });
  expect(await refused.json()).toMatchObject({
    code: 'PGRST303',
    message: 'The session of this token has ended',
  });
  const user = await fetch(`${neighbour.url}/auth/v1/user`, { headers: authHeaders(session.token) });
  expect([user.status, await user.json()]).toMatchObject([403, { error_code: 'session_not_found' }]);
});

test('a ban refuses every token of the user until it is lifted', async () => {
  const session = await signUp();
  await admin('PUT', session.id, { ban_duration: '1h' });
  await expect.poll(() => statuses(session)).toEqual(REFUSED);
  await admin('PUT', session.id, { ban_duration: 'none' });
  await expect.poll(() => statuses(session)).toEqual(OPEN);
});

test.each([false, true])(
  'a deletion refuses the tokens of the user, soft: %j',
  async (should_soft_delete) => {
    const session = await signUp();
    await admin('DELETE', session.id, { should_soft_delete });
    await expect.poll(() => statuses(session)).toEqual(REFUSED);
  },
);

test('a function sees an anonymous caller, or refuses where it needs a user', async () => {
  const session = await signUp();
  const call = async (name: string): Promise<unknown> => {
    const response = await fetch(`${world.url}/functions/v1/${name}`, {
      headers: authHeaders(session.token),
    });
    return response.ok ? await response.json() : response.status;
  };
  expect(await call('whoami')).toEqual({ signedIn: true });
  await fetch(`${world.url}/auth/v1/logout`, { method: 'POST', headers: authHeaders(session.token) });
  await expect.poll(() => call('whoami')).toEqual({ signedIn: false });
  expect(await call('members')).toBe(401);
});

test('an instance without its notification connection polls, and listens again afterwards', async () => {
  const [session, banned] = [await signUp(), await signUp()];
  expect([await statuses(session), await statuses(banned)]).toEqual([OPEN, OPEN]);
  await notices.close();
  await fetch(`${world.url}/auth/v1/logout`, { method: 'POST', headers: authHeaders(session.token) });
  await admin('PUT', banned.id, { ban_duration: '1h' });
  const there = (caller: Session): Promise<number> => status(`${neighbour.url}/rest/v1/notes`, caller);
  await expect.poll(() => Promise.all([there(session), there(banned)])).toEqual([401, 401]);
  await admin('PUT', banned.id, { ban_duration: 'none' });
  await expect.poll(() => there(banned)).toBe(200);
  await notices.reopen();
  const later = await signUp();
  await fetch(`${world.url}/auth/v1/logout`, { method: 'POST', headers: authHeaders(later.token) });
  await expect.poll(() => statuses(later)).toEqual(REFUSED);
});

test('a ban refuses tokens that live longer than a day for as long as they live', async () => {
  const session = await signUp();
  await world.owner.query(
    sql`update auth.sessions set token_seconds = 7 * 86400 where user_id = ${session.id}`,
  );
  await admin('PUT', session.id, { ban_duration: '87600h' });
  const [row] = await world.owner.query<{ days: number }>(sql`
    select extract(day from until - now())::int as days from auth.ended_sessions where user_id = ${session.id}`);
  expect(row?.days).toBe(7);
});

test('with revocation by expiry an instance accepts the token until it expires', async () => {
  const { config } = world.options;
  const sessions = { revocation: 'expiry' } as const;
  const lenient = await startBackend({
    ...world.options,
    config: { ...config, auth: { ...config.auth, sessions } },
  });
  try {
    const session = await signUp();
    await fetch(`${world.url}/auth/v1/logout`, { method: 'POST', headers: authHeaders(session.token) });
    await expect.poll(() => statuses(session)).toEqual(REFUSED);
    expect(await status(`${lenient.url}/rest/v1/notes`, session)).toBe(200);
    expect(await status(`${lenient.url}/storage/v1/bucket`, session)).toBe(200);
    expect(await status(`${lenient.url}/auth/v1/user`, session)).toBe(403);
    await lenient.reload(config);
    await expect.poll(() => status(`${lenient.url}/rest/v1/notes`, session)).toBe(401);
  } finally {
    await lenient.stop();
  }
});

test('SQL that deletes a session ends its token too', async () => {
  const session = await signUp();
  await world.owner.query(sql`delete from auth.sessions where user_id = ${session.id}`);
  await expect.poll(() => statuses(session)).toEqual(REFUSED);
});
