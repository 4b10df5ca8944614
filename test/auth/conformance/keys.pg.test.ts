// Signing keys through their states, on two instances.
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TokenVerifier } from '../../../src/identity/token.ts';
import { listen, type Listener } from '../../../src/postgres/listen.ts';
import { SIGNING_KEYS_CHANNEL, STANDBY_MINUTES } from '../../../src/identity/signing-keys.ts';
import { silentLog } from '../../../src/log/log.ts';
import { maintain } from '../../../src/auth/maintenance.ts';
import { sql } from '../../../src/postgres/sql.ts';
import { anAuthContext } from '../../support/auth-context.ts';
import { aUser, decodeClaims, startAuth, type AuthWorld } from '../../support/auth-world.ts';
import { parseAddress } from '../../../src/postgres/address/parse-address.ts';
import { scaled } from '../../support/run/scaled.ts';

let world: AuthWorld;
let neighbour: AuthWorld;
let listener: Listener;
beforeAll(async () => {
  world = await startAuth();
  neighbour = await startAuth({ join: world });
  listener = await listen(
    { address: parseAddress(world.databaseUrl), applicationName: 'test' },
    [SIGNING_KEYS_CHANNEL],
    { onNotification: () => void neighbour.signingKeys.reload(), onReconnect: () => {} },
    silentLog,
  );
});
afterAll(async () => {
  await listener.close();
  await neighbour.close();
  await world.close();
});

const keyId = (token: string): string =>
  JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()).kid;
const works = async (instance: AuthWorld, token: string): Promise<boolean> =>
  (await instance.call('GET', '/user', { bearer: token })).status === 200;

