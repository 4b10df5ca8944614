// Parity rows OT, VF, RC, RS, RE, PK: all flows through a mailbox.
import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  aUser,
  decodeClaims,
  readForm,
  navigate,
  pressButton,
  parseRedirect,
  mailSecrets,
  startAuth,
  type AuthWorld,
  type Reply,
  withAuth,
} from '../../support/auth-world.ts';
import { sql } from '../../../src/postgres/sql.ts';

const APP = 'https://app.example';
let v0: AuthWorld;
let v1: AuthWorld;

beforeAll(async () => {
  v0 = await startAuth({ auth: { redirectUrls: [APP] } });
  v1 = await startAuth({ verifyEmail: true, auth: { redirectUrls: [APP] } });
});
afterAll(async () => {
  await v0.close();
  await v1.close();
});

let count = 0;
const anEmail = (): string => `mail${++count}@example.com`;
const statusAndCode = (reply: Reply): unknown => [reply.status, reply.json.error_code];
const post = (world: AuthWorld, path: string, body: unknown): Promise<Reply> =>
  world.call('POST', path, { body });
const newest = async (world: AuthWorld, to: string) => mailSecrets((await world.mails(to))[0]!);

function pkce(): { verifier: string; body: { code_challenge: string; code_challenge_method: string } } {
  const verifier = randomBytes(56).toString('hex');
  return {
    verifier,
    body: {
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 's256',
    },
  };
}

