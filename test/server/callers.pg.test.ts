// Tests each row of the decision table for callers, with each API that resolves them. A row has the credentials in
// `apikey` and `Authorization`, and the result of each API.
import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';

const FILE = `
version: 1
rpc:
  who:
    language: sql
    volatility: stable
    returns: { type: text }
    body: select current_user || ' ' || coalesce(auth.uid()::text, '-')
`;

const USER = '00000000-0000-4000-8000-000000000001';
let world: BackendWorld;
let presented: Record<string, string | undefined>;

beforeAll(async () => {
  world = await startBackendWorld(FILE);
  const now = Math.floor(Date.now() / 1000);
  const user = await world.token({ sub: USER, role: 'authenticated', session_id: USER });
  presented = {
    none: undefined,
    pub: world.keys.publishable,
    sec: world.keys.secret,
    keylike: `svc_secret_${'x'.repeat(40)}`,
    user,
    anonymousUser: await world.token({ sub: USER, role: 'anon', is_anonymous: true, session_id: USER }),
    service: await world.token({ role: 'service_role' }),
    expired: await world.token({ sub: USER, role: 'authenticated', iat: now - 4000, exp: now - 3600 }),
    forged: `${user.split('.').slice(0, 2).join('.')}.${Buffer.alloc(64).toString('base64url')}`,
    noneAlgorithm: `${encode({ alg: 'none', typ: 'JWT' })}.${encode({ sub: USER, role: 'service_role' })}.`,
    confused: hmacWithPublicKey(user),
    unknownRole: await world.token({ sub: USER, role: 'postgres' }),
    other: 'whatever',
    basic: 'Basic dXNlcjpwYXNz',
  };
});
afterAll(async () => {
  await world.close();
});

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

/** Algorithm confusion: an HMAC keyed with a public value, under the kid of a real key. */
function hmacWithPublicKey(token: string): string {
  const { kid } = JSON.parse(Buffer.from(token.split('.')[0]!, 'base64url').toString()) as { kid: string };
  const body = `${encode({ alg: 'HS256', typ: 'JWT', kid })}.${encode({ sub: USER, role: 'service_role' })}`;
  return `${body}.${createHmac('sha256', kid).update(body).digest('base64url')}`;
}

async function ask(
  path: string,
  apikey: string,
  bearer: string,
  init: RequestInit = {},
): Promise<{ status: number; text: string }> {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  const key = presented[apikey];
  const token = presented[bearer];
  if (key !== undefined) headers['apikey'] = key;
  if (token !== undefined) headers['authorization'] = bearer === 'basic' ? token : `Bearer ${token}`;
  const response = await fetch(`${world.url}${path}`, { ...init, headers });
  return { status: response.status, text: await response.text() };
}

// apikey, Authorization, what the data API answers: the SQL role and uid, or the status
test.each<[string, string, string | number]>([
  ['none', 'none', 401],
  ['pub', 'none', 'anon -'],
  ['pub', 'pub', 'anon -'],
  ['pub', 'user', `authenticated ${USER}`],
  ['pub', 'anonymousUser', `anon ${USER}`],
  ['pub', 'forged', 401],
  ['pub', 'expired', 401],
  ['pub', 'noneAlgorithm', 401],
  ['pub', 'confused', 401],
  ['pub', 'unknownRole', 401],
  ['pub', 'sec', 'service_role -'],
  ['pub', 'service', 'service_role -'],
  ['pub', 'keylike', 401],
  ['pub', 'other', 401],
  ['pub', 'basic', 'anon -'],
  ['sec', 'none', 'service_role -'],
  ['sec', 'sec', 'service_role -'],
  ['sec', 'pub', 'anon -'],
  ['sec', 'user', `authenticated ${USER}`],
  ['sec', 'forged', 401],
  ['none', 'pub', 'anon -'],
  ['none', 'sec', 'service_role -'],
  ['none', 'user', 401],
  ['none', 'service', 401],
  ['keylike', 'none', 401],
  ['other', 'user', 401],
  ['service', 'none', 401],
])('apikey %s, bearer %s → %s', async (apikey, bearer, expected) => {
  const data = await ask('/rest/v1/rpc/who', apikey, bearer);
  expect(data.status === 200 ? JSON.parse(data.text) : data.status).toBe(expected);
  // Storage has the same rules, but also accepts a token alone: tus clients send nothing else.
  const storage = await ask('/storage/v1/object/list/nowhere', apikey, bearer, {
    method: 'POST',
    body: '{"prefix":""}',
  });
  const isTokenAlone = apikey === 'none' && (bearer === 'user' || bearer === 'service');
  expect(storage.status === 200).toBe(expected !== 401 || isTokenAlone);
});

// apikey, Authorization, public auth route, user route, admin route
test.each<[string, string, number, number, number]>([
  ['none', 'none', 401, 401, 401],
  ['pub', 'none', 200, 401, 401],
  ['pub', 'pub', 200, 403, 403],
  ['pub', 'user', 200, 403, 403],
  ['pub', 'forged', 200, 403, 403],
  ['pub', 'sec', 200, 403, 200],
  ['pub', 'service', 200, 403, 200],
  ['pub', 'keylike', 401, 401, 401],
  ['pub', 'other', 200, 403, 403],
  ['sec', 'none', 200, 401, 200],
  ['sec', 'sec', 200, 403, 200],
  ['sec', 'pub', 200, 403, 403],
  ['sec', 'user', 200, 403, 403],
  ['sec', 'forged', 200, 403, 403],
  ['none', 'pub', 200, 403, 403],
  ['none', 'sec', 200, 403, 200],
  ['none', 'user', 401, 401, 401],
  ['keylike', 'user', 401, 401, 401],
  ['service', 'none', 401, 401, 401],
])('apikey %s, bearer %s → auth public %i, user %i, admin %i', async (apikey, bearer, open, user, admin) => {
  expect((await ask('/auth/v1/settings', apikey, bearer)).status).toBe(open);
  expect((await ask('/auth/v1/user', apikey, bearer)).status).toBe(user);
  expect((await ask('/auth/v1/admin/users', apikey, bearer)).status).toBe(admin);
});

test('a token is accepted shortly after its expiry, because clocks differ', async () => {
  const now = Math.floor(Date.now() / 1000);
  presented['late'] = await world.token({ sub: USER, role: 'authenticated', iat: now - 920, exp: now - 20 });
  expect((await ask('/rest/v1/rpc/who', 'pub', 'late')).status).toBe(200);
});

test('refusals give the reason in the format of the API without the key', async () => {
  const expired = await ask('/rest/v1/rpc/who', 'pub', 'expired');
  expect(JSON.parse(expired.text)).toMatchObject({ code: 'PGRST303', message: 'JWT expired' });
  const unknown = await ask('/rest/v1/rpc/who', 'keylike', 'none');
  expect(JSON.parse(unknown.text)).toMatchObject({ code: 'SVC100', message: 'Invalid API key' });
  expect(unknown.text).not.toContain('xxxx');
});
