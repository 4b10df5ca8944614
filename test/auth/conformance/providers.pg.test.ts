// Every built-in provider with its complete redirect, against a server that returns recorded responses of that provider
// at SVC_OAUTH_<PROVIDER>_BASE_URL.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { baseUrlVariable } from '../../../src/auth/settings.ts';
import { parseRedirect, startAuth, type AuthWorld, type Reply } from '../../support/auth-world.ts';

type Json = Readonly<Record<string, unknown>>;
type Case = {
  /** Responses by path. `token` is merged into the response of the path that exchanges the code. */
  readonly api?: Readonly<Record<string, unknown>>;
  readonly token?: Json;
  /** Claims of the ID token, for those that speak OIDC. */
  readonly claims?: Json;
  readonly subject: string;
  readonly name?: string;
  readonly post?: Readonly<Record<string, string>>;
};

const EMAIL = (name: string): string => `${name.replace('_', '-')}@example.com`;

const PLAIN: Readonly<Record<string, (email: string) => Case>> = {
  github: (email) => ({
    api: {
      '/user': {
        id: 583231,
        login: 'octocat',
        name: 'The Octocat',
        avatar_url: 'https://avatars/1',
        email: null,
      },
      '/user/emails': [
        { email: 'other@example.com', primary: false, verified: true, visibility: null },
        { email, primary: true, verified: true, visibility: 'public' },
      ],
    },
    token: { token_type: 'bearer', scope: 'user:email' },
    subject: '583231',
    name: 'The Octocat',
  }),
  gitlab: (email) => ({
    api: {
      '/api/v4/user': {
        id: 7,
        username: 'gl',
        name: 'Git Lab',
        email,
        confirmed_at: '2026-01-01T00:00:00Z',
        avatar_url: null,
      },
    },
    token: { token_type: 'Bearer', expires_in: 7200, created_at: 1_700_000_000, refresh_token: 'r' },
    subject: '7',
    name: 'Git Lab',
  }),
  bitbucket: (email) => ({
    api: {
      '/2.0/user': {
        uuid: '{u-1}',
        display_name: 'Bit Bucket',
        username: 'bb',
        links: { avatar: { href: 'https://avatars/2' } },
      },
      '/2.0/user/emails': { values: [{ email, is_primary: true, is_confirmed: true, type: 'email' }] },
    },
    token: { token_type: 'bearer', scopes: 'account email', expires_in: 7200 },
    subject: '{u-1}',
    name: 'Bit Bucket',
  }),
  facebook: (email) => ({
    api: {
      '/me': {
        id: '10',
        email,
        first_name: 'Face',
        last_name: 'Book',
        name: 'Face Book',
        picture: { data: { url: 'https://avatars/3' } },
      },
    },
    token: { token_type: 'bearer', expires_in: 5_183_944 },
    subject: '10',
    name: 'Face Book',
  }),
  discord: (email) => ({
    api: {
      '/api/users/@me': {
        id: '80351110224678912',
        username: 'Nelly',
        discriminator: '1337',
        avatar: 'a_hash',
        verified: true,
        email,
        global_name: null,
      },
    },
    token: { token_type: 'Bearer', expires_in: 604_800, scope: 'identify email' },
    subject: '80351110224678912',
    name: 'Nelly#1337',
  }),
  twitch: (email) => ({
    api: {
      '/helix/users': {
        data: [
          {
            id: '141981764',
            login: 'twitchdev',
            display_name: 'TwitchDev',
            email,
            profile_image_url: 'https://avatars/4',
          },
        ],
      },
    },
    token: { token_type: 'bearer', scope: ['user:read:email'], expires_in: 14_124 },
    subject: '141981764',
    name: 'TwitchDev',
  }),
  spotify: (email) => ({
    api: {
      '/v1/me': {
        id: 'spot',
        display_name: 'Spot',
        email,
        images: [
          { url: 'https://avatars/small', height: 64 },
          { url: 'https://avatars/5', height: 640 },
        ],
      },
    },
    token: { token_type: 'Bearer', scope: 'user-read-email', expires_in: 3600 },
    subject: 'spot',
    name: 'Spot',
  }),
  notion: (email) => ({
    api: {
      '/v1/users/me': {
        object: 'user',
        type: 'bot',
        bot: {
          owner: { type: 'user', user: { id: 'n-1', name: 'No Tion', avatar_url: null, person: { email } } },
        },
      },
    },
    token: { token_type: 'bearer', bot_id: 'b', workspace_id: 'w' },
    subject: 'n-1',
    name: 'No Tion',
  }),
  zoom: (email) => ({
    api: {
      '/v2/users/me': {
        id: 'z-1',
        first_name: 'Zoo',
        last_name: 'M',
        email,
        verified: 1,
        login_types: [100],
        pic_url: '',
      },
    },
    token: { token_type: 'bearer', expires_in: 3599, scope: 'user:read' },
    subject: 'z-1',
    name: 'Zoo M',
  }),
  figma: (email) => ({
    api: { '/v1/me': { id: 'f-1', email, handle: 'Fig Ma', img_url: 'https://avatars/6' } },
    token: { user_id: 'f-1', expires_in: 7_776_000, refresh_token: 'r' },
    subject: 'f-1',
    name: 'Fig Ma',
  }),
  fly: (email) => ({
    api: {
      '/oauth/token/info': {
        user_id: 'fly-1',
        user_name: 'Fly',
        email,
        organizations: [{ id: 'o', role: 'admin' }],
      },
    },
    token: { token_type: 'Bearer', expires_in: 7200 },
    subject: 'fly-1',
    name: 'Fly',
  }),
  kakao: (email) => ({
    api: {
      '/v2/user/me': {
        id: 123_456_789,
        kakao_account: {
          email,
          is_email_valid: true,
          is_email_verified: true,
          profile: { nickname: 'Ka Kao', profile_image_url: 'https://avatars/7' },
        },
      },
    },
    token: {
      token_type: 'bearer',
      expires_in: 43_199,
      scope: 'account_email',
      refresh_token_expires_in: 5_184_000,
      id_token: 'unchecked',
    },
    subject: '123456789',
    name: 'Ka Kao',
  }),
  workos: (email) => ({
    token: {
      expires_in: 600,
      profile: {
        id: 'prof_1',
        email,
        first_name: 'Work',
        last_name: 'OS',
        connection_id: 'c',
        organization_id: 'o',
      },
    },
    subject: 'prof_1',
    name: 'Work OS',
  }),
  x: (email) => ({
    api: {
      '/2/users/me': {
        data: {
          id: '2244994945',
          name: 'X',
          username: 'x',
          confirmed_email: email,
          profile_image_url: 'https://avatars/8',
        },
      },
    },
    token: { token_type: 'bearer', expires_in: 7200, scope: 'users.email tweet.read' },
    subject: '2244994945',
    name: 'X',
  }),
  twitter: (email) => ({
    api: { '/2/users/me': { data: { id: '1', name: 'T', username: 't', confirmed_email: email } } },
    token: { token_type: 'bearer', expires_in: 7200 },
    subject: '1',
    name: 'T',
  }),
};

