// Parity rows AD, MT, SQL: operators, metadata routes and access from SQL.
import { jwtVerify, createLocalJWKSet } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { aUser, decodeClaims, startAuth, type AuthWorld, type Reply } from '../../support/auth-world.ts';
import { signToken } from '../../../src/identity/token.ts';
import { resolveDataCaller } from '../../../src/identity/caller.ts';
import { CredentialReader } from '../../../src/identity/credentials.ts';
import { TokenVerifier } from '../../../src/identity/token.ts';
import { raw, sql } from '../../../src/postgres/sql.ts';

let world: AuthWorld;
beforeAll(async () => {
  world = await startAuth({
    maxBodyBytes: 20_000,
    corsOrigins: ['https://app.example'],
    auth: { redirectUrls: ['https://app.example'] },
  });
});
afterAll(() => world.close());

let count = 0;
const anEmail = (): string => `admin${++count}@example.com`;
const statusAndCode = (reply: Reply): unknown => [reply.status, reply.json.error_code];
const admin = (method: string, path: string, body?: unknown): Promise<Reply> =>
  world.call(method, path, { apikey: world.keys.secret, body });
const signIn = (email: string, password: string): Promise<Reply> =>
  world.call('POST', '/token?grant_type=password', { body: { email, password } });

describe('users', () => {
  test('lists users in pages', async () => {
    for (let i = 0; i < 3; i++)
      await admin('POST', '/admin/users', {
        email: `lister${i}@example.com`,
        user_metadata: { full_name: `Ann ${i}` },
      });
    const first = await admin('GET', '/admin/users?page=1&per_page=2');
    expect(first.json.users).toHaveLength(2);
    expect(first.json.aud).toBe('authenticated');
    expect(Number(first.headers.get('x-total-count'))).toBeGreaterThanOrEqual(3);
    expect(first.headers.get('link')).toMatch(
      /^<\/auth\/v1\/admin\/users\?page=2&per_page=2>; rel="next", <[^,]*\?page=\d+&per_page=2>; rel="last"$/,
    );
    const all = await admin('GET', '/admin/users?page=&per_page=');
    expect(all.headers.get('link')).toMatch(/^<[^,]*>; rel="last"$/);
    expect((await admin('GET', '/admin/users?page=-1')).status).toBe(400);
    expect((await admin('GET', '/admin/users?page=x')).status).toBe(400);
    expect((await admin('GET', '/admin/users?per_page=0')).status).toBe(200);
    expect((await admin('GET', '/admin/users?filter=ann%201')).json.users).toHaveLength(1);
    expect((await admin('GET', '/admin/users?filter=%25')).json.users).toHaveLength(0);
    const listed = await world.admin().auth.admin.listUsers({ page: 1, perPage: 2 });
    expect(listed.data).toMatchObject({ total: expect.any(Number), nextPage: 2 });
  });

  test('only the secret key or a service token has access', async () => {
    const get = async (apikey: string | null, bearer?: string) =>
      statusAndCode(await world.call('GET', '/admin/users', { apikey, bearer }));
    const { publishable, secret } = world.keys;
    const user = await aUser(world);
    expect(await get(publishable)).toEqual([401, 'no_authorization']);
    expect(await get(publishable, publishable)).toEqual([403, 'not_admin']);
    expect(await get(publishable, user.access)).toEqual([403, 'not_admin']);
    expect(await get(secret, publishable)).toEqual([403, 'not_admin']);
    expect(await get(secret, user.access)).toEqual([403, 'not_admin']);
    expect(await get(null)).toEqual([401, 'no_authorization']);
    expect(await get(publishable, 'a.b.c')).toEqual([403, 'bad_jwt']);
    for (const [apikey, bearer] of [
      [secret],
      [secret, secret],
      [publishable, secret],
      [null, secret],
    ] as const) {
      expect(await get(apikey, bearer)).toEqual([200, undefined]);
    }
    const now = Math.floor(Date.now() / 1000);
    const service = await signToken(
      { role: 'service_role', iat: now, exp: now + 60 },
      world.signingKeys.signing,
    );
    expect(await get(publishable, service)).toEqual([200, undefined]);
  });

  test('creates users', async () => {
    const email = anEmail();
    const id = '6f9619ff-8b86-4d11-b42d-00c04fc964ff';
    const made = await admin('POST', '/admin/users', {
      email,
      password: 'correct horse',
      email_confirm: true,
      id,
      app_metadata: { plan: 'pro' },
    });
    expect(made.json).toMatchObject({
      id,
      email,
      email_confirmed_at: expect.any(String),
      app_metadata: { provider: 'email', plan: 'pro' },
    });
    expect((await signIn(email, 'correct horse')).status).toBe(200);
    expect(statusAndCode(await admin('POST', '/admin/users', { email }))).toEqual([422, 'email_exists']);
    expect(statusAndCode(await admin('POST', '/admin/users', {}))).toEqual([400, 'validation_failed']);
    const waiting = await admin('POST', '/admin/users', { email: anEmail() });
    expect(waiting.json).not.toHaveProperty('email_confirmed_at');
    // Only confirming writes the key.
    expect(waiting.json.user_metadata).toEqual({});
    const moved = await admin('PUT', `/admin/users/${waiting.json.id}`, { email: anEmail() });
    expect(moved.json.user_metadata).toEqual({});
    const confirmed = await admin('PUT', `/admin/users/${waiting.json.id}`, { email_confirm: true });
    expect(confirmed.json.user_metadata).toEqual({ email_verified: true });
    const atOnce = await admin('POST', '/admin/users', { email: anEmail(), email_confirm: true });
    expect(atOnce.json.user_metadata).toEqual({ email_verified: true });
    const before = world.config;
    world.config = { ...before, auth: { ...before.auth, allowSignup: false } };
    expect((await admin('POST', '/admin/users', { email: anEmail() })).status).toBe(200);
    world.config = before;
  });

  test.each([
    ['password and hash', { password: 'correct horse', password_hash: '$2a$10$x' }],
    ['malformed hash', { password_hash: '$2a$10$x' }],
    ['costly hash', { password_hash: `$2a$31$${'a'.repeat(53)}` }],
    ['costly argon2', { password_hash: '$argon2id$v=19$m=999999,t=2,p=1$c2FsdHNhbHQ$aGFzaA' }],
    ['argon2d', { password_hash: '$argon2d$v=19$m=1024,t=2,p=1$c2FsdHNhbHQ$aGFzaA' }],
    ['other role', { role: 'service_role' }],
    ['nil id', { id: '00000000-0000-0000-0000-000000000000' }],
    ['bad id', { id: 'x' }],
    ['bad duration', { ban_duration: '1 day' }],
    ['bad phone', { phone: 'abc' }],
  ])('%s %j is refused', async (_id, change) => {
    expect((await admin('POST', '/admin/users', { email: anEmail(), ...change })).status).toBe(400);
  });

  test('reads one user', async () => {
    expect(statusAndCode(await admin('GET', '/admin/users/6f9619ff-8b86-4d11-b42d-00c04fc964aa'))).toEqual([
      404,
      'user_not_found',
    ]);
    expect(statusAndCode(await admin('GET', '/admin/users/x'))).toEqual([404, 'validation_failed']);
  });

  test('changes users', async () => {
    const user = await aUser(world);
    const email = anEmail();
    const moved = await admin('PUT', `/admin/users/${user.id}`, { email, app_metadata: { a: 1, b: null } });
    expect(moved.json).toMatchObject({
      email,
      identities: [{ identity_data: { email, email_verified: false } }],
    });
    expect(
      (await admin('PUT', `/admin/users/${user.id}`, { app_metadata: { a: null } })).json.app_metadata,
    ).not.toHaveProperty('a');
    expect((await admin('PUT', `/admin/users/${user.id}`, { password: 'another horse' })).status).toBe(200);
    const refreshed = await world.call('POST', '/token?grant_type=refresh_token', {
      body: { refresh_token: user.refresh },
    });
    expect(refreshed.status).toBe(400);
    expect((await signIn(email, 'another horse')).status).toBe(200);
    expect(statusAndCode(await admin('PUT', `/admin/users/${user.id}`, { password: 'short' }))).toEqual([
      422,
      'weak_password',
    ]);
    const another = await aUser(world);
    expect(statusAndCode(await admin('PUT', `/admin/users/${user.id}`, { email: another.email }))).toEqual([
      422,
      'email_exists',
    ]);
  });

  test.each([
    ['24h', 86_400_000],
    ['1h30m', 5_400_000],
    ['7d', 604_800_000],
    ['1.5h', 5_400_000],
    ['876000h', 3_153_600_000_000],
  ])('ban for %s', async (ban_duration, ms) => {
    const user = await aUser(world);
    const before = Date.now();
    const { json } = await admin('PUT', `/admin/users/${user.id}`, { ban_duration });
    const bannedUntil = Date.parse(json.banned_until);
    expect(bannedUntil).toBeGreaterThanOrEqual(before + ms - 1);
    expect(bannedUntil).toBeLessThanOrEqual(Date.now() + ms);
  });

  test('unban', async () => {
    const user = await aUser(world);
    for (const lift of ['none', '0s', '0']) {
      await admin('PUT', `/admin/users/${user.id}`, { ban_duration: '1h' });
      expect((await admin('PUT', `/admin/users/${user.id}`, { ban_duration: lift })).json).not.toHaveProperty(
        'banned_until',
      );
    }
    await admin('PUT', `/admin/users/${user.id}`, { ban_duration: '-1h' });
    expect((await signIn(user.email, user.password)).status).toBe(200);
  });

  test('deletes users, softly or for good', async () => {
    const [hard, soft, held] = [await aUser(world), await aUser(world), await aUser(world)];
    const remove = (id: string, body?: unknown) => admin('DELETE', `/admin/users/${id}`, body);
    const gone = await remove(hard.id, { should_soft_delete: false });
    expect([gone.status, gone.text]).toEqual([200, '{}']);
    expect((await admin('GET', `/admin/users/${hard.id}`)).status).toBe(404);
    expect((await remove(soft.id, { should_soft_delete: true })).text).toBe('{}');
    expect((await remove(soft.id, { should_soft_delete: true })).text).toBe('{}');
    const [row] = await world.query(
      sql`select email, deleted_at, encrypted_password, raw_user_meta_data from auth.users where id = ${soft.id}`,
    );
    expect(row).toMatchObject({
      deleted_at: expect.any(Date),
      encrypted_password: null,
      raw_user_meta_data: {},
    });
    expect(row?.['email']).not.toContain('@');
    await world.query(
      raw('create table public.notes (owner uuid references auth.users (id) on delete restrict)'),
    );
    await world.query(sql`insert into public.notes values (${held.id})`);
    expect(statusAndCode(await remove(held.id))).toEqual([409, 'conflict']);
    expect((await remove('6f9619ff-8b86-4d11-b42d-00c04fc964aa')).status).toBe(404);
  });

  test('lists and removes factors', async () => {
    const user = await aUser(world);
    await world.call('POST', '/factors', {
      bearer: user.access,
      body: { factor_type: 'totp', friendly_name: 'f' },
    });
    const { mfa } = world.admin().auth.admin;
    const listed = await mfa.listFactors({ userId: user.id });
    const id = listed.data?.factors[0]?.id ?? '';
    expect(id).not.toBe('');
    const named = await admin('PUT', `/admin/users/${user.id}/factors/${id}`, { friendly_name: 'g' });
    expect(named.json.friendly_name).toBe('g');
    expect((await mfa.deleteFactor({ userId: user.id, id })).error).toBeNull();
    expect((await admin('GET', `/admin/users/${user.id}/factors`)).json).toEqual([]);
  });

  test('invites', async () => {
    const email = anEmail();
    const invited = await world.admin().auth.admin.inviteUserByEmail(email, { data: { team: 'a' } });
    expect(invited.data.user).toMatchObject({
      email,
      invited_at: expect.any(String),
      user_metadata: { team: 'a' },
    });
    expect((await world.mails(email))[0]?.kind).toBe('invite');
    const user = await aUser(world);
    expect(statusAndCode(await admin('POST', '/invite', { email: user.email }))).toEqual([
      422,
      'email_exists',
    ]);
  });

  test('generates links', async () => {
    const generate = (body: unknown) => admin('POST', '/admin/generate_link', body);
    const email = anEmail();
    const signup = (
      await generate({
        type: 'signup',
        email,
        password: 'correct horse',
        data: { status: 'alpha' },
        redirect_to: 'https://app.example/x',
      })
    ).json;
    expect(signup.user_metadata).toEqual({ status: 'alpha' });
    expect(signup).toMatchObject({
      email,
      verification_type: 'signup',
      email_otp: expect.stringMatching(/^\d{6}$/),
      redirect_to: 'https://app.example/x',
    });
    expect(signup.action_link).toBe(
      `${world.url}/auth/v1/verify?token=${signup.hashed_token}&type=signup&redirect_to=https://app.example/x`,
    );
    const odd = 'https://app.example/x?a=1&type=recovery#b';
    const encoded = (await generate({ type: 'magiclink', email: anEmail(), redirect_to: odd })).json;
    const query = new URL(encoded.action_link).searchParams;
    expect([query.get('redirect_to'), query.getAll('type')]).toEqual([odd, ['signup']]);
    expect(
      (await world.call('POST', '/verify', { body: { type: 'signup', token_hash: signup.hashed_token } }))
        .status,
    ).toBe(200);
    expect((await generate({ type: 'magiclink', email: anEmail() })).json.verification_type).toBe('signup');
    expect(statusAndCode(await generate({ type: 'recovery', email: anEmail() }))).toEqual([
      404,
      'user_not_found',
    ]);
    expect(statusAndCode(await generate({ type: 'x', email }))).toEqual([400, 'validation_failed']);
    const magic = (await generate({ type: 'magiclink', email })).json;
    expect(
      (await world.call('POST', '/verify', { body: { type: 'email', email, token: magic.email_otp } }))
        .status,
    ).toBe(200);
    const next = anEmail();
    const current = (await generate({ type: 'email_change_current', email, new_email: next })).json;
    const fresh = (await generate({ type: 'email_change_new', email, new_email: next })).json;
    const verify = (token_hash: string) =>
      world.call('POST', '/verify', { body: { type: 'email_change', token_hash } });
    expect((await verify(current.hashed_token)).json.code).toBe('200');
    expect((await verify(fresh.hashed_token)).json.user.email).toBe(next);
    expect(await world.mails(email)).toEqual([]);
  });

  test('the audit log', async () => {
    const user = await aUser(world);
    const byAction = await admin('GET', '/admin/audit?query=action:login&per_page=5');
    expect(byAction.json[0]).toMatchObject({
      id: expect.any(String),
      payload: { action: expect.stringContaining('login') },
      ip_address: '127.0.0.1',
    });
    const byAuthor = await admin('GET', `/admin/audit?query=author:${user.email}`);
    expect(byAuthor.json.length).toBeGreaterThan(0);
    expect((await admin('GET', '/admin/audit?query=x:y')).status).toBe(400);
    expect(Number(byAction.headers.get('x-total-count'))).toBeGreaterThan(0);
  });
});

