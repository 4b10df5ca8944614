// Sign-in with a real OpenID provider. Every redirect is followed, and nothing is mocked.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createHash, randomBytes } from 'node:crypto';
import {
  aUser,
  decodeClaims,
  navigate,
  parseRedirect,
  startAuth,
  type AuthWorld,
  type Reply,
} from '../../support/auth-world.ts';
import { signInAt, startOidcPeer, type OidcPeer } from '../../support/peers/oidc-peer.ts';
import { sql } from '../../../src/postgres/sql.ts';

const APP = 'https://app.example';
let world: AuthWorld;
let peer: OidcPeer;

beforeAll(async () => {
  world = await startAuth({ auth: { redirectUrls: [APP] } });
  const redirectUrl = (name: string) => `${world.url}/auth/v1/callback/${name}`;
  peer = await startOidcPeer([
    {
      client_id: 'svc',
      client_secret: 'a-secret-of-the-client',
      redirect_uris: [redirectUrl('acme'), redirectUrl('other')],
    },
  ]);
  const provider = (name: string) => ({
    name,
    clientId: 'svc',
    clientSecret: 'a-secret-of-the-client',
    redirectUrl: redirectUrl(name),
    issuer: peer.issuer,
    url: undefined,
    scopes: undefined,
    emailOptional: false,
    position: { line: 1, column: 1 },
  });
  configure({ oauth: [provider('acme'), provider('other')] });
});
afterAll(async () => {
  await peer?.stop();
  await world.close();
});

function configure(change: Partial<AuthWorld['config']['auth']>): void {
  world.config = { ...world.config, auth: { ...world.config.auth, ...change } };
}

async function begin(query = '', bearer?: string): Promise<string> {
  const path = `/authorize?provider=acme&redirect_to=${encodeURIComponent(`${APP}/after`)}${query}`;
  const reply = await world.call('GET', path, { apikey: null, bearer });
  expect(reply.status).toBe(307);
  return reply.headers.get('location') ?? '';
}

async function through(login: string, query = ''): Promise<Reply> {
  return await world.call('GET', await signInAt(await begin(query), login), { apikey: null });
}

function pkce(): { verifier: string; query: string } {
  const verifier = randomBytes(56).toString('hex');
  const challenge = createHash('sha256').update(verifier).digest('base64url');
  return { verifier, query: `&code_challenge=${challenge}&code_challenge_method=s256` };
}

