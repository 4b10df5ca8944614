// A service with a guessable, empty or shared secret must not start.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { checkApiKeys, generateApiKeys } from '../../../src/identity/api-key.ts';
import { environmentSecrets, Keyring } from '../../../src/identity/keyring.ts';
import { SigningKeys } from '../../../src/identity/signing-keys.ts';
import { sql } from '../../../src/postgres/sql.ts';
import { aUser, decodeClaims, startAuth, type AuthWorld } from '../../support/auth-world.ts';

const good = generateApiKeys();

describe('API keys', () => {
  test.each([
    ['empty', { publishable: '', secret: '' }],
    ['prefix only', { publishable: 'svc_publishable_', secret: 'svc_secret_' }],
    ['short', { publishable: 'svc_publishable_abc', secret: 'svc_secret_abc' }],
    ['swapped', { publishable: good.secret, secret: good.publishable }],
    ['another prefix', { publishable: `sb_${good.publishable}`, secret: `sb_${good.secret}` }],
    ['a space', { publishable: `${good.publishable} x`, secret: good.secret }],
    [
      'one word for both',
      {
        publishable: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
        secret: 'svc_secret_aaaaaaaaaaaaaaaaaaaaaaaa',
      },
    ],
  ])('%s', (_name, keys) => {
    const problems = checkApiKeys(keys);
    expect(problems.length).toBeGreaterThan(0);
    // The keys themselves are never repeated.
    for (const problem of problems)
      expect(`${problem.message} ${problem.hint}`).not.toContain(good.secret.slice(11));
  });

  test('a generated pair is accepted', () => expect(checkApiKeys(good)).toEqual([]));
});

describe('the keyring', () => {
  let world: AuthWorld;
  beforeAll(async () => {
    world = await startAuth();
  });
  afterAll(() => world.close());

  test('a short encryption key is refused', () => {
    expect(() => environmentSecrets(good.secret, { SVC_AUTH_ENCRYPTION_KEY: 'short' })).toThrow(/too short/);
    expect(() => environmentSecrets(good.secret, { SVC_AUTH_ENCRYPTION_KEY: '' })).toThrow(/too short/);
  });

  test('a changed secret without the earlier one does not open it, and nothing is lost', async () => {
    await expect(
      Keyring.open(world.owner, { current: 'another secret', previous: [] }),
    ).rejects.toMatchObject({ code: 'keyring_sealed' });
    expect(await Keyring.open(world.owner, world.secrets)).toBeInstanceOf(Keyring);
  });

  test('rotated the documented way, sessions and keys go on', async () => {
    const user = await aUser(world);
    const rotated = generateApiKeys();
    const previous = world.secrets.current;
    const keyring = await Keyring.open(world.owner, { current: rotated.secret, previous: [previous] });
    const keys = new SigningKeys(world.owner, keyring.box('signing keys'));
    await keys.load();
    expect(keys.signing.kid).toBe(world.signingKeys.signing.kid);
    const refreshed = await world.call('POST', '/token?grant_type=refresh_token', {
      body: { refresh_token: user.refresh },
    });
    expect(refreshed.status).toBe(200);
    // From now on the earlier secret opens nothing.
    await expect(Keyring.open(world.owner, { current: previous, previous: [] })).rejects.toMatchObject({
      code: 'keyring_sealed',
    });
    await Keyring.open(world.owner, { current: previous, previous: [rotated.secret] });
  });

  test('a separate encryption key makes the keyring independent of the API secret', async () => {
    const encryptionKey = 'an encryption key of at least 32 characters';
    const secrets = environmentSecrets(world.secrets.current, { SVC_AUTH_ENCRYPTION_KEY: encryptionKey });
    await Keyring.open(world.owner, secrets);
    await Keyring.open(
      world.owner,
      environmentSecrets(generateApiKeys().secret, { SVC_AUTH_ENCRYPTION_KEY: encryptionKey }),
    );
    await Keyring.open(world.owner, { current: world.secrets.current, previous: [encryptionKey] });
  });

  test('a copy of the database signs nothing and opens nothing', async () => {
    const rows = await world.query<{ private_jwk: Buffer; sealed_key: Buffer }>(sql`
      select s.private_jwk, k.sealed_key from auth.signing_keys s, auth.keyring k where s.private_jwk is not null`);
    for (const row of rows) {
      expect(row.private_jwk.toString('latin1')).not.toContain('"d"');
      expect(row.private_jwk.includes(Buffer.from('kty'))).toBe(false);
    }
    expect(rows.length).toBeGreaterThan(0);
  });
});

describe('a shared secret to import', () => {
  test('short ones are refused, long ones verify and never sign', async () => {
    const world = await startAuth();
    try {
      await expect(world.signingKeys.importKey({ sharedSecret: 'short' })).rejects.toMatchObject({
        code: 'bad_shared_secret',
      });
      await expect(world.signingKeys.importKey({ sharedSecret: '' })).rejects.toMatchObject({
        code: 'bad_shared_secret',
      });
      await world.signingKeys.importKey({ sharedSecret: 'a shared secret of the former product' });
      const user = await aUser(world);
      const header = JSON.parse(Buffer.from(user.access.split('.')[0] ?? '', 'base64url').toString());
      expect(header.alg).toBe('ES256');
      expect(decodeClaims(user.access).sub).toBe(user.id);
      const { keys } = (await world.call('GET', '/.well-known/jwks.json', { apikey: null })).json;
      expect(JSON.stringify(keys)).not.toContain('oct');
    } finally {
      await world.close();
    }
  });
});
