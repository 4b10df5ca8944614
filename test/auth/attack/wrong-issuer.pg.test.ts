// Almost valid ID tokens: another issuer, audience, key, algorithm or nonce. Also forged tokens of our own.
import { createHash } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT, type CryptoKey } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BUILT_IN } from '../../../src/auth/provider/builtin.ts';
import { guardedFetch, isPrivateAddress } from '../../../src/auth/provider/guarded-fetch.ts';
import { aUser, decodeClaims, startAuth, type AuthWorld, type Reply } from '../../support/auth-world.ts';

let world: AuthWorld;
let server: Server;
let issuer: string;
let key: CryptoKey;
let foreignKey: CryptoKey;

beforeAll(async () => {
  const pair = await generateKeyPair('RS256', { extractable: true });
  key = pair.privateKey;
  foreignKey = (await generateKeyPair('RS256')).privateKey;
  const jwk = { ...(await exportJWK(pair.publicKey)), kid: 'k1', alg: 'RS256', use: 'sig' };
  server = createServer((request, response) => {
    const body = request.url?.includes('openid-configuration')
      ? {
          issuer,
          jwks_uri: `${issuer}/jwks`,
          authorization_endpoint: `${issuer}/auth`,
          token_endpoint: `${issuer}/token`,
          response_types_supported: ['code'],
          subject_types_supported: ['public'],
          id_token_signing_alg_values_supported: ['RS256'],
        }
      : { keys: [jwk] };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  world = await startAuth();
  const provider = {
    name: 'acme',
    clientId: 'our-client,our-app',
    clientSecret: 's',
    redirectUrl: `${world.url}/auth/v1/callback/acme`,
    issuer,
    url: undefined,
    scopes: undefined,
    emailOptional: false,
    position: { line: 1, column: 1 },
  };
  world.config = { ...world.config, auth: { ...world.config.auth, oauth: [provider] } };
});
afterAll(async () => {
  server.close();
  await world.close();
});

const now = (): number => Math.floor(Date.now() / 1000);
const claims = (change: Record<string, unknown> = {}) => ({
  iss: issuer,
  sub: 'subject',
  aud: 'our-client',
  iat: now(),
  exp: now() + 300,
  email: 'native@example.com',
  email_verified: true,
  ...change,
});
const sign = (payload: Record<string, unknown>, by: CryptoKey = key, kid = 'k1'): Promise<string> =>
  new SignJWT(payload).setProtectedHeader({ alg: 'RS256', kid }).sign(by);
const present = (id_token: string, more: Record<string, unknown> = {}, bearer?: string): Promise<Reply> =>
  world.call('POST', '/token?grant_type=id_token', { body: { provider: 'acme', id_token, ...more }, bearer });

describe('accepted', () => {
  test('a good token, also for the second client id', async () => {
    const reply = await present(await sign(claims()));
    expect(reply.status).toBe(200);
    expect(decodeClaims(reply.json.access_token).amr[0].method).toBe('oauth');
    expect((await present(await sign(claims({ aud: 'our-app' })))).json.user.id).toBe(reply.json.user.id);
  });

  test('with the nonce whose hash the token contains', async () => {
    const nonce = createHash('sha256').update('raw nonce').digest('hex');
    expect((await present(await sign(claims({ nonce })), { nonce: 'raw nonce' })).status).toBe(200);
  });

  test('linking to the bearer', async () => {
    const user = await aUser(world);
    const token = await sign(claims({ sub: 'to-link', email: 'to-link@example.com' }));
    const linked = await present(token, { link_identity: true }, user.access);
    expect(linked.json.user).toMatchObject({ id: user.id, email: user.email });
    expect((await present(token, { link_identity: true }, (await aUser(world)).access)).json.error_code).toBe(
      'identity_already_exists',
    );
    expect((await present(token, { link_identity: true }, world.keys.publishable)).json.error_code).toBe(
      'bad_jwt',
    );
  });

  test('the client library: signInWithIdToken', async () => {
    const { error, data } = await world
      .client()
      .auth.signInWithIdToken({ provider: 'acme', token: await sign(claims()) });
    expect(error).toBeNull();
    expect(data.user?.email).toBe('native@example.com');
  });
});

describe('refused, as an OAuth error', () => {
  const cases: ReadonlyArray<readonly [string, () => Promise<string>, Record<string, unknown>?]> = [
    ['another issuer', () => sign(claims({ iss: 'https://accounts.google.com' }))],
    ['our issuer with a slash', () => sign(claims({ iss: `${issuer}/` }))],
    ['no issuer', () => sign(claims({ iss: undefined }))],
    ['another audience', () => sign(claims({ aud: 'their-client' }))],
    ['an audience that contains ours', () => sign(claims({ aud: 'our-client-evil' }))],
    [
      'an authorized party that is not us',
      () => sign(claims({ aud: ['our-client', 'their-client'], azp: 'their-client' })),
    ],
    ['a foreign key under our kid', () => sign(claims(), foreignKey)],
    ['an unknown kid', () => sign(claims(), foreignKey, 'k2')],
    ['an expired one', () => sign(claims({ exp: now() - 120 }))],
    ['one of the future', () => sign(claims({ nbf: now() + 600 }))],
    ['no expiry', () => sign(claims({ exp: undefined }))],
    ['no signature', () => Promise.resolve(new UnsecuredJWT(claims()).encode())],
    [
      'HS256 with the public key',
      () =>
        new SignJWT(claims())
          .setProtectedHeader({ alg: 'HS256', kid: 'k1' })
          .sign(Buffer.from('k1'.repeat(20))),
    ],
    ['garbage', () => Promise.resolve('a.b.c')],
    ['a nonce that was not sent', () => sign(claims({ nonce: 'x' }))],
    ['a passed nonce it lacks', () => sign(claims()), { nonce: 'x' }],
    [
      'another nonce',
      () => sign(claims({ nonce: createHash('sha256').update('a').digest('hex') })),
      { nonce: 'b' },
    ],
    ['a plain nonce', () => sign(claims({ nonce: 'b' })), { nonce: 'b' }],
    ['another access token', () => sign(claims({ at_hash: 'AAAA' })), { access_token: 'token' }],
  ];
  test.each(cases.map(([name, make, more]) => ({ name, make, more })))('$name', async ({ make, more }) => {
    const reply = await present(await make(), more);
    expect(reply.status).toBe(400);
    expect(reply.json).toMatchObject({
      error: expect.stringMatching(/^invalid/),
      error_description: expect.any(String),
    });
    expect(reply.json).not.toHaveProperty('code');
  });

  test('requests without required parameters', async () => {
    expect((await present('')).json.error).toBe('invalid request');
    expect(
      (await world.call('POST', '/token?grant_type=id_token', { body: { id_token: 'x' } })).json.error,
    ).toBe('invalid request');
    expect(
      (
        await world.call('POST', '/token?grant_type=id_token', {
          body: { id_token: 'x', provider: 'google' },
        })
      ).json.error_code,
    ).toBe('provider_disabled');
  });
});

describe('issuers of many tenants', () => {
  const settings = { clientId: 'c', clientSecret: 's', redirectUrl: 'r' };
  const tid = '11111111-2222-4333-8444-555555555555';
  const accepts = (iss: string, claimed: Record<string, unknown>, url?: string) =>
    BUILT_IN['azure']!.acceptsIssuer!(iss, claimed, { ...settings, url });

  test.each([
    [`https://login.microsoftonline.com/${tid}/v2.0`, { tid }, undefined, true],
    [`https://login.microsoftonline.com/${tid}/v2.0`, { tid: 'other' }, undefined, false],
    [`https://login.microsoftonline.com/${tid}/v2.0`, {}, undefined, false],
    [`https://login.microsoftonline.com.evil/${tid}/v2.0`, { tid }, undefined, false],
    [`https://evil/${tid}/v2.0`, { tid }, undefined, false],
    [
      `https://login.microsoftonline.com/${tid}/v2.0`,
      { tid },
      `https://login.microsoftonline.com/${tid}`,
      true,
    ],
    [
      'https://login.microsoftonline.com/other/v2.0',
      { tid: 'other' },
      `https://login.microsoftonline.com/${tid}`,
      false,
    ],
  ])('%s %j %s', (iss, claimed, url, accepted) => expect(accepts(iss, claimed, url)).toBe(accepted));
});

describe('calls to providers stay outside', () => {
  test.each([
    'http://example.com/jwks',
    'https://127.0.0.1/jwks',
    'https://[::1]/jwks',
    'https://[::ffff:127.0.0.1]/jwks',
    'https://[::ffff:7f00:1]/jwks',
    'https://10.0.0.1/',
    'https://169.254.169.254/latest/meta-data',
    'https://192.168.1.1/',
    'https://[fd00::1]/',
    'https://[fe80::1]/',
    'https://0.0.0.0/',
    'https://localhost/',
  ])('%s', async (url) => {
    await expect(guardedFetch([])(url)).rejects.toThrow(/refused|private/);
  });

  test('a configured URL may be private, but the URLs in its documents may not', async () => {
    const fetch = guardedFetch([issuer]);
    expect((await fetch(`${issuer}/jwks`)).status).toBe(200);
    await expect(fetch(`${issuer.replace('127.0.0.1', 'localhost')}/jwks`)).rejects.toThrow(/refused/);
  });

  test.each([
    ['8.8.8.8', false],
    ['2606:4700::1111', false],
    ['172.31.0.1', true],
    ['100.64.0.1', true],
    ['x', true],
  ])('%s', (address, isPrivate) => expect(isPrivateAddress(address)).toBe(isPrivate));
});