async function until(holds: () => boolean): Promise<void> {
  const deadline = Date.now() + scaled(5_000);
  while (!holds()) {
    if (Date.now() > deadline) throw new Error('it did not happen');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

test('standby → in use → previously used → revoked, and all users stay signed in', async () => {
  const user = await aUser(world);
  const first = keyId(user.access);
  const next = await world.signingKeys.rotate('after-standby');
  // Published, not yet signing.
  await until(() => neighbour.signingKeys.publicKeys.some((key) => key.kid === next));
  expect(keyId((await aUser(world)).access)).toBe(first);
  const later = (minutes: number): Date => new Date(Date.now() + minutes * 60_000);
  expect(await world.signingKeys.advance(later(STANDBY_MINUTES - 1))).toBe(false);
  expect(await world.signingKeys.advance(later(STANDBY_MINUTES))).toBe(true);
  const renewed = await aUser(world);
  expect(keyId(renewed.access)).toBe(next);
  for (const one of [world, neighbour])
    for (const token of [user.access, renewed.access]) expect(await works(one, token)).toBe(true);
  await until(() => keyId(user.access) === first && neighbour.signingKeys.signing.kid === next);
  // The old key is removed after the lifetime of its last token.
  expect(await world.signingKeys.advance(later(STANDBY_MINUTES + 21))).toBe(true);
  const states = Object.fromEntries((await world.signingKeys.list()).map((key) => [key.kid, key.state]));
  expect(states).toMatchObject({ [first]: 'revoked', [next]: 'in_use' });
  const refreshed = await world.call('POST', '/token?grant_type=refresh_token', {
    body: { refresh_token: user.refresh },
  });
  expect(keyId(refreshed.json.access_token)).toBe(next);
});

test('rotating at once and revoking: the revoked key’s tokens end, their sessions refresh', async () => {
  const user = await aUser(world);
  const old = keyId(user.access);
  await world.signingKeys.rotate('now');
  expect(await works(world, user.access)).toBe(true);
  await world.signingKeys.revoke(old);
  expect((await world.call('GET', '/user', { bearer: user.access })).json.error_code).toBe('bad_jwt');
  const { json } = await world.call('POST', '/token?grant_type=refresh_token', {
    body: { refresh_token: user.refresh },
  });
  expect(await works(world, json.access_token)).toBe(true);
  expect(
    (await world.call('GET', '/.well-known/jwks.json')).json.keys.map((key: { kid: string }) => key.kid),
  ).not.toContain(old);
});

test('revoking the key in use puts a new one in its place', async () => {
  const kid = world.signingKeys.signing.kid;
  await world.signingKeys.revoke(kid);
  expect(world.signingKeys.signing.kid).not.toBe(kid);
  expect(await works(world, (await aUser(world)).access)).toBe(true);
});

test('tokens of an imported shared secret are accepted, without a kid', async () => {
  const secret = 'a shared secret of the former product';
  await world.signingKeys.importKey({ sharedSecret: secret });
  const user = await aUser(world);
  const token = await new SignJWT(decodeClaims(user.access))
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .sign(Buffer.from(secret));
  expect(await works(world, token)).toBe(true);
  const forged = await new SignJWT(decodeClaims(user.access))
    .setProtectedHeader({ alg: 'HS256' })
    .sign(Buffer.from(`${secret}!`));
  expect(await works(world, forged)).toBe(false);
});

test('two instances that start at once agree on one key and one keyring', async () => {
  const fresh = await startAuth();
  try {
    await fresh.query(sql`delete from auth.signing_keys`);
    await Promise.all(
      Array.from({ length: 5 }, () => startAuth({ join: fresh }).then((instance) => instance.close())),
    );
    const keys = await fresh.query(sql`select state from auth.signing_keys`);
    expect(keys).toEqual([{ state: 'in_use' }]);
    expect(await fresh.query(sql`select id from auth.keyring`)).toHaveLength(1);
  } finally {
    await fresh.close();
  }
});

test('maintenance removes only expired keys', async () => {
  const user = await aUser(world);
  await world.call('POST', '/recover', { body: { email: user.email } });
  await world.call('GET', '/verify?type=x&token=y', { apikey: null });
  const auth = anAuthContext(world);
  await maintain(auth);
  const count = async () =>
    (await world.query(sql`select 1 from auth.one_time_tokens where user_id = ${user.id}`)).length;
  expect(await count()).toBe(1);
  world.ahead += 26 * 3_600_000;
  expect(await maintain(auth)).toBeGreaterThan(0);
  expect(await count()).toBe(0);
  expect(await world.query(sql`select 1 from auth.sessions where user_id = ${user.id}`)).toHaveLength(1);
  world.ahead += 9 * 86_400_000;
  await maintain(auth);
  expect(await world.query(sql`select 1 from auth.sessions where user_id = ${user.id}`)).toHaveLength(0);
  expect(await world.query(sql`select 1 from auth.users where id = ${user.id}`)).toHaveLength(1);
  await auth.outbox.close();
});

describe('rights of an imported key', () => {
  const secret = 'another shared secret of a former product';
  const sub = '6f1d3a2e-8f5b-4a0e-9a83-0d4f0a6c7b11';
  const signed = async (claims: Record<string, unknown>, key = secret): Promise<string> =>
    await new SignJWT({ exp: Math.floor(Date.now() / 1000) + 86_400, iss: 'supabase', ...claims })
      .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
      .sign(Buffer.from(key));
  const verified = async (token: string): Promise<string> => {
    const read = await new TokenVerifier(world.signingKeys).verify(token);
    return read.ok ? read.claims.role : read.fault.message;
  };
  let mine: AuthWorld;
  beforeAll(async () => {
    mine = world;
    world = await startAuth();
    await world.signingKeys.importKey({ sharedSecret: secret });
  });
  afterAll(async () => {
    await world.close();
    world = mine;
  });

  test('users and anonymous callers', async () => {
    expect(await verified(await signed({ role: 'authenticated', sub }))).toBe('authenticated');
    // The anon key of the former product among them.
    for (const claims of [{ role: 'anon', sub }, { role: 'anon' }, { role: 'anon', sub: '1234567890' }, {}])
      expect(await verified(await signed(claims))).toBe('anon');
    for (const claims of [
      { role: 'service_role' },
      { role: 'service_role', sub },
      { role: 'authenticated' },
      { role: 'authenticated', sub: '' },
      { role: 'authenticated', sub: 'admin' },
    ])
      expect(await verified(await signed(claims))).toMatch(/^An imported key is/);
  });

  test('its service token is neither an admin nor an API key, also after an import by an earlier version', async () => {
    const service = await signed({ role: 'service_role' });
    for (const roles of ['authenticated,anon', null]) {
      await world.query(
        sql`update auth.signing_keys set roles = string_to_array(${roles}, ',') where imported`,
      );
      await world.signingKeys.reload();
      const beside = await world.call('GET', '/admin/users', { bearer: service });
      expect([beside.status, beside.json.error_code]).toEqual([403, 'bad_jwt']);
      expect((await world.call('GET', '/admin/users', { apikey: service })).status).toBe(401);
      expect((await world.call('GET', '/settings', { apikey: service })).status).toBe(401);
    }
  });

  test('service tokens are accepted only while the operator allows them', async () => {
    const service = await signed({ role: 'service_role' });
    await world.signingKeys.importKey({ sharedSecret: secret }, ['authenticated', 'service_role']);
    expect(await verified(service)).toBe('service_role');
    expect((await world.call('GET', '/admin/users', { bearer: service })).status).toBe(200);
    expect(await verified(await signed({ role: 'anon', sub }))).toMatch(/^An imported key is/);
    await world.signingKeys.importKey({ sharedSecret: secret });
    expect((await world.call('GET', '/admin/users', { bearer: service })).status).toBe(403);
  });

  test('a public key of another product has the same limits and cannot replace a key of svc', async () => {
    const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true });
    const jwk = await exportJWK(publicKey);
    await world.signingKeys.importKey({ jwk: { ...jwk, kid: 'theirs' } });
    const token = await new SignJWT({ role: 'service_role' })
      .setProtectedHeader({ alg: 'ES256', kid: 'theirs' })
      .sign(privateKey);
    expect(await verified(token)).toMatch(/^An imported key is/);
    const { kid } = world.signingKeys.signing;
    await expect(world.signingKeys.importKey({ jwk: { ...jwk, kid } })).rejects.toMatchObject({
      code: 'key_exists',
    });
    await world.signingKeys.reload();
    expect(world.signingKeys.signing.kid).toBe(kid);
  });
});
