// Parity rows SU, AN, PW: signing up, anonymous users, passwords.
import { hash as argon2Hash } from '@node-rs/argon2';
import { hash as bcryptHash } from '@node-rs/bcrypt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  aUser,
  decodeClaims,
  mailSecrets,
  startAuth,
  type AuthWorld,
  type Reply,
  withAuth,
} from '../../support/auth-world.ts';
import { raw, sql } from '../../../src/postgres/sql.ts';

const PASSWORD = 'correct horse';
let v0: AuthWorld;
let v1: AuthWorld;

beforeAll(async () => {
  v0 = await startAuth({ hashing: 'real' });
  v1 = await startAuth({ verifyEmail: true, auth: { redirectUrls: ['https://app.example'] } });
});
afterAll(async () => {
  await v0.close();
  await v1.close();
});

let count = 0;
const anEmail = (): string => `signup${++count}@example.com`;
const signup = (world: AuthWorld, body: unknown, bearer?: string): Promise<Reply> =>
  world.call('POST', '/signup', { body, bearer });
const signIn = (world: AuthWorld, email: string, password: string): Promise<Reply> =>
  world.call('POST', '/token?grant_type=password', { body: { email, password } });
const statusAndCode = (reply: Reply): unknown => [reply.status, reply.json.error_code];