describe('one-time passwords', () => {
  test('without the email block there is no such endpoint', async () => {
    await withAuth(v0, { email: undefined }, async () => {
      expect((await post(v0, '/otp', { email: anEmail() })).status).toBe(404);
      expect((await post(v0, '/magiclink', { email: anEmail() })).status).toBe(404);
    });
  });

  test('without a provider the answer is {} and nothing happens', async () => {
    const p0 = await startAuth({ mail: 'none' });
    try {
      const reply = await post(p0, '/otp', { email: 'p0@example.com' });
      expect([reply.status, reply.text]).toEqual([200, '{}']);
      expect((await post(p0, '/recover', { email: 'p0@example.com' })).text).toBe('{}');
      expect((await post(p0, '/resend', { type: 'signup', email: 'p0@example.com' })).text).toBe('{}');
      expect(await p0.query(sql`select id from auth.users`)).toEqual([]);
      const { error } = await p0.client().auth.signInWithOtp({ email: 'p0@example.com' });
      expect(error).toBeNull();
      const user = await aUser(p0);
      expect(statusAndCode(await p0.call('GET', '/reauthenticate', { bearer: user.access }))).toEqual([
        422,
        'email_provider_disabled',
      ]);
      const invite = await p0.call('POST', '/invite', {
        apikey: p0.keys.secret,
        body: { email: 'x@example.com' },
      });
      expect(statusAndCode(invite)).toEqual([422, 'email_provider_disabled']);
      // D-23: without a mail provider, a new address counts immediately.
      const put = await p0.call('PUT', '/user', {
        bearer: user.access,
        body: { email: 'moved@example.com' },
      });
      expect(put.json.email).toBe('moved@example.com');
    } finally {
      await p0.close();
    }
  });

  test('a known user gets a link and a code', async () => {
    const user = await aUser(v0);
    const reply = await v0.call('POST', `/otp?redirect_to=${APP}/in`, { body: { email: user.email } });
    expect([reply.status, reply.text]).toEqual([200, '{}']);
    const [mail] = await v0.mails(user.email);
    expect(mail?.kind).toBe('magic_link');
    const { link, code } = mailSecrets(mail!);
    expect(`${link.origin}${link.pathname}`).toBe(`${v0.url}/auth/v1/verify`);
    expect(Object.fromEntries(link.searchParams)).toMatchObject({
      type: 'magiclink',
      redirect_to: `${APP}/in`,
    });
    expect(link.searchParams.get('token')).toMatch(/^[0-9a-f]{56}$/);
    expect(code).toMatch(/^\d{6}$/);
  });

  test('an unknown one is created, unconfirmed and without a session', async () => {
    const email = anEmail();
    await post(v0, '/otp', { email, data: { nick: 'n' } });
    const [row] = await v0.query(sql`
      select u.email_confirmed_at, u.encrypted_password, u.raw_user_meta_data ->> 'nick' as nick,
        (select count(*)::int from auth.sessions s where s.user_id = u.id) as sessions
      from auth.users u where u.email = ${email}`);
    expect(row).toEqual({ email_confirmed_at: null, encrypted_password: null, nick: 'n', sessions: 0 });
  });

  test.each([
    [
      'unknown user who must not be created',
      { create_user: false, email: 'never@example.com' },
      [422, 'otp_disabled'],
    ],
    ['neither address nor phone', {}, [400, 'validation_failed']],
    ['channel with an address', { email: 'c@example.com', channel: 'sms' }, [400, 'validation_failed']],
    ['phone', { phone: '+4912345' }, [400, 'phone_provider_disabled']],
  ])('%s %j', async (_id, body, expected) => {
    expect(statusAndCode(await post(v0, '/otp', body))).toEqual(expected);
  });

  test('sign-up off; a minute between mails, for everybody', async () => {
    await withAuth(v0, { allowSignup: false }, async () => {
      expect(statusAndCode(await post(v0, '/otp', { email: anEmail() }))).toEqual([422, 'signup_disabled']);
    });
    const email = anEmail();
    expect((await post(v0, '/otp', { email })).status).toBe(200);
    expect(statusAndCode(await post(v0, '/otp', { email }))).toEqual([429, 'over_email_send_rate_limit']);
  });

  test('with a challenge the link ends in a code', async () => {
    const user = await aUser(v0);
    const { verifier, body } = pkce();
    await post(v0, '/recover', { email: user.email, ...body });
    const { link, token } = await newest(v0, user.email);
    expect(token).toMatch(/^pkce_/);
    const reply = await v0.call('GET', link.href, { apikey: null });
    expect(reply.status).toBe(303);
    const { query, fragment } = parseRedirect(reply);
    expect(fragment).toEqual({});
    const session = await post(v0, '/token?grant_type=pkce', {
      auth_code: query['code'],
      code_verifier: verifier,
    });
    expect(decodeClaims(session.json.access_token).amr[0].method).toBe('recovery');
  });

  test('unknown codes, empty fields and late exchanges are refused', async () => {
    const exchange = (auth_code: string, code_verifier: string) =>
      post(v0, '/token?grant_type=pkce', { auth_code, code_verifier });
    expect(statusAndCode(await exchange('unknown', 'x'))).toEqual([404, 'flow_state_not_found']);
    expect(statusAndCode(await exchange('', ''))).toEqual([400, 'validation_failed']);
    const verifier = randomBytes(40).toString('hex');
    const email = anEmail();
    await post(v0, '/otp', { email, code_challenge: verifier, code_challenge_method: 'plain' });
    const code =
      parseRedirect(await v0.call('GET', (await newest(v0, email)).link.href, { apikey: null })).query[
        'code'
      ] ?? '';
    v0.ahead += 301_000;
    expect(statusAndCode(await exchange(code, verifier))).toEqual([422, 'flow_state_expired']);
    v0.ahead -= 301_000;
    expect((await exchange(code, verifier)).status).toBe(200);
  });

  test('a sign-up link clicked late still ends in a session', async () => {
    const { verifier, body } = pkce();
    const email = anEmail();
    await post(v1, '/signup', { email, password: 'correct horse', ...body });
    const { link } = await newest(v1, email);
    v1.ahead += 600_000;
    const { query } = parseRedirect(await v1.call('GET', link.href, { apikey: null }));
    const session = await post(v1, '/token?grant_type=pkce', {
      auth_code: query['code'],
      code_verifier: verifier,
    });
    expect(decodeClaims(session.json.access_token).amr[0].method).toBe('email/signup');
  });
});

