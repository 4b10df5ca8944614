// Second factors: replay, other people's factors, guessing, and what a first factor alone must not do.
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import {
  aUser,
  decodeClaims,
  mailSecrets,
  startAuth,
  type AuthWorld,
  type Reply,
} from '../../support/auth-world.ts';

let world: AuthWorld;
beforeAll(async () => {
  world = await startAuth();
});
afterAll(() => world.close());

const post = (path: string, bearer: string, body: unknown = {}): Promise<Reply> =>
  world.call('POST', path, { bearer, body });
const totp = (secret: string, steps = 0): string =>
  new TOTP({ secret: Secret.fromBase32(secret) }).generate({
    timestamp: world.now().getTime() + steps * 30_000,
  });

async function aFactor(bearer: string): Promise<{ id: string; secret: string }> {
  const { json } = await post('/factors', bearer, { factor_type: 'totp', friendly_name: 'f' });
  return { id: json.id, secret: json.totp.secret };
}
async function verify(bearer: string, id: string, code: string): Promise<Reply> {
  const { json } = await post(`/factors/${id}/challenge`, bearer);
  return await post(`/factors/${id}/verify`, bearer, { challenge_id: json.id, code });
}

test('a code is accepted once, and older codes are rejected afterwards', async () => {
  const user = await aUser(world);
  const factor = await aFactor(user.access);
  const [earlier, current] = [totp(factor.secret, -1), totp(factor.secret)];
  expect((await verify(user.access, factor.id, current)).status).toBe(200);
  for (const code of [current, earlier]) {
    expect((await verify(user.access, factor.id, code)).json.error_code).toBe('mfa_verification_failed');
  }
  world.ahead += 30_000;
  expect((await verify(user.access, factor.id, totp(factor.secret))).status).toBe(200);
});

test('codes outside the window do not count', async () => {
  const user = await aUser(world);
  const factor = await aFactor(user.access);
  for (const steps of [-3, -2, 2, 3]) {
    expect((await verify(user.access, factor.id, totp(factor.secret, steps))).status).toBe(422);
  }
});

test("another user's factor, and a challenge of another factor, are not found", async () => {
  const [victim, thief] = [await aUser(world), await aUser(world)];
  const [theirs, own] = [await aFactor(victim.access), await aFactor(thief.access)];
  const challenge = (await post(`/factors/${theirs.id}/challenge`, victim.access)).json.id;
  const across = await post(`/factors/${theirs.id}/verify`, thief.access, {
    challenge_id: challenge,
    code: totp(theirs.secret),
  });
  expect(across.json.error_code).toBe('mfa_factor_not_found');
  const mixed = await post(`/factors/${own.id}/verify`, thief.access, {
    challenge_id: challenge,
    code: totp(own.secret),
  });
  expect(mixed.json.error_code).toBe('mfa_factor_not_found');
  expect((await world.call('DELETE', `/factors/${theirs.id}`, { bearer: thief.access })).status).toBe(404);
});

test('guessing is cut off, in parallel too', async () => {
  const user = await aUser(world);
  const factor = await aFactor(user.access);
  const challenge = (await post(`/factors/${factor.id}/challenge`, user.access)).json.id;
  const replies = await Promise.all(
    Array.from({ length: 40 }, (_, index) =>
      post(`/factors/${factor.id}/verify`, user.access, {
        challenge_id: challenge,
        code: String(index).padStart(6, '0'),
      }),
    ),
  );
  const judged = replies.filter((reply) => reply.status === 422).length;
  expect(judged).toBeLessThanOrEqual(10);
  expect(replies.some((reply) => reply.status === 429)).toBe(true);
});

test('recovery grants aal1, which cannot change the password of an account with a factor', async () => {
  const user = await aUser(world);
  await world.query(sql`update auth.users set email_proven_at = now() where id = ${user.id}`);
  const factor = await aFactor(user.access);
  await verify(user.access, factor.id, totp(factor.secret));
  await world.call('POST', '/recover', { body: { email: user.email } });
  const { code } = mailSecrets((await world.mails(user.email))[0]!);
  const recovered = await world.call('POST', '/verify', {
    body: { type: 'recovery', email: user.email, token: code },
  });
  const bearer = recovered.json.access_token;
  expect(decodeClaims(bearer).aal).toBe('aal1');
  for (const body of [{ password: 'another horse' }, { email: 'elsewhere@example.com' }]) {
    expect((await world.call('PUT', '/user', { bearer, body })).json.error_code).toBe('insufficient_aal');
  }
  expect((await world.call('DELETE', `/factors/${factor.id}`, { bearer })).json.error_code).toBe(
    'insufficient_aal',
  );
  expect(
    (await post('/factors', bearer, { factor_type: 'totp', friendly_name: 'mine' })).json.error_code,
  ).toBe('insufficient_aal');
});

test('an unverified factor raises nothing by existing', async () => {
  const user = await aUser(world);
  await aFactor(user.access);
  const refreshed = await world.call('POST', '/token?grant_type=refresh_token', {
    body: { refresh_token: user.refresh },
  });
  expect(decodeClaims(refreshed.json.access_token).aal).toBe('aal1');
});

test('the secret is sealed in the database, and is shown once', async () => {
  const user = await aUser(world);
  const factor = await aFactor(user.access);
  const [row] = await world.query<{ secret: Buffer }>(
    sql`select secret from auth.mfa_factors where id = ${factor.id}`,
  );
  const plain = Secret.fromBase32(factor.secret).bytes;
  expect(row?.secret.includes(Buffer.from(plain))).toBe(false);
  expect((await world.call('GET', '/user', { bearer: user.access })).text).not.toContain(factor.secret);
});