describe('sign-up, verification off', () => {
  test('a session at once', async () => {
    const body = { email: 'A@B.co', password: PASSWORD, data: { x: 1 }, zzz: 1, gotrue_meta_security: {} };
    const reply = await signup(v0, body);
    expect(reply.status).toBe(200);
    expect(reply.headers.get('cache-control')).toBe('no-store');
    expect(reply.json).toMatchObject({
      token_type: 'bearer',
      expires_in: 900,
      refresh_token: expect.any(String),
    });
    expect(Object.keys(reply.json).sort()).toEqual([
      'access_token',
      'expires_at',
      'expires_in',
      'refresh_token',
      'token_type',
      'user',
    ]);
    const { user } = reply.json;
    expect(user).toMatchObject({
      email: 'a@b.co',
      phone: '',
      role: 'authenticated',
      aud: 'authenticated',
      is_anonymous: false,
      app_metadata: { provider: 'email', providers: ['email'] },
      user_metadata: { x: 1, email: 'a@b.co', sub: user.id, email_verified: true, phone_verified: false },
      email_confirmed_at: expect.stringMatching(/Z$/),
      confirmed_at: expect.stringMatching(/Z$/),
    });
    expect(user.identities[0]).toMatchObject({
      provider: 'email',
      id: user.id,
      user_id: user.id,
      email: 'a@b.co',
      identity_data: { email_verified: false, sub: user.id },
    });
    expect(decodeClaims(reply.json.access_token).exp).toBe(reply.json.expires_at);
  });

  test('a known address gets no session', async () => {
    const { email } = await aUser(v0);
    const again = await signup(v0, { email, password: PASSWORD });
    expect(statusAndCode(again)).toEqual([422, 'user_already_exists']);
    expect(again.json.msg).toMatch(/^User already registered/);
    await v0.admin().auth.admin.inviteUserByEmail('invited0@example.com');
    await v0.call('POST', '/otp', { body: { email: 'mailed0@example.com' } });
    for (const waiting of ['invited0@example.com', 'mailed0@example.com']) {
      const reply = await signup(v0, { email: waiting, password: PASSWORD });
      expect(statusAndCode(reply)).toEqual([422, 'user_already_exists']);
      expect(reply.json).not.toHaveProperty('access_token');
    }
  });

  test.each([
    ['short password', { password: '12345' }, [422, 'weak_password']],
    ['73 bytes', { password: 'x'.repeat(73) }, [400, 'validation_failed']],
    ['74 bytes in 37 characters', { password: 'é'.repeat(37) }, [400, 'validation_failed']],
    ['no password', { password: undefined }, [400, 'validation_failed']],
    ['NUL', { password: 'abcdef\0gh' }, [400, 'validation_failed']],
    ['NUL in metadata', { data: { a: 'x\0y' } }, [400, 'validation_failed']],
    ['a lone surrogate in metadata', { data: { a: { b: '\ud800' } } }, [400, 'validation_failed']],
    ['no address', { email: 'x' }, [400, 'validation_failed']],
    ['long address', { email: `${'a'.repeat(244)}@example.com` }, [400, 'validation_failed']],
    ['phone only', { email: undefined, phone: '+4912345' }, [400, 'phone_provider_disabled']],
    ['phone and address', { phone: '+4912345' }, [400, 'phone_provider_disabled']],
    ['challenge without method', { code_challenge: 'a'.repeat(43) }, [400, 'validation_failed']],
    [
      'short challenge',
      { code_challenge: 'a'.repeat(42), code_challenge_method: 's256' },
      [400, 'validation_failed'],
    ],
    [
      'unknown challenge method',
      { code_challenge: 'a'.repeat(43), code_challenge_method: 'md5' },
      [400, 'validation_failed'],
    ],
    ['number as address', { email: 5 }, [400, 'bad_json']],
  ])('%s %j is refused', async (_id, change, expected) => {
    const reply = await signup(v0, { email: anEmail(), password: PASSWORD, ...change });
    expect(statusAndCode(reply)).toEqual(expected);
  });

  test('refusals have the texts clients look for', async () => {
    const weak = await signup(v0, { email: anEmail(), password: '12345' });
    expect(weak.json).toMatchObject({
      msg: expect.stringContaining('Password should be at least 6 characters'),
      weak_password: { reasons: ['length'] },
    });
    const bad = await signup(v0, { email: 'x', password: PASSWORD });
    expect(bad.json.msg).toBe('Unable to validate email address: invalid format');
  });

  test('sign-up and anonymous sign-in can be switched off', async () => {
    await withAuth(v0, { allowSignup: false }, async () => {
      expect(statusAndCode(await signup(v0, { email: anEmail(), password: PASSWORD }))).toEqual([
        422,
        'signup_disabled',
      ]);
      expect(statusAndCode(await signup(v0, {}))).toEqual([422, 'signup_disabled']);
    });
    await withAuth(v0, { allowAnonymous: false }, async () => {
      expect(statusAndCode(await signup(v0, {}))).toEqual([422, 'anonymous_provider_disabled']);
    });
  });

  test('null challenges are absent ones', async () => {
    const body = { email: anEmail(), password: PASSWORD, code_challenge: null, code_challenge_method: null };
    expect((await signup(v0, body)).status).toBe(200);
  });

  test('application triggers see the row and can refuse it', async () => {
    const world = await startAuth();
    try {
      await world.query(
        raw(`
        create table public.profiles (id uuid primary key references auth.users (id) on delete cascade, nick text);
        create function public.make_profile() returns trigger language plpgsql security definer
          set search_path = '' as $$
        begin
          if new.raw_user_meta_data ->> 'nick' = 'refuse' then raise exception 'no such nick'; end if;
          insert into public.profiles values (new.id, new.raw_user_meta_data ->> 'nick');
          return new;
        end $$;
        create trigger on_user after insert on auth.users for each row execute function public.make_profile();
      `),
      );
      const made = await signup(world, {
        email: 'nick@example.com',
        password: PASSWORD,
        data: { nick: 'Nick' },
      });
      expect(await world.query(raw('select nick from public.profiles'))).toEqual([{ nick: 'Nick' }]);
      const refused = await signup(world, {
        email: 'refused@example.com',
        password: PASSWORD,
        data: { nick: 'refuse' },
      });
      expect(refused.status).toBe(500);
      expect(refused.text).not.toContain('no such nick');
      expect(await world.query(raw(`select id from auth.users where email = 'refused@example.com'`))).toEqual(
        [],
      );
      expect(made.status).toBe(200);
    } finally {
      await world.close();
    }
  });

  test('bodies that are not JSON objects are refused', async () => {
    for (const rawBody of ['{', '[]', '"x"', '{"email":']) {
      expect(statusAndCode(await v0.call('POST', '/signup', { rawBody }))).toEqual([400, 'bad_json']);
    }
  });

  test('prototype keys do not get in', async () => {
    const rawBody =
      `{"email":"${anEmail()}","password":"${PASSWORD}","data":{"__proto__":{"a":1},"constructor":1,` +
      '"ok":{"__proto__":2,"b":3}}}';
    const reply = await v0.call('POST', '/signup', { rawBody });
    expect(reply.status).toBe(200);
    expect(reply.json.user.user_metadata).toMatchObject({ ok: { b: 3 } });
    expect(Object.keys(reply.json.user.user_metadata)).not.toContain('constructor');
  });

  test('of two at once one wins, with an audit entry', async () => {
    const email = anEmail();
    const both = await Promise.all([1, 2].map(() => signup(v0, { email, password: PASSWORD })));
    expect(both.map((reply) => reply.status).sort((a, b) => a - b)).toEqual([200, 422]);
    const rows = await v0.query(
      sql`select payload from auth.audit_log_entries where payload ->> 'actor_username' = ${email}`,
    );
    expect(rows.map((row) => (row['payload'] as { action: string }).action).sort()).toEqual([
      'login',
      'user_signedup',
    ]);
  });
});