describe('verify', () => {
  const order = async (world: AuthWorld, email: string) => {
    await post(world, '/otp', { email });
    return await newest(world, email);
  };
  const verify = (world: AuthWorld, body: unknown) => post(world, '/verify', body);

  test.each(['email', 'magiclink'])('the code as %s', async (type) => {
    const email = anEmail();
    const { code } = await order(v0, email);
    const reply = await verify(v0, {
      type,
      email: email.toUpperCase(),
      token: code,
      options: { redirectTo: APP },
    });
    expect(reply.status).toBe(200);
    expect(decodeClaims(reply.json.access_token).amr[0].method).toBe('otp');
  });

  test('the hash works once and voids the other secrets', async () => {
    const user = await aUser(v0);
    const { token } = await order(v0, user.email);
    await v0.call('GET', '/reauthenticate', { bearer: user.access });
    expect(statusAndCode(await verify(v0, { type: 'email', email: user.email, token: '000000' }))).toEqual([
      403,
      'otp_expired',
    ]);
    expect((await verify(v0, { type: 'magiclink', token_hash: token })).status).toBe(200);
    expect(statusAndCode(await verify(v0, { type: 'magiclink', token_hash: token }))).toEqual([
      403,
      'otp_expired',
    ]);
    expect(await v0.query(sql`select id from auth.one_time_tokens where user_id = ${user.id}`)).toEqual([]);
  });

  test('wrong, unknown and expired are one answer', async () => {
    const email = anEmail();
    const { code } = await order(v0, email);
    const wrong = await verify(v0, { type: 'email', email, token: code === '000000' ? '111111' : '000000' });
    const unknown = await verify(v0, { type: 'email', email: 'unknown@example.com', token: '000000' });
    v0.ahead += 3_601_000;
    const expired = await verify(v0, { type: 'email', email, token: code });
    expect(wrong.text).toBe(unknown.text);
    expect(wrong.text).toBe(expired.text);
    expect(wrong.json).toMatchObject({
      code: 403,
      error_code: 'otp_expired',
      msg: 'Token has expired or is invalid',
    });
  });

  test.each([
    ['hash with an address', { type: 'email', token_hash: 'x', email: 'a@b.co' }, 400],
    ['hash and code, or neither', { type: 'email', token_hash: 'x', token: 'y', email: 'a@b.co' }, 400],
    ['hash and code, or neither', { type: 'email', email: 'a@b.co' }, 400],
    ['no type', { token_hash: 'x' }, 400],
    ['unknown type', { type: 'x', token_hash: 'x' }, 400],
    ['malformed phone', { type: 'sms', phone: '1-x', token: '123456' }, 400],
    ['phone', { type: 'sms', phone: '+4912345', token: '123456' }, 403],
    ['bad address', { type: 'email', email: 'x', token: '123456' }, 422],
  ])('%s %j → %i', async (_id, body, status) => {
    expect((await verify(v0, body)).status).toBe(status);
  });

  test('refusals have the texts clients look for', async () => {
    expect((await verify(v0, { type: 'sms', phone: '1-x', token: '123456' })).json.msg).toBe(
      'Invalid phone number format (E.164 required)',
    );
    const user = await aUser(v0);
    await post(v0, '/recover', { email: user.email });
    const { code } = await newest(v0, user.email);
    expect((await verify(v0, { type: 'recovery', email: user.email, token: code })).status).toBe(200);
  });

  test('confirming a sign-up', async () => {
    const email = anEmail();
    await post(v1, '/signup', { email, password: 'correct horse' });
    const { code } = await newest(v1, email);
    const { user } = (await verify(v1, { type: 'signup', email, token: code })).json;
    expect(user.email_confirmed_at).toEqual(expect.any(String));
    expect(user.user_metadata.email_verified).toBe(true);
    expect(user.identities[0].identity_data.email_verified).toBe(true);
    expect(statusAndCode(await verify(v1, { type: 'signup', email, token: code }))).toEqual([
      403,
      'otp_expired',
    ]);
  });

  test('bans hold; recovery confirms', async () => {
    const user = await aUser(v0);
    const { token } = await order(v0, user.email);
    await v0.admin().auth.admin.updateUserById(user.id, { ban_duration: '1h' });
    expect(statusAndCode(await verify(v0, { type: 'magiclink', token_hash: token }))).toEqual([
      403,
      'user_banned',
    ]);
    const email = anEmail();
    await post(v1, '/signup', { email, password: 'correct horse' });
    await post(v1, '/recover', { email });
    const { code } = await newest(v1, email);
    expect((await verify(v1, { type: 'recovery', email, token: code })).json.user.email_confirmed_at).toEqual(
      expect.any(String),
    );
  });

  test('proving a mailbox removes the password of an earlier sign-up', async () => {
    const squatter = await aUser(v0);
    const { code } = await order(v0, squatter.email);
    const owner = await verify(v0, { type: 'email', email: squatter.email, token: code });
    expect(owner.json.user.id).toBe(squatter.id);
    const password = { email: squatter.email, password: squatter.password };
    expect(statusAndCode(await post(v0, '/token?grant_type=password', password))).toEqual([
      400,
      'invalid_credentials',
    ]);
    expect(statusAndCode(await v0.call('GET', '/user', { bearer: squatter.access }))).toEqual([
      403,
      'session_not_found',
    ]);
    // A second mail ends nothing any more.
    await v0.call('PUT', '/user', {
      bearer: owner.json.access_token,
      body: { password: 'chosen by the owner' },
    });
    const again = await order(v0, squatter.email);
    expect((await verify(v0, { type: 'email', email: squatter.email, token: again.code })).status).toBe(200);
    expect(
      (await post(v0, '/token?grant_type=password', { ...password, password: 'chosen by the owner' })).status,
    ).toBe(200);
  });

  test('five wrong codes lock the code, not the link', async () => {
    const email = anEmail();
    const { code, token } = await order(v0, email);
    const wrong = code === '000000' ? '111111' : '000000';
    for (let i = 0; i < 5; i++)
      expect((await verify(v0, { type: 'email', email, token: wrong })).status).toBe(403);
    expect(statusAndCode(await verify(v0, { type: 'email', email, token: code }))).toEqual([
      403,
      'otp_expired',
    ]);
    expect((await verify(v0, { type: 'email', token_hash: token })).status).toBe(200);
  });
});