const OIDC: Readonly<Record<string, (email: string) => Case>> = {
  google: (email) => ({
    claims: {
      sub: 'g-1',
      email,
      email_verified: true,
      name: 'Goo Gle',
      picture: 'https://avatars/9',
      hd: 'example.com',
    },
    subject: 'g-1',
    name: 'Goo Gle',
  }),
  azure: (email) => ({
    claims: { sub: 'a-1', email, name: 'Az Ure', tid: 't', xms_edov: true },
    subject: 'a-1',
    name: 'Az Ure',
  }),
  linkedin_oidc: (email) => ({
    claims: { sub: 'l-1', email, email_verified: 'true', name: 'Linked In', locale: 'en' },
    subject: 'l-1',
    name: 'Linked In',
  }),
  slack_oidc: (email) => ({
    claims: { sub: 's-1' },
    api: {
      '/api/openid.connect.userInfo': {
        ok: true,
        sub: 's-1',
        'https://slack.com/user_id': 'U1',
        email,
        email_verified: true,
        name: 'Sla Ck',
      },
    },
    subject: 'U1',
    name: 'Sla Ck',
  }),
  keycloak: (email) => ({
    claims: {
      sub: 'k-1',
      email,
      email_verified: true,
      preferred_username: 'kc',
      name: 'Key Cloak',
      groups: ['a'],
    },
    subject: 'k-1',
    name: 'Key Cloak',
  }),
  apple: (email) => ({
    claims: {
      sub: 'ap-1',
      email,
      email_verified: 'true',
      is_private_email: 'true',
      auth_time: 1_700_000_000,
    },
    post: { user: JSON.stringify({ name: { firstName: 'Ap', lastName: 'Ple' }, email }) },
    subject: 'ap-1',
    name: 'Ap Ple',
  }),
};

let world: AuthWorld;
let server: Server;
let base: string;
let key: CryptoKey;
let current: Case;
let nonce: string | undefined;
const requests: Array<{ path: string; authorization: string | undefined; body: string }> = [];