describe('sign-up, verification on', () => {
  test('a mail instead of a session, and not two in a minute', async () => {
    const email = anEmail();
    const first = await signup(v1, { email, password: PASSWORD, data: { x: 1 } });
    expect(first.status).toBe(200);
    expect(first.json).not.toHaveProperty('access_token');
    expect(first.json).toMatchObject({
      email,
      confirmation_sent_at: expect.any(String),
      user_metadata: { x: 1 },
    });
    expect(first.json).not.toHaveProperty('email_confirmed_at');
    const soon = await signup(v1, { email, password: PASSWORD });
    expect(statusAndCode(soon)).toEqual([429, 'over_email_send_rate_limit']);
    expect(soon.json.msg).toMatch(/\d+/);
    expect(Number(soon.headers.get('retry-after'))).toBeGreaterThan(50);
    v1.ahead += 61_000;
    const later = await signup(v1, { email, password: PASSWORD });
    expect(later.json.id).toBe(first.json.id);
    expect(await v1.mails(email)).toHaveLength(2);
    const { code } = mailSecrets((await v1.mails(email))[0]!);
    expect((await v1.call('POST', '/verify', { body: { type: 'signup', email, token: code } })).status).toBe(
      200,
    );
    // The password is the one of the sign-up that was confirmed.
    expect((await signIn(v1, email, PASSWORD)).status).toBe(200);
  });

  test('a confirmed address looks like a new one', async () => {
    const admin = v1.admin().auth.admin;
    const email = anEmail();
    const made = await admin.createUser({
      email,
      password: PASSWORD,
      email_confirm: true,
      ban_duration: '1h',
    });
    const id = made.data.user!.id;
    await v1.query(
      sql`insert into auth.mfa_factors (user_id, friendly_name, factor_type, status)
        values (${id}, 'f', 'totp', 'verified')`,
    );
    const fake = await signup(v1, { email, password: PASSWORD });
    const real = await signup(v1, { email: anEmail(), password: PASSWORD });
    expect(fake.status).toBe(200);
    expect(fake.json.id).not.toBe(id);
    expect(fake.json.identities).toEqual([]);
    expect(fake.json).not.toHaveProperty('factors');
    expect(fake.json).not.toHaveProperty('banned_until');
    expect(Object.keys(fake.json).sort()).toEqual(Object.keys(real.json).sort());
    expect((await v1.mails(email)).length).toBe(0);
    // The second try waits as a new address's would.
    expect((await signup(v1, { email, password: PASSWORD })).status).toBe(429);
  });

  test("two people's passwords for one unproven address: neither gets in", async () => {
    const email = anEmail();
    await signup(v1, { email, password: 'the attacker chose' });
    v1.ahead += 61_000;
    await signup(v1, { email, password: 'the owner chose' });
    const { code } = mailSecrets((await v1.mails(email))[0]!);
    expect((await v1.call('POST', '/verify', { body: { type: 'signup', email, token: code } })).status).toBe(
      200,
    );
    expect(statusAndCode(await signIn(v1, email, 'the attacker chose'))).toEqual([
      400,
      'invalid_credentials',
    ]);
  });
});