describe('links', () => {
  const aLink = async (world: AuthWorld): Promise<URL> => {
    const email = anEmail();
    await post(world, '/otp', { email });
    return (await newest(world, email)).link;
  };
  const open = (url: string): Promise<Reply> => v0.call('GET', url, { apikey: null });

  test('a program is sent on with the session in the fragment', async () => {
    const reply = await open((await aLink(v0)).href);
    expect(reply.status).toBe(303);
    expect(reply.headers.get('referrer-policy')).toBe('no-referrer');
    const { target, fragment } = parseRedirect(reply);
    expect(target).toBe(APP);
    expect(fragment).toMatchObject({ type: 'magiclink', token_type: 'bearer', expires_in: '900' });
    expect(Number(fragment['expires_at'])).toBeGreaterThan(1_700_000_000);
    expect((await v0.call('GET', '/user', { bearer: fragment['access_token'] })).status).toBe(200);
  });

  test('an expired link reports it in the fragment', async () => {
    const link = await aLink(v0);
    v0.ahead += 3_601_000;
    expect(parseRedirect(await open(link.href)).fragment).toMatchObject({
      error: 'access_denied',
      error_code: 'otp_expired',
    });
  });

  test('a target that is not on the list is replaced', async () => {
    const link = await aLink(v0);
    link.searchParams.set('redirect_to', 'https://evil.example/');
    expect(parseRedirect(await open(link.href)).target).toBe(APP);
  });

  test('without a list the session is the answer', async () => {
    const link = await aLink(v0);
    link.searchParams.delete('redirect_to');
    await withAuth(v0, { redirectUrls: [] }, async () => {
      const reply = await open(link.href);
      expect(reply.json).toMatchObject({ access_token: expect.any(String), token_type: 'bearer' });
    });
  });

  test('HEAD changes nothing', async () => {
    const { href } = await aLink(v0);
    expect((await v0.call('HEAD', href, { apikey: null })).status).toBe(200);
    expect(parseRedirect(await open(href)).fragment['access_token']).toBeDefined();
  });

  test('a mail scanner sees a page, and the person after it is signed in by the button', async () => {
    const { href } = await aLink(v0);
    for (const agent of [
      'Mozilla/5.0 SafeLinks',
      'facebookexternalhit/1.1',
      'Mozilla/5.0 HeadlessChrome/140',
    ]) {
      const seen = await navigate(href, { 'user-agent': agent });
      expect(seen.status).toBe(200);
      expect(seen.text).toContain('<form method="post">');
      expect(seen.text).not.toMatch(/<script/i);
      expect(seen.text).not.toContain('token');
      expect(seen.headers.get('content-security-policy')).toContain("default-src 'none'");
    }
    const bot = await v0.call('GET', href, {
      apikey: null,
      headers: { 'user-agent': 'Slackbot-LinkExpanding 1.0', accept: '*/*', via: '1.1 proxy' },
    });
    expect(bot.status).toBe(200);
    const pressed = await pressButton(href);
    expect(pressed.status).toBe(303);
    expect(parseRedirect(pressed).fragment['access_token']).toBeDefined();
    expect(parseRedirect(await pressButton(href)).fragment['error_code']).toBe('otp_expired');
  });

  // The header `via` shows that a proxy is in between, so the request does not come from this machine.
  test.each([
    [
      'Office',
      {
        accept: '*/*',
        'user-agent': 'Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 10.0; Win64; x64; ms-office)',
      },
    ],
    ['Google-Safety', { accept: '*/*', 'user-agent': 'Google-Safety' }],
    ['an unknown program', { accept: '*/*', 'user-agent': 'anything/1.0' }],
    ['a program that asks for data', { accept: 'application/json' }],
    ['a prefetching client', { accept: '*/*', apikey: 'any', 'sec-purpose': 'prefetch' }],
  ])('%s gets the page from elsewhere, and the link stays valid', async (_who, headers) => {
    const { href } = await aLink(v0);
    const seen = await v0.call('GET', href, { apikey: null, headers: { ...headers, via: '1.1 proxy' } });
    expect([seen.status, seen.headers.get('cache-control')]).toEqual([200, 'no-store']);
    expect(seen.text).toContain('<form method="post">');
    expect(parseRedirect(await pressButton(href)).fragment['access_token']).toBeDefined();
  });

  test.each([
    ['a client library by its key', { accept: '*/*', apikey: 'any' }],
    ['a client library by its name', { accept: '*/*', 'x-client-info': 'supabase-py/2' }],
  ])('%s is redirected at once from elsewhere', async (_who, headers) => {
    const { href } = await aLink(v0);
    const reply = await v0.call('GET', href, { apikey: null, headers: { ...headers, via: '1.1 proxy' } });
    expect(parseRedirect(reply).fragment['access_token']).toBeDefined();
  });

  test('the page can be posted for ten minutes; afterwards it is shown again and redeems nothing', async () => {
    const { href } = await aLink(v0);
    const form = readForm(await navigate(href));
    v0.ahead += 601_000;
    const late = await navigate(href, {}, form);
    expect(late.status).toBe(403);
    expect(late.text).toContain('Please choose again');
    const again = readForm(late);
    v0.ahead += 599_000;
    expect(parseRedirect(await navigate(href, {}, again)).fragment['access_token']).toBeDefined();
  });

  test.each([
    ['no value', () => ''],
    [
      'a value with a later time',
      (form: string) => form.replace(/\d+(?=\.)/, (time) => `${Number(time) + 1000}`),
    ],
    ['a value that is not signed', () => `form=${Date.now() + 60_000}.`],
  ])('a form with %s redeems nothing', async (_what, change) => {
    const { href } = await aLink(v0);
    const form = readForm(await navigate(href));
    expect((await navigate(href, {}, change(form))).status).toBe(403);
    expect(parseRedirect(await navigate(href, {}, form)).fragment['access_token']).toBeDefined();
  });

  test('the form of one link does not redeem another link', async () => {
    const form = readForm(await navigate((await aLink(v0)).href));
    const { href } = await aLink(v0);
    expect((await navigate(href, {}, form)).status).toBe(403);
  });

  test('missing parameters are a plain 400', async () => {
    expect((await open(`${v0.url}/auth/v1/verify?type=signup`)).status).toBe(400);
    expect((await open(`${v0.url}/auth/v1/verify?token=x`)).status).toBe(400);
  });
});