describe('redirects', () => {
  test('implicit: the fragment contains the tokens and the provider token', async () => {
    const reply = await through('implicit|implicit@example.com|true');
    expect(reply.status).toBe(302);
    const { target, fragment, query } = parseRedirect(reply);
    expect(target).toBe(`${APP}/after`);
    expect(query).toEqual({});
    expect(fragment).toMatchObject({
      token_type: 'bearer',
      expires_in: '900',
      provider_token: expect.any(String),
    });
    const claims = decodeClaims(fragment['access_token'] ?? '');
    expect(claims).toMatchObject({
      email: 'implicit@example.com',
      role: 'authenticated',
      amr: [{ method: 'oauth' }],
      app_metadata: { provider: 'acme', providers: ['acme'] },
      user_metadata: { full_name: 'Name of implicit', avatar_url: 'https://example.com/a.png' },
    });
    const user = await world.call('GET', '/user', { bearer: fragment['access_token'] });
    expect(user.json.identities[0]).toMatchObject({
      provider: 'acme',
      identity_data: { email_verified: true },
    });
  });

  test('a code is exchanged once, with its verifier', async () => {
    const { verifier, query } = pkce();
    const reply = await through('coder|coder@example.com|true', query);
    expect(reply.status).toBe(302);
    const redirect = parseRedirect(reply);
    expect(redirect.fragment).toEqual({});
    const code = redirect.query['code'];
    const exchange = (code_verifier: string) =>
      world.call('POST', '/token?grant_type=pkce', { body: { auth_code: code, code_verifier } });
    expect((await exchange('wrong'.repeat(12))).json.error_code).toBe('bad_code_verifier');
    const session = await exchange(verifier);
    expect(session.status).toBe(200);
    expect(session.json.provider_token).toEqual(expect.any(String));
    expect(decodeClaims(session.json.access_token).amr[0].method).toBe('oauth');
    expect((await exchange(verifier)).json.error_code).toBe('flow_state_not_found');
    const refreshed = await world.call('POST', '/token?grant_type=refresh_token', {
      body: { refresh_token: session.json.refresh_token },
    });
    expect(refreshed.json).not.toHaveProperty('provider_token');
  });

  test('a state works once', async () => {
    const { query } = pkce();
    const back = await signInAt(await begin(query), 'replayer|replayer@example.com|true');
    expect(parseRedirect(await world.call('GET', back, { apikey: null })).query['code']).toBeDefined();
    expect(parseRedirect(await world.call('GET', back, { apikey: null })).fragment['error_code']).toBe(
      'flow_state_already_used',
    );
  });

  test('a code the provider refuses is only logged', async () => {
    const back = new URL(await signInAt(await begin(), 'broken|broken@example.com|true'));
    back.searchParams.set('code', 'made-up');
    const { fragment } = parseRedirect(await world.call('GET', back.href, { apikey: null }));
    expect(fragment).toMatchObject({ error: 'server_error', error_code: 'unexpected_failure' });
  });

  test('the user’s refusal is passed on', async () => {
    const back = await signInAt(await begin(), 'nobody', 'abort');
    expect(parseRedirect(await world.call('GET', back, { apikey: null })).fragment['error']).toBe(
      'access_denied',
    );
  });

  test('an unknown state redirects to the default target', async () => {
    const reply = await world.call('GET', '/callback/acme?code=x&state=made-up', { apikey: null });
    expect(parseRedirect(reply)).toMatchObject({
      target: `${APP}/`,
      query: { error_code: 'bad_oauth_state' },
      fragment: { error_code: 'bad_oauth_state' },
    });
  });

  test('the case of a provider name does not matter', async () => {
    const reply = await world.call('GET', '/authorize?provider=ACME', { apikey: null });
    expect([reply.status, calledBack(reply)]).toEqual([307, 'acme']);
  });

  /** Returns the name in the callback URL of the request to the provider. */
  function calledBack(reply: Reply): string | undefined {
    const callback = new URL(reply.headers.get('location') ?? '').searchParams.get('redirect_uri');
    return callback?.split('/').at(-1);
  }

  test('errors of a PKCE flow are in the query and the fragment, all others only in the fragment', async () => {
    const collectErrors = async (login: string, submit?: 'consent' | 'abort') => {
      const answers = [];
      for (const query of [pkce().query, '']) {
        const back = await signInAt(await begin(query), login, submit);
        answers.push(parseRedirect(await world.call('GET', back, { apikey: null })));
      }
      return answers.map((answer) => [
        answer.query['error_code'] ?? answer.query['error'],
        answer.fragment['error_code'] ?? answer.fragment['error'],
      ]);
    };
    expect(await collectErrors('nobody', 'abort')).toEqual([
      ['access_denied', 'access_denied'],
      [undefined, 'access_denied'],
    ]);
    const { email } = await aUser(world);
    const [inPkce, implicit] = await collectErrors(`taker|${email}|false`);
    expect(inPkce?.[0]).toBe(inPkce?.[1]);
    expect(inPkce?.[0]).toBeDefined();
    expect(implicit).toEqual([undefined, inPkce?.[1]]);
  });

  test('every fragment has the parameter by which client libraries recognise it', async () => {
    const tokens = await through('marked|marked@example.com|true');
    const refusal = await world.call('GET', '/callback/acme?code=x&state=made-up', { apikey: null });
    for (const reply of [tokens, refusal]) expect(parseRedirect(reply).fragment['sb']).toBe('');
  });

  test('a state works only on the path of its provider', async () => {
    const back = await signInAt(await begin(), 'mixed|mixed@example.com|true');
    const reply = await world.call('GET', back.replace('/callback/acme', '/callback/other'), {
      apikey: null,
    });
    expect(parseRedirect(reply).fragment['error_code']).toBe('bad_oauth_state');
    // The right path still works: the wrong one spent nothing.
    expect(
      parseRedirect(await world.call('GET', back, { apikey: null })).fragment['access_token'],
    ).toBeDefined();
  });

  test('without any target the session is the answer', async () => {
    configure({ redirectUrls: [] });
    try {
      const reply = await world.call('GET', '/authorize?provider=acme', { apikey: null });
      const back = await signInAt(reply.headers.get('location') ?? '', 'raw|raw@example.com|true');
      const session = await world.call('GET', back, { apikey: null });
      expect(session.status).toBe(200);
      expect(session.json).toMatchObject({ token_type: 'bearer', provider_token: expect.any(String) });
    } finally {
      configure({ redirectUrls: [APP] });
    }
  });

  test('a browser that did not begin the flow cannot finish it', async () => {
    const back = await signInAt(await begin(), 'victim|victim@example.com|true');
    const reply = await navigate(back);
    expect(parseRedirect(reply).fragment['error_code']).toBe('bad_oauth_state');
  });

  test('the browser that began the flow finishes it', async () => {
    const started = await world.call('GET', '/authorize?provider=acme', { apikey: null });
    const cookie = started.headers.getSetCookie()[0] ?? '';
    expect(cookie).toMatch(/HttpOnly/);
    const back = await signInAt(started.headers.get('location') ?? '', 'same|same@example.com|true');
    const reply = await navigate(back, { cookie: cookie.split(';')[0] ?? '' });
    expect(parseRedirect(reply).fragment['access_token']).toBeDefined();
  });
});