describe('anonymous users', () => {
  test('a session without an address, with its data and claims', async () => {
    const empty = await v0.call('POST', '/signup', { rawBody: '' });
    expect(empty.status).toBe(200);
    const reply = await signup(v0, { data: { a: 1 } });
    const claims = decodeClaims(reply.json.access_token);
    expect(claims).toMatchObject({
      role: 'anon',
      is_anonymous: true,
      aud: 'authenticated',
      aal: 'aal1',
      email: '',
      phone: '',
    });
    expect(claims.amr[0].method).toBe('anonymous');
    expect(reply.json.user).toMatchObject({
      email: '',
      role: 'anon',
      identities: [],
      app_metadata: {},
      user_metadata: { a: 1 },
    });
    expect((await v0.call('GET', '/user', { bearer: reply.json.access_token })).status).toBe(200);
  });

  test('they cannot enrol factors or set a password, and can sign out', async () => {
    const { access_token: bearer } = (await signup(v0, {})).json;
    expect(
      statusAndCode(await v0.call('POST', '/factors', { bearer, body: { factor_type: 'totp' } })),
    ).toEqual([403, 'no_authorization']);
    expect(statusAndCode(await v0.call('PUT', '/user', { bearer, body: { password: PASSWORD } }))).toEqual([
      422,
      'validation_failed',
    ]);
    expect((await v0.call('POST', '/logout', { bearer })).status).toBe(204);
  });

  test('become full users by PUT /user', async () => {
    const anonymous = (await signup(v0, {})).json;
    const email = anEmail();
    const put = await v0.call('PUT', '/user', {
      bearer: anonymous.access_token,
      body: { email, password: PASSWORD },
    });
    expect(put.json).toMatchObject({
      id: anonymous.user.id,
      is_anonymous: false,
      email,
      identities: [{ provider: 'email' }],
    });
    const refreshed = await v0.call('POST', '/token?grant_type=refresh_token', {
      body: { refresh_token: anonymous.refresh_token },
    });
    expect(decodeClaims(refreshed.json.access_token)).toMatchObject({
      role: 'authenticated',
      is_anonymous: false,
    });
    expect((await signIn(v0, email, PASSWORD)).status).toBe(200);
  });

  test('with verification the new address answers first', async () => {
    const anonymous = (await signup(v1, {})).json;
    const email = anEmail();
    const put = await v1.call('PUT', '/user', { bearer: anonymous.access_token, body: { email } });
    expect(put.json).toMatchObject({ new_email: email, is_anonymous: true, email: '' });
    const { code } = mailSecrets((await v1.mails(email))[0]!);
    const verified = await v1.call('POST', '/verify', { body: { type: 'email_change', email, token: code } });
    expect(verified.json.user).toMatchObject({ id: anonymous.user.id, is_anonymous: false, email });
  });

  test('sign-up with their token keeps the id', async () => {
    const anonymous = (await signup(v0, {})).json;
    const reply = await signup(v0, { email: anEmail(), password: PASSWORD }, anonymous.access_token);
    expect(reply.json.user.id).toBe(anonymous.user.id);
    expect(decodeClaims(reply.json.access_token)).toMatchObject({
      role: 'authenticated',
      is_anonymous: false,
    });
    expect((await v0.call('GET', '/user', { bearer: anonymous.access_token })).json.error_code).toBe(
      'session_not_found',
    );
  });

  test('with verification on', async () => {
    const anonymous = (await signup(v1, {})).json;
    const email = anEmail();
    const pending = await signup(v1, { email, password: PASSWORD }, anonymous.access_token);
    expect(pending.json).toMatchObject({ id: anonymous.user.id, is_anonymous: true, new_email: email });
    const { token } = mailSecrets((await v1.mails(email))[0]!);
    const verified = await v1.call('POST', '/verify', { body: { type: 'email_change', token_hash: token } });
    expect(verified.json.user).toMatchObject({ id: anonymous.user.id, is_anonymous: false });
    expect((await signIn(v1, email, PASSWORD)).status).toBe(200);
  });

  test('sign-up with the key alone makes a new user', async () => {
    const reply = await signup(v0, { email: anEmail(), password: PASSWORD }, v0.keys.publishable);
    expect(reply.status).toBe(200);
  });
});

