// Rate limits that are counted in the database: shared by instances, per address, per account and per
// mailbox.
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeRefreshToken } from '../../../src/auth/sessions/refresh-token.ts';
import { BUCKETS, Limiter } from '../../../src/auth/rate-limit.ts';
import { sql } from '../../../src/postgres/sql.ts';
import { aUser, decodeClaims, startAuth, type AuthWorld } from '../../support/auth-world.ts';

let world: AuthWorld;
let neighbour: AuthWorld;
const env = { SVC_AUTH_RATE_LIMITS: 'on' };
beforeAll(async () => {
  world = await startAuth({ env });
  neighbour = await startAuth({ join: world, env });
});
afterAll(async () => {
  await neighbour.close();
  await world.close();
});

const signIn = (instance: AuthWorld, email: string, password: string) =>
  instance.call('POST', '/token?grant_type=password', { body: { email, password } });

test('wrong passwords for one account are slowed down, on all instances together, in parallel too', async () => {
  const user = await aUser(world, { email: 'guessed@example.com' });
  const replies = await Promise.all(
    Array.from({ length: 20 }, (_, i) => signIn(i % 2 ? world : neighbour, user.email, `guess ${i}`)),
  );
  expect(replies.filter((reply) => reply.status === 400)).toHaveLength(10);
  const refused = replies.find((reply) => reply.status === 429);
  expect(refused?.json.error_code).toBe('over_request_rate_limit');
  expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(0);
  world.ahead += 31_000;
  expect((await signIn(world, user.email, user.password)).status).toBe(200);
  world.ahead += 300_000;
});

test('right passwords cost nothing', async () => {
  const user = await aUser(world, { email: 'often@example.com' });
  for (let i = 0; i < 15; i++) expect((await signIn(world, user.email, user.password)).status).toBe(200);
  world.ahead += 300_000;
});

test('right passwords take nothing from the limit over all networks either', async () => {
  const user = await aUser(world, { email: 'everywhere@example.com' });
  const { name, burst } = BUCKETS.passwordEverywhere;
  await world.query(sql`delete from auth.rate_limits where bucket = ${name}`);
  for (let i = 0; i < 2; i++) expect((await signIn(world, user.email, user.password)).status).toBe(200);
  const left = await world.query(sql`select tokens from auth.rate_limits where bucket = ${name}`);
  expect(left).toEqual([{ tokens: burst }]);
  world.ahead += 300_000;
});

test('an unknown account has the same limits as a known account', async () => {
  const statuses = [];
  for (let i = 0; i < 12; i++) statuses.push((await signIn(world, 'nobody@example.com', 'x')).status);
  expect(statuses).toEqual([...Array(10).fill(400), 429, 429]);
  world.ahead += 600_000;
});

test('sign-ups and anonymous sign-ins are limited by address', async () => {
  const anonymous = await Promise.all(
    Array.from({ length: 35 }, () => world.call('POST', '/signup', { body: {} })),
  );
  expect(anonymous.filter((reply) => reply.status === 200)).toHaveLength(30);
});

test('a forwarded address does not make a new bucket', async () => {
  const reply = await world.call('POST', '/signup', {
    body: {},
    headers: { 'x-forwarded-for': '8.8.8.8', 'x-real-ip': '8.8.4.4' },
  });
  expect(reply.status).toBe(429);
  world.ahead += 7_200_000;
});

test('refreshing has room for an office and for many tabs', async () => {
  const user = await aUser(world, { email: 'tabs@example.com' });
  const replies = await Promise.all(
    Array.from({ length: 120 }, () =>
      world.call('POST', '/token?grant_type=refresh_token', { body: { refresh_token: user.refresh } }),
    ),
  );
  expect(replies.every((reply) => reply.status === 200)).toBe(true);
});

test('the id of a session alone cannot use up its refreshes', async () => {
  const user = await aUser(world, { email: 'observed@example.com' });
  const { session_id } = decodeClaims(user.access);
  const forged = makeRefreshToken(session_id, 0, randomBytes(32));
  const replies = await Promise.all(
    Array.from({ length: 160 }, () =>
      world.call('POST', '/token?grant_type=refresh_token', { body: { refresh_token: forged } }),
    ),
  );
  expect(new Set(replies.map((reply) => reply.json.error_code))).toEqual(
    new Set(['refresh_token_not_found']),
  );
  const honest = await world.call('POST', '/token?grant_type=refresh_token', {
    body: { refresh_token: user.refresh },
  });
  expect(honest.status).toBe(200);
  world.ahead += 300_000;
});

test('the number of mails to one mailbox per hour is limited for all callers together', async () => {
  const statuses: number[] = [];
  for (let i = 0; i < 12; i++) {
    statuses.push((await world.call('POST', '/recover', { body: { email: 'bombed@example.com' } })).status);
    world.ahead += 61_000;
  }
  // Two of the ten are reserved for networks that redeemed a mail of the mailbox.
  expect(statuses.slice(0, 8)).toEqual(Array(8).fill(200));
  expect(statuses).toContain(429);
});

test('a bucket fills up again at its rate and not above its burst', async () => {
  let mode: 'on' | 'off' = 'on';
  const limiter = new Limiter(world.owner, () => ({ limits: mode, mailsPerHour: 1000 }));
  const start = new Date('2030-01-01T00:00:00Z');
  const at = (seconds: number) => ({
    client: { address: '203.0.113.9', proto: 'https', via: 'peer' } as const,
    now: new Date(start.getTime() + seconds * 1000),
  });
  const passes = async (seconds: number): Promise<number> => {
    let passed = 0;
    while (
      passed < 100 &&
      (await limiter.byAddress(BUCKETS.mfa, at(seconds)).then(
        () => true,
        () => false,
      ))
    )
      passed += 1;
    return passed;
  };
  expect(await passes(0)).toBe(30);
  expect(await passes(4)).toBe(1);
  expect(await passes(64)).toBe(15);
  expect(await passes(100_000)).toBe(30);
  mode = 'off';
  expect(await passes(100_000)).toBe(100);
});