describe('metadata and conventions', () => {
  test('settings and health', async () => {
    const { json } = await world.call('GET', '/settings');
    expect(json).toMatchObject({
      external: { email: true, anonymous_users: true, google: false, phone: false },
      disable_signup: false,
      mailer_autoconfirm: true,
    });
    expect((await world.call('GET', '/health', { apikey: null })).json).toMatchObject({
      name: expect.any(String),
      version: expect.any(String),
      description: expect.any(String),
    });
  });

  test('publishes its keys', async () => {
    const reply = await world.call('GET', '/.well-known/jwks.json', { apikey: null });
    expect(reply.headers.get('cache-control')).toBe('public, max-age=600');
    const [key] = reply.json.keys;
    expect(key).toMatchObject({ kty: 'EC', crv: 'P-256', alg: 'ES256', use: 'sig', key_ops: ['verify'] });
    expect(key).not.toHaveProperty('d');
    const user = await aUser(world);
    const verified = await jwtVerify(user.access, createLocalJWKSet(reply.json), {
      audience: 'authenticated',
      issuer: `${world.url}/auth/v1`,
    });
    expect(verified.protectedHeader).toMatchObject({ alg: 'ES256', kid: key.kid, typ: 'JWT' });
    const client = world.client();
    await client.auth.signInWithPassword(user);
    expect((await client.auth.getClaims()).data?.header.alg).toBe('ES256');
    const discovery = await world.call('GET', '/.well-known/openid-configuration', { apikey: null });
    expect(discovery.json.jwks_uri).toBe(`${world.url}/auth/v1/.well-known/jwks.json`);
  });

  test('both error envelopes', async () => {
    const body = { email: 'nobody@example.com', password: 'x' };
    const version = { 'x-supabase-api-version': '2024-01-01' };
    const modern = await world.call('POST', '/token?grant_type=password', { body, headers: version });
    expect(modern.json).toEqual({ code: 'invalid_credentials', message: 'Invalid login credentials' });
    expect(modern.headers.get('x-supabase-api-version')).toBe('2024-01-01');
    const initial = await world.call('POST', '/token?grant_type=password', { body });
    expect(initial.json).toEqual({
      code: 400,
      error_code: 'invalid_credentials',
      msg: 'Invalid login credentials',
    });
    expect(initial.headers.has('x-supabase-api-version')).toBe(false);
  });

  test('browsers are answered with CORS headers', async () => {
    const origin = 'https://app.example';
    const preflight = await world.call('OPTIONS', '/token', {
      apikey: null,
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'apikey,x-supabase-api-version',
      },
    });
    expect(preflight.status).toBeLessThan(300);
    expect(preflight.headers.get('access-control-allow-headers')?.toLowerCase()).toContain(
      'x-supabase-api-version',
    );
    const reply = await world.call('GET', '/settings', { headers: { origin } });
    const exposed = reply.headers.get('access-control-expose-headers')?.toLowerCase() ?? '';
    for (const name of ['x-total-count', 'link', 'x-supabase-api-version']) expect(exposed).toContain(name);
  });

  test('a route requires an API key', async () => {
    const user = await aUser(world);
    const at = async (apikey: string | null, bearer?: string) =>
      statusAndCode(await world.call('GET', '/settings', { apikey, bearer }));
    const closed = [401, 'no_authorization'];
    expect(await at(null)).toEqual(closed);
    expect(await at('svc_publishable_wrong')).toEqual(closed);
    expect(await at('anything')).toEqual(closed);
    expect(await at(user.access)).toEqual(closed);
    expect(await at(null, user.access)).toEqual(closed);
    expect(await at(world.keys.publishable, 'svc_secret_wrong')).toEqual(closed);
    expect(await at(world.keys.publishable)).toEqual([200, undefined]);
    expect(await at(null, world.keys.publishable)).toEqual([200, undefined]);
    expect(await at(world.keys.publishable, 'garbage')).toEqual([200, undefined]);
    expect(
      (await world.call('GET', `/settings?apikey=${world.keys.publishable}`, { apikey: null })).status,
    ).toBe(200);
  });

  test('limits, and families of routes that are off', async () => {
    const big = await world.call('POST', '/signup', {
      body: { email: anEmail(), password: 'correct horse', data: { a: 'x'.repeat(30_000) } },
    });
    expect(statusAndCode(big)).toEqual([413, 'request_entity_too_large']);
    expect(statusAndCode(await world.call('POST', '/sso', { body: {} }))).toEqual([
      404,
      'saml_provider_disabled',
    ]);
    const web3 = await world.call('POST', '/token?grant_type=web3', { body: {} });
    expect(statusAndCode(web3)).toEqual([422, 'web3_provider_disabled']);
    expect(web3.json.msg).toContain('Web3 provider is disabled');
    expect(statusAndCode(await world.call('POST', '/passkeys/registration/options', { body: {} }))).toEqual([
      404,
      'passkey_disabled',
    ]);
    expect(statusAndCode(await world.call('GET', '/oauth/authorizations/x'))).toEqual([
      404,
      'feature_disabled',
    ]);
    expect((await admin('GET', '/admin/custom-providers')).json).toEqual({ providers: [] });
    expect(statusAndCode(await admin('POST', '/admin/custom-providers'))).toEqual([404, 'feature_disabled']);
    const unknown = await world.call('GET', '/nothing/here');
    expect(unknown.status).toBe(404);
    expect(unknown.json.error_code).toBe('not_found');
    const verb = await world.call('DELETE', '/signup');
    expect([verb.status, verb.headers.get('allow')]).toEqual([405, 'POST']);
    expect((await world.call('GET', '/settings/')).status).toBe(200);
  });
});