describe('passwords', () => {
  test('the right password signs in', async () => {
    const user = await aUser(v0);
    const before = Date.now();
    const first = await signIn(v0, user.email.toUpperCase(), user.password);
    const after = Date.now();
    const second = await signIn(v0, user.email, user.password);
    expect(first.status).toBe(200);
    const signedInAt = Date.parse(first.json.user.last_sign_in_at);
    expect(signedInAt).toBeGreaterThanOrEqual(before - 1);
    expect(signedInAt).toBeLessThanOrEqual(after);
    expect(decodeClaims(first.json.access_token).session_id).not.toBe(
      decodeClaims(second.json.access_token).session_id,
    );
    expect(decodeClaims(first.json.access_token).amr[0].method).toBe('password');
  });

  test('one answer for wrong, unknown and password-less', async () => {
    const user = await aUser(v0);
    await v0.admin().auth.admin.createUser({ email: 'nopassword@example.com', email_confirm: true });
    const replies = await Promise.all([
      signIn(v0, user.email, 'wrong password'),
      signIn(v0, 'nobody@example.com', 'wrong password'),
      signIn(v0, 'nopassword@example.com', 'wrong password'),
      signIn(v0, 'not an address', 'wrong password'),
    ]);
    expect(new Set(replies.map((reply) => `${reply.status} ${reply.text}`)).size).toBe(1);
    expect(statusAndCode(replies[0])).toEqual([400, 'invalid_credentials']);
    expect(replies[0].json.msg).toBe('Invalid login credentials');
  });

  test('only a caller with the password learns the state of an account', async () => {
    const email = anEmail();
    await signup(v1, { email, password: PASSWORD });
    expect(statusAndCode(await signIn(v1, email, PASSWORD))).toEqual([400, 'email_not_confirmed']);
    expect(statusAndCode(await signIn(v1, email, 'wrong password'))).toEqual([400, 'invalid_credentials']);
    const user = await aUser(v0);
    await v0.admin().auth.admin.updateUserById(user.id, { ban_duration: '1h' });
    expect(statusAndCode(await signIn(v0, user.email, user.password))).toEqual([400, 'user_banned']);
    expect(statusAndCode(await signIn(v0, user.email, 'wrong password'))).toEqual([
      400,
      'invalid_credentials',
    ]);
  });

  test('bad requests are refused', async () => {
    const token = (grant: string, body: unknown) => v0.call('POST', `/token?grant_type=${grant}`, { body });
    expect(statusAndCode(await token('password', { password: 'x' }))).toEqual([400, 'validation_failed']);
    expect(statusAndCode(await token('password', { email: 'a@b.co', phone: '+491', password: 'x' }))).toEqual(
      [400, 'validation_failed'],
    );
    expect(statusAndCode(await token('password', { phone: '+4912345', password: 'x' }))).toEqual([
      422,
      'phone_provider_disabled',
    ]);
    expect(statusAndCode(await token('foo', {}))).toEqual([400, 'invalid_credentials']);
    expect(statusAndCode(await v0.call('POST', '/token', { body: {} }))).toEqual([
      400,
      'invalid_credentials',
    ]);
  });

  test('a password that has become weak still signs in, with a warning', async () => {
    const reply = await signInImported(await bcryptHash('abc', 4), 'abc');
    expect(reply.json.weak_password).toEqual({ message: expect.any(String), reasons: ['length'] });
  });

  test('imported hashes work and are replaced', async () => {
    const cheap = { algorithm: 2, memoryCost: 1024, timeCost: 1, parallelism: 1 } as const;
    const firebase =
      '$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,' +
      'sk=jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==' +
      '$42xEC+ixf3L2lw==' +
      '$lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==';
    for (const [hash, password] of [
      [await bcryptHash(PASSWORD, 4), PASSWORD],
      [await argon2Hash(PASSWORD, cheap), PASSWORD],
      [firebase, 'user1password'],
    ] as const) {
      const reply = await signInImported(hash, password);
      expect(reply.status).toBe(200);
      expect((await signIn(v0, reply.json.user.email, 'wrong password')).status).toBe(400);
      const [row] = await v0.query(
        sql`select encrypted_password from auth.users where id = ${reply.json.user.id}`,
      );
      expect(row?.['encrypted_password']).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
      expect((await signIn(v0, reply.json.user.email, password)).status).toBe(200);
    }
  });

  async function signInImported(password_hash: string, password: string): Promise<Reply> {
    const email = anEmail();
    const body = { email, password_hash, email_confirm: true };
    expect((await v0.call('POST', '/admin/users', { apikey: v0.keys.secret, body })).status).toBe(200);
    return await signIn(v0, email, password);
  }

  test('a soft-deleted user cannot sign in', async () => {
    const user = await aUser(v0);
    await v0.admin().auth.admin.deleteUser(user.id, true);
    expect(statusAndCode(await signIn(v0, user.email, user.password))).toEqual([400, 'invalid_credentials']);
    expect((await signup(v0, { email: user.email, password: PASSWORD })).status).toBe(200);
  });
});