describe('recover, resend, reauthenticate', () => {
  test('a known address gets a mail, and an unknown one gets the same response', async () => {
    const user = await aUser(v0);
    const known = await post(v0, '/recover', { email: user.email });
    const unknown = await post(v0, '/recover', { email: 'nobody@example.com' });
    expect([known.status, known.text]).toEqual([unknown.status, unknown.text]);
    expect(await v0.mails('nobody@example.com')).toEqual([]);
    expect((await newest(v0, user.email)).link.searchParams.get('type')).toBe('recovery');
    expect((await post(v0, '/recover', {})).status).toBe(400);
    expect((await post(v0, '/recover', { email: 'x' })).status).toBe(400);
    expect((await post(v0, '/recover', { email: 'nobody@example.com' })).status).toBe(429);
  });

  test('sends a sign-up mail again', async () => {
    const email = anEmail();
    await post(v1, '/signup', { email, password: 'correct horse' });
    const old = await newest(v1, email);
    expect(statusAndCode(await post(v1, '/resend', { type: 'signup', email }))).toEqual([
      429,
      'over_email_send_rate_limit',
    ]);
    v1.ahead += 61_000;
    expect((await post(v1, '/resend', { type: 'signup', email })).text).toBe('{}');
    const fresh = await newest(v1, email);
    expect((await post(v1, '/verify', { type: 'signup', email, token: old.code })).status).toBe(
      old.code === fresh.code ? 200 : 403,
    );
    expect((await post(v1, '/verify', { type: 'signup', email, token: fresh.code })).status).toBe(200);
    expect((await post(v1, '/resend', { type: 'signup', email })).text).toBe('{}');
    expect(await v1.mails(email)).toHaveLength(2);
    expect((await post(v1, '/resend', { type: 'signup', email: 'nobody1@example.com' })).text).toBe('{}');
  });

  test('sends an email change again, and nothing else', async () => {
    const user = await aUser(v0);
    const email = anEmail();
    await v0.call('PUT', '/user', { bearer: user.access, body: { email } });
    v0.ahead += 61_000;
    expect((await post(v0, '/resend', { type: 'email_change', email: user.email })).text).toBe('{}');
    expect(await v0.mails(email)).toHaveLength(2);
    expect((await post(v0, '/resend', { type: 'x', email })).status).toBe(400);
    expect((await post(v0, '/resend', { email })).status).toBe(400);
    expect(statusAndCode(await post(v0, '/resend', { type: 'sms', phone: '+4912345' }))).toEqual([
      400,
      'phone_provider_disabled',
    ]);
  });

  test('mails a code without a link, to a signed-in user with an address', async () => {
    const user = await aUser(v0);
    const reply = await v0.call('GET', '/reauthenticate', { bearer: user.access });
    expect([reply.status, reply.text]).toEqual([200, '{}']);
    const [mail] = await v0.mails(user.email);
    expect(mail?.subject).toMatch(/^\d{6} /);
    expect(mail?.html).not.toContain('/verify?');
    expect((await v0.call('GET', '/reauthenticate')).status).toBe(401);
    const anonymous = await post(v0, '/signup', {});
    expect(
      statusAndCode(await v0.call('GET', '/reauthenticate', { bearer: anonymous.json.access_token })),
    ).toEqual([400, 'validation_failed']);
  });
});

describe('the client library', () => {
  test.each(['newest', '2.107'] as const)('otp, verifyOtp, recovery, resend with %s', async (version) => {
    const client = version === 'newest' ? v0.client() : v0.oldClient();
    const email = anEmail();
    expect(
      (await client.auth.signInWithOtp({ email, options: { emailRedirectTo: `${APP}/in`, data: { a: 1 } } }))
        .error,
    ).toBeNull();
    const { code } = await newest(v0, email);
    const verified = await client.auth.verifyOtp({ email, token: code, type: 'email' });
    expect(verified.data.session?.access_token).toBeDefined();
    expect((await client.auth.reauthenticate()).error).toBeNull();
    expect((await client.auth.resetPasswordForEmail(email, { redirectTo: `${APP}/reset` })).error).toBeNull();
    const recovery = await newest(v0, email);
    const hash = await client.auth.verifyOtp({ token_hash: recovery.token, type: 'recovery' });
    expect(hash.error).toBeNull();
    expect((await client.auth.updateUser({ password: 'a new password' })).error).toBeNull();
    expect((await client.auth.resend({ type: 'signup', email })).error).toBeNull();
    expect((await client.auth.signInWithPassword({ email, password: 'a new password' })).error).toBeNull();
  });
});