describe('authorize', () => {
  test('the redirect carries the parameters of flow, provider and application', async () => {
    const location = new URL(
      await begin('&access_type=offline&redirect_uri=evil&State=x&scopes=repo,deploy&Client_Id=evil'),
    );
    const sent = Object.fromEntries(location.searchParams);
    expect(sent).toMatchObject({
      access_type: 'offline',
      redirect_uri: `${world.url}/auth/v1/callback/acme`,
      client_id: 'svc',
      response_type: 'code',
      scope: 'openid profile email repo deploy',
      code_challenge_method: 'S256',
    });
    expect(sent['state']).toMatch(/^[\w-]{43}$/);
    expect([...location.searchParams.keys()].filter((key) => /state|client_id/i.test(key))).toEqual(
      expect.arrayContaining(['state', 'client_id']),
    );
    expect(location.searchParams.has('State')).toBe(false);
    expect(location.searchParams.has('Client_Id')).toBe(false);
  });

  test('missing or unknown providers and wrong challenges are refused', async () => {
    const get = (path: string) => world.call('GET', path, { apikey: null });
    expect((await get('/authorize?provider=nope')).json.error_code).toBe('validation_failed');
    expect((await get('/authorize')).status).toBe(400);
    expect((await get(`/authorize?provider=acme&code_challenge=${'a'.repeat(43)}`)).status).toBe(400);
  });
});

describe('the account of an identity', () => {
  const readError = async (login: string): Promise<Record<string, string>> =>
    parseRedirect(await through(login)).fragment;

  test('a proven account gets the identity', async () => {
    const made = await world
      .admin()
      .auth.admin.createUser({ email: 'proven@example.com', password: 'correct horse', email_confirm: true });
    const { fragment } = parseRedirect(await through('proven|proven@example.com|true'));
    const user = await world.call('GET', '/user', { bearer: fragment['access_token'] });
    expect(user.json.id).toBe(made.data.user?.id);
    expect(user.json.identities).toHaveLength(2);
    expect(user.json.app_metadata.providers).toEqual(['email', 'acme']);
    const password = { email: 'proven@example.com', password: 'correct horse' };
    expect((await world.call('POST', '/token?grant_type=password', { body: password })).status).toBe(200);
  });

  test('an unproven account with a verified factor is not joined', async () => {
    const guarded = await aUser(world, { email: 'guarded@example.com' });
    await world.query(sql`
      insert into auth.mfa_factors (user_id, friendly_name, factor_type, status)
      values (${guarded.id}, 'f', 'totp', 'verified')`);
    expect(await readError('stranger|guarded@example.com|true')).toMatchObject({
      error: 'access_denied',
      error_code: 'insufficient_aal',
    });
    const user = await world.call('GET', '/user', { bearer: guarded.access });
    expect(user.json.identities).toHaveLength(1);
  });

  test('the owner of the mailbox gets an unproven account without its password', async () => {
    const squatter = await aUser(world, { email: 'squatted@example.com', data: { planted: true } });
    const { fragment } = parseRedirect(await through('owner|squatted@example.com|true'));
    const user = await world.call('GET', '/user', { bearer: fragment['access_token'] });
    expect(user.json.id).toBe(squatter.id);
    expect(user.json.user_metadata).toHaveProperty('planted', true);
    expect((await world.call('GET', '/user', { bearer: squatter.access })).json.error_code).toBe(
      'session_not_found',
    );
    const password = { email: squatter.email, password: squatter.password };
    expect((await world.call('POST', '/token?grant_type=password', { body: password })).json.error_code).toBe(
      'invalid_credentials',
    );
  });

  test.each(['false', 'text', ''])('an unverified address (%j) joins nothing', async (verified) => {
    const email = `unverified${verified}@example.com`;
    await aUser(world, { email });
    expect(await readError(`thief${verified}|${email}|${verified}`)).toMatchObject({
      error: 'access_denied',
      error_code: 'provider_email_needs_verification',
    });
    const [count] = await world.query<{ n: number }>(
      sql`select count(*)::int as n from auth.identities where provider = 'acme' and email = ${email}`,
    );
    expect(count?.n).toBe(0);
  });

  test('an unverified address without an account signs in, unproven', async () => {
    const { fragment } = parseRedirect(await through('newcomer|newcomer@example.com|false'));
    const [row] = await world.query<{ email_proven_at: Date | null }>(
      sql`select email_proven_at from auth.users where email = 'newcomer@example.com'`,
    );
    expect(fragment['access_token']).toBeDefined();
    expect(row?.email_proven_at).toBeNull();
  });

  test('no address is an error', async () => {
    expect(await readError('faceless')).toMatchObject({ error_code: 'unexpected_failure' });
  });

  test('a banned user cannot sign in', async () => {
    const { fragment } = parseRedirect(await through('banned|banned@example.com|true'));
    const { sub } = decodeClaims(fragment['access_token'] ?? '');
    await world.admin().auth.admin.updateUserById(sub, { ban_duration: '1h' });
    expect(await readError('banned|banned@example.com|true')).toMatchObject({
      error: 'access_denied',
      error_code: 'user_banned',
    });
  });

  test('with sign-up off there are no new users', async () => {
    configure({ allowSignup: false });
    try {
      expect(await readError('late|late@example.com|true')).toMatchObject({
        error: 'access_denied',
        error_code: 'signup_disabled',
      });
    } finally {
      configure({ allowSignup: true });
    }
  });

  test('with verification on an unverified address waits for its mail', async () => {
    configure({ email: { verifyEmail: true, templates: [] } });
    try {
      expect(await readError('waiting|waiting@example.com|false')).toMatchObject({
        error_code: 'provider_email_needs_verification',
      });
      expect((await world.mails('waiting@example.com'))[0]?.kind).toBe('confirm');
    } finally {
      configure({ email: { verifyEmail: false, templates: [] } });
    }
  });

  test('two first sign-ins at once make one account', async () => {
    const logins = await Promise.all(
      Array.from({ length: 4 }, async () => await signInAt(await begin(), 'twice|twice@example.com|true')),
    );
    const replies = await Promise.all(logins.map((back) => world.call('GET', back, { apikey: null })));
    const ids = new Set(
      replies.map((reply) => decodeClaims(parseRedirect(reply).fragment['access_token'] ?? '').sub),
    );
    expect(ids.size).toBe(1);
  });
});