describe('access from SQL', () => {
  const ask = async (presented: { apikey: string; bearer?: string }, query: string): Promise<unknown> => {
    const verifier = new TokenVerifier(world.signingKeys, () => Math.floor(world.now().getTime() / 1000));
    const reader = new CredentialReader(world.keys, verifier);
    const resolved = resolveDataCaller(
      await reader.read({
        apikey: presented.apikey,
        authorization: presented.bearer && `Bearer ${presented.bearer}`,
      }),
    );
    if (!resolved.ok) throw new Error('refused');
    const [result] = await world.callers.run(resolved.caller, [{ text: query, values: [] }]);
    return result?.rows[0]?.[0]?.toString() ?? null;
  };

  test('the SQL helpers read the claims', async () => {
    const user = await aUser(world);
    const anonymous = (await world.call('POST', '/signup', { body: {} })).json;
    const apikey = world.keys.publishable;
    const asUser = { apikey, bearer: user.access };
    expect(await ask(asUser, 'select auth.uid()')).toBe(user.id);
    expect(await ask({ apikey }, 'select auth.uid()')).toBeNull();
    expect(await ask(asUser, 'select auth.is_authenticated()')).toBe('t');
    expect(await ask({ apikey }, 'select auth.is_authenticated()')).toBe('f');
    expect(await ask({ apikey, bearer: anonymous.access_token }, 'select auth.role()')).toBe('anon');
    expect(await ask({ apikey, bearer: anonymous.access_token }, 'select auth.is_anonymous()')).toBe('t');
    expect(await ask({ apikey, bearer: anonymous.access_token }, 'select auth.uid()')).toBe(
      anonymous.user.id,
    );
    expect(await ask({ apikey }, 'select auth.uid()')).toBeNull();
    expect(decodeClaims(user.access).sub).toBe(user.id);
  });

  test('the tables are not readable, but can be referenced', async () => {
    const user = await aUser(world);
    for (const presented of [
      { apikey: world.keys.publishable, bearer: user.access },
      { apikey: world.keys.secret },
    ]) {
      for (const table of [
        'users',
        'sessions',
        'signing_keys',
        'one_time_tokens',
        'keyring',
        'mail_outbox',
      ]) {
        await expect(ask(presented, `select count(*) from auth.${table}`)).rejects.toThrow();
      }
    }
    await world.query(raw('create table public.owned (id uuid references auth.users (id))'));
  });
});
