// Who is calling: every row of the decision table, for each surface that resolves callers. The table has
// the credentials in `apikey` and `Authorization`, and the result for each surface.
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

// row, apikey, Authorization, what the data API answers: the SQL role and uid, or the status
test.each<[string, string, string, string | number]>([
  ['K1', 'none', 'none', 401],
  ['K2', 'pub', 'none', 'anon -'],
  ['K3', 'pub', 'pub', 'anon -'],
  ['K4', 'pub', 'user', `authenticated ${USER}`],
  ['K5', 'pub', 'anonymousUser', `anon ${USER}`],
  ['K6', 'pub', 'forged', 401],
  ['K6', 'pub', 'expired', 401],
  ['K6', 'pub', 'noneAlgorithm', 401],
  ['K6', 'pub', 'confused', 401],
  ['K6', 'pub', 'unknownRole', 401],
  ['K7', 'pub', 'sec', 'service_role -'],
  ['K8', 'pub', 'service', 'service_role -'],
  ['K9', 'pub', 'keylike', 401],
  ['K10', 'pub', 'other', 401],
  ['K10', 'pub', 'basic', 'anon -'],
  ['K11', 'sec', 'none', 'service_role -'],
  ['K12', 'sec', 'sec', 'service_role -'],
  ['K13', 'sec', 'pub', 'anon -'],
  ['K14', 'sec', 'user', `authenticated ${USER}`],
  ['K15', 'sec', 'forged', 401],
  ['K16', 'none', 'pub', 'anon -'],
  ['K17', 'none', 'sec', 'service_role -'],
  ['K18', 'none', 'user', 401],
  ['K18', 'none', 'service', 401],
  ['K19', 'keylike', 'none', 401],
  ['K19', 'other', 'user', 401],
  ['K20', 'service', 'none', 401],
])('%s: apikey %s, bearer %s → %s', async (row, apikey, bearer, expected) => {
  const data = await ask('/rest/v1/rpc/who', apikey, bearer);
  expect(data.status === 200 ? JSON.parse(data.text) : data.status).toBe(expected);
  // Storage has the same rules, but also accepts a token alone: tus clients send nothing else.
  const storage = await ask('/storage/v1/object/list/nowhere', apikey, bearer, {
    method: 'POST',
    body: '{"prefix":""}',
  });
  expect(storage.status === 200).toBe(expected !== 401 || row === 'K18');
});

// row, apikey, Authorization, public auth route, user route, admin route
test.each<[string, string, string, number, number, number]>([
  ['K1', 'none', 'none', 401, 401, 401],
  ['K2', 'pub', 'none', 200, 401, 401],
  ['K3', 'pub', 'pub', 200, 403, 403],
  ['K4', 'pub', 'user', 200, 403, 403],
  ['K6', 'pub', 'forged', 200, 403, 403],
  ['K7', 'pub', 'sec', 200, 403, 200],
  ['K8', 'pub', 'service', 200, 403, 200],
  ['K9', 'pub', 'keylike', 401, 401, 401],
  ['K10', 'pub', 'other', 200, 403, 403],
  ['K11', 'sec', 'none', 200, 401, 200],
  ['K12', 'sec', 'sec', 200, 403, 200],
  ['K13', 'sec', 'pub', 200, 403, 403],
  ['K14', 'sec', 'user', 200, 403, 403],
  ['K15', 'sec', 'forged', 200, 403, 403],
  ['K16', 'none', 'pub', 200, 403, 403],
  ['K17', 'none', 'sec', 200, 403, 200],
  ['K18', 'none', 'user', 401, 401, 401],
  ['K19', 'keylike', 'user', 401, 401, 401],
  ['K20', 'service', 'none', 401, 401, 401],
])(
  '%s: apikey %s, bearer %s → auth public %i, user %i, admin %i',
  async (_row, apikey, bearer, open, user, admin) => {
    expect((await ask('/auth/v1/settings', apikey, bearer)).status).toBe(open);
    expect((await ask('/auth/v1/user', apikey, bearer)).status).toBe(user);
    expect((await ask('/auth/v1/admin/users', apikey, bearer)).status).toBe(admin);
  },
);

test('a token is accepted shortly after its expiry, because clocks differ', async () => {
  const now = Math.floor(Date.now() / 1000);
  presented['late'] = await world.token({ sub: USER, role: 'authenticated', iat: now - 920, exp: now - 20 });
  expect((await ask('/rest/v1/rpc/who', 'pub', 'late')).status).toBe(200);
});

test('refusals give the reason in the format of the API, and repeat no key', async () => {
  const expired = await ask('/rest/v1/rpc/who', 'pub', 'expired');
  expect(JSON.parse(expired.text)).toMatchObject({ code: 'PGRST303', message: 'JWT expired' });
  const unknown = await ask('/rest/v1/rpc/who', 'keylike', 'none');
  expect(JSON.parse(unknown.text)).toMatchObject({ code: 'SVC100', message: 'Invalid API key' });
  expect(unknown.text).not.toContain('xxxx');
});