describe('linking to a signed-in user', () => {
  async function link(bearer: string, login: string): Promise<Reply> {
    const path =
      `/user/identities/authorize?provider=acme&redirect_to=${encodeURIComponent(APP)}` +
      '&skip_http_redirect=true';
    const begun = await world.call('GET', path, { bearer });
    const cookie = begun.headers.get('set-cookie')?.split(';')[0] ?? '';
    return await world.call('GET', await signInAt(begun.json.url, login), {
      apikey: null,
      headers: { cookie },
    });
  }

  test('links and unlinks, but not the last', async () => {
    const user = await aUser(world);
    const { fragment } = parseRedirect(await link(user.access, 'second|second@example.com|true'));
    const linked = await world.call('GET', '/user', { bearer: fragment['access_token'] });
    expect(linked.json.id).toBe(user.id);
    expect(linked.json.email).toBe(user.email);
    const [, acme] = linked.json.identities;
    const unlink = (id: string) => world.call('DELETE', `/user/identities/${id}`, { bearer: user.access });
    expect((await unlink(acme.identity_id)).json).toEqual({});
    const last = await unlink(linked.json.identities[0].identity_id);
    expect(last.json.error_code).toBe('single_identity_not_deletable');
  });

  test('without skip_http_redirect it redirects', async () => {
    const user = await aUser(world);
    const reply = await world.call('GET', '/user/identities/authorize?provider=acme', {
      bearer: user.access,
    });
    expect(reply.status).toBe(302);
  });

  test('an identity has one owner', async () => {
    await through('taken|taken@example.com|true');
    const user = await aUser(world);
    expect(
      parseRedirect(await link(user.access, 'taken|taken@example.com|true')).fragment['error_code'],
    ).toBe('identity_already_exists');
  });

  test('unknown and malformed ids are refused', async () => {
    const user = await aUser(world);
    await link(user.access, 'third|third@example.com|true');
    const unlink = (id: string) => world.call('DELETE', `/user/identities/${id}`, { bearer: user.access });
    expect((await unlink('00000000-0000-4000-8000-000000000000')).json.error_code).toBe('identity_not_found');
    expect((await unlink('not-a-uuid')).status).toBe(404);
  });

  test('an anonymous user becomes a full one', async () => {
    const anonymous = await world.call('POST', '/signup', { body: {} });
    const { fragment } = parseRedirect(
      await link(anonymous.json.access_token, 'promoted|promoted@example.com|true'),
    );
    expect(decodeClaims(fragment['access_token'] ?? '')).toMatchObject({
      sub: anonymous.json.user.id,
      is_anonymous: false,
      role: 'authenticated',
      email: 'promoted@example.com',
    });
  });
});