beforeAll(async () => {
  const pair = await generateKeyPair('RS256', { extractable: true });
  key = pair.privateKey;
  const jwk = { ...(await exportJWK(pair.publicKey)), kid: 'k', alg: 'RS256', use: 'sig' };
  server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on('end', () => {
      const path = (request.url ?? '').split('?')[0] ?? '';
      requests.push({ path, authorization: request.headers.authorization, body });
      void answer(path, request.method ?? '', jwk).then((json) =>
        response
          .writeHead(json === undefined ? 404 : 200, { 'content-type': 'application/json' })
          .end(JSON.stringify(json ?? {})),
      );
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const names = [...Object.keys(PLAIN), ...Object.keys(OIDC)];
  const env = Object.fromEntries(names.map((name) => [baseUrlVariable(name), base]));
  world = await startAuth({ env, auth: { redirectUrls: ['https://app.example'] } });
  const oauth = names.map((name) => ({
    name,
    clientId: 'client',
    clientSecret: 'client-secret',
    redirectUrl: `${world.url}/auth/v1/callback/${name}`,
    issuer: undefined,
    url: undefined,
    scopes: undefined,
    emailOptional: false,
    position: { line: 1, column: 1 },
  }));
  world.config = { ...world.config, auth: { ...world.config.auth, oauth } };
});
afterAll(async () => {
  server.close();
  await world.close();
});

async function answer(path: string, method: string, jwk: unknown): Promise<unknown> {
  if (path.endsWith('/.well-known/openid-configuration')) {
    return {
      issuer: base,
      authorization_endpoint: `${base}/oidc/auth`,
      token_endpoint: `${base}/oidc/token`,
      jwks_uri: `${base}/oidc/keys`,
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
    };
  }
  if (path === '/oidc/keys') return { keys: [jwk] };
  if (method === 'POST') {
    const seconds = Math.floor(Date.now() / 1000);
    const idToken =
      current.claims &&
      (await new SignJWT({
        ...current.claims,
        ...(nonce === undefined ? {} : { nonce }),
        iss: base,
        aud: 'client',
        iat: seconds,
        exp: seconds + 60,
      })
        .setProtectedHeader({ alg: 'RS256', kid: 'k' })
        .sign(key));
    return {
      access_token: 'provider-access',
      ...(idToken ? { id_token: idToken, token_type: 'Bearer' } : {}),
      ...current.token,
    };
  }
  return current.api?.[path];
}

async function through(name: string): Promise<Reply> {
  const begun = await world.call('GET', `/authorize?provider=${name}`, { apikey: null });
  expect(begun.status).toBe(307);
  const location = new URL(begun.headers.get('location') ?? '');
  expect(location.origin).toBe(base);
  expect(location.searchParams.get('redirect_uri')).toBe(`${world.url}/auth/v1/callback/${name}`);
  nonce = location.searchParams.get('nonce') ?? undefined;
  const back = { state: location.searchParams.get('state') ?? '', code: 'the-code' };
  if (!current.post)
    return await world.call('GET', `/callback/${name}?${new URLSearchParams(back).toString()}`, {
      apikey: null,
    });
  expect(location.searchParams.get('response_mode')).toBe('form_post');
  return await world.call('POST', `/callback/${name}`, {
    apikey: null,
    rawBody: new URLSearchParams({ ...back, ...current.post }).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  });
}

describe.each([...Object.entries(PLAIN), ...Object.entries(OIDC)])('%s', (name, make) => {
  test('signs in with its profile, and again as the same user', async () => {
    const email = EMAIL(name);
    current = make(email);
    requests.length = 0;
    const reply = await through(name);
    // The browser must not repeat the POST at the application.
    expect(reply.status).toBe(current.post ? 303 : 302);
    const { fragment } = parseRedirect(reply);
    expect(fragment).toMatchObject({ provider_token: 'provider-access' });
    const { json: user } = await world.call('GET', '/user', { bearer: fragment['access_token'] });
    expect(user.email).toBe(email);
    expect(user.identities).toMatchObject([
      { provider: name, id: current.subject, identity_data: { sub: current.subject } },
    ]);
    expect(user.app_metadata).toEqual({ provider: name, providers: [name] });
    if (current.name !== undefined) expect(user.user_metadata.full_name).toBe(current.name);
    const exchange = requests.find((request) => request.body.includes('the-code'));
    expect(`${exchange?.authorization ?? ''}${exchange?.body ?? ''}`).toMatch(/Basic |client-secret/);
    const again = parseRedirect(await through(name)).fragment;
    const { json: same } = await world.call('GET', '/user', { bearer: again['access_token'] });
    expect(same.id).toBe(user.id);
  });
});
