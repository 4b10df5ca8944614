// The hook custom_access_token in flows through a provider, and in sessions that wait for a second factor.
import { createHash, randomBytes } from 'node:crypto';
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { raw } from '../../../src/postgres/sql.ts';
import {
  aUser,
  decodeClaims,
  parseRedirect,
  mailSecrets,
  startAuth,
  type AuthWorld,
  type Reply,
} from '../../support/auth-world.ts';
import { signInAt, startOidcPeer, type OidcPeer } from '../../support/peers/oidc-peer.ts';

const APP = 'https://app.example';
let world: AuthWorld;
let peer: OidcPeer;

beforeAll(async () => {
  world = await startAuth({
    auth: {
      redirectUrls: [APP],
      hooks: { custom_access_token: { rpc: { schema: 'public', name: 'add_claims' }, timeoutMs: 2_000 } },
    },
  });
  await setHook(`return jsonb_set(event, '{claims,plan}', '"pro"');`);
  const redirectUrl = `${world.url}/auth/v1/callback/acme`;
  const secret = 'a-secret-of-the-client';
  peer = await startOidcPeer([{ client_id: 'svc', client_secret: secret, redirect_uris: [redirectUrl] }]);
  const provider = {
    name: 'acme',
    clientId: 'svc',
    clientSecret: secret,
    redirectUrl,
    issuer: peer.issuer,
    url: undefined,
    scopes: undefined,
    emailOptional: false,
    position: { line: 1, column: 1 },
  };
  world.config = { ...world.config, auth: { ...world.config.auth, oauth: [provider] } };
});
afterAll(async () => {
  await peer?.stop();
  await world?.close();
});

const setHook = (body: string): Promise<unknown> =>
  world.query(
    raw(`create or replace function public.add_claims(event jsonb) returns jsonb language plpgsql
      as $hook$ begin ${body} end $hook$`),
  );

async function throughProvider(login: string, query = ''): Promise<Reply> {
  const path = `/authorize?provider=acme&redirect_to=${encodeURIComponent(APP)}${query}`;
  const start = await world.call('GET', path, { apikey: null });
  const back = await signInAt(start.headers.get('location') ?? '', `${login}|${login}@example.com|true`);
  return await world.call('GET', back, { apikey: null });
}

test('a redirect from a provider', async () => {
  const { fragment } = parseRedirect(await throughProvider('implicit'));
  expect(decodeClaims(fragment['access_token'] ?? '')).toMatchObject({
    plan: 'pro',
    amr: [{ method: 'oauth' }],
  });
});

test('a code that is exchanged with its verifier', async () => {
  const code_verifier = randomBytes(56).toString('hex');
  const challenge = createHash('sha256').update(code_verifier).digest('base64url');
  const reply = await throughProvider('coder', `&code_challenge=${challenge}&code_challenge_method=s256`);
  const body = { auth_code: parseRedirect(reply).query['code'], code_verifier };
  const session = await world.call('POST', '/token?grant_type=pkce', { body });
  expect(decodeClaims(session.json.access_token)).toMatchObject({ plan: 'pro' });
});

test('a hook that refuses ends the flow with a redirect that has its message', async () => {
  await setHook(`return '{"error": {"http_code": 403, "message": "Not today"}}';`);
  try {
    const { target, fragment } = parseRedirect(await throughProvider('refused'));
    expect(target).toBe(APP);
    expect(fragment).toMatchObject({ error_code: 'hook_refused', error_description: 'Not today' });
    expect(fragment).not.toHaveProperty('access_token');
  } finally {
    await setHook(`return jsonb_set(event, '{claims,plan}', '"pro"');`);
  }
});

test('a session that waits for its second factor stays restricted under a hook that reduces the token', async () => {
  const { email, access } = await aUser(world);
  const post = (path: string, body: unknown, bearer?: string): Promise<Reply> =>
    world.call('POST', path, { body, bearer });
  const factor = (await post('/factors', { factor_type: 'totp' }, access)).json;
  const totp = new TOTP({ secret: Secret.fromBase32(factor.totp.secret) });
  const prove = async (bearer: string): Promise<Reply> => {
    const { json } = await post(`/factors/${factor.id}/challenge`, {}, bearer);
    const code = totp.generate({ timestamp: world.now().getTime() });
    return await post(`/factors/${factor.id}/verify`, { challenge_id: json.id, code }, bearer);
  };
  expect((await prove(access)).status).toBe(200);
  await setHook(
    `return jsonb_set(event, '{claims}', (event->'claims') - 'restricted' - 'amr' || '{"plan": "pro"}');`,
  );
  await post('/otp', { email });
  const [mail] = await world.mails(email);
  if (!mail) throw new Error('no mail');
  const entered = await post('/verify', { type: 'email', email, token: mailSecrets(mail).code });
  expect(decodeClaims(entered.json.access_token)).toMatchObject({
    restricted: true,
    plan: 'pro',
    aal: 'aal1',
  });
  const refreshed = await post('/token?grant_type=refresh_token', {
    refresh_token: entered.json.refresh_token,
  });
  expect(decodeClaims(refreshed.json.access_token)).toMatchObject({ restricted: true, plan: 'pro' });
  world.ahead += 30_000;
  const raised = await prove(refreshed.json.access_token);
  expect(decodeClaims(raised.json.access_token)).toMatchObject({ plan: 'pro', aal: 'aal2' });
  expect(decodeClaims(raised.json.access_token)).not.toHaveProperty('restricted');
});
