// A caller cannot block mail to other people by requesting mail.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { raw } from '../../../src/postgres/sql.ts';
import { postFrom, startAuth, type AuthWorld } from '../../support/auth-world.ts';

let world: AuthWorld;
beforeAll(async () => {
  world = await startAuth({
    verifyEmail: true,
    env: { SVC_AUTH_RATE_LIMITS: 'on', SVC_AUTH_MAILS_PER_HOUR: '30' },
  });
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.query(raw('truncate auth.rate_limits, auth.email_throttle'));
});

const post = async (from: string, path: string, body: unknown): Promise<number> =>
  (await postFrom(world, from, path, body)).status;

const STRANGER = '127.0.0.2';
const OWNER = '127.0.0.3';
let count = 0;
const anAddress = (): string => `limited${++count}@example.com`;
const signUp = (from: string, email = anAddress()): Promise<number> =>
  post(from, '/signup', { email, password: 'a good password' });
const mailsTo = async (email: string): Promise<number> => (await world.mails(email)).length;

test('mails that are never sent use only the share of their caller', async () => {
  const known = anAddress();
  expect(await signUp(OWNER, known)).toBe(200);
  for (const path of ['/recover', '/resend', '/otp']) {
    for (let i = 0; i < 12; i++) {
      const body = { email: anAddress(), type: 'signup', create_user: false };
      await post(STRANGER, path, body);
    }
  }
  expect(await post(STRANGER, '/recover', { email: anAddress() })).toBe(429);
  expect(await post(OWNER, '/recover', { email: known })).toBe(200);
  expect(await mailsTo(known)).toBe(2);
});

test('sent mails use up a share, and the rest remains for other callers', async () => {
  const statuses: number[] = [];
  for (let i = 0; i < 12; i++) statuses.push(await signUp(STRANGER));
  expect(statuses).toEqual([...Array<number>(10).fill(200), 429, 429]);
  expect(await signUp(OWNER)).toBe(200);
});

test('an exhausted limit returns the same for known and unknown addresses, and invitations continue', async () => {
  const known = anAddress();
  expect(await signUp('127.0.0.9', known)).toBe(200);
  for (let caller = 10; caller < 13; caller++) for (let i = 0; i < 10; i++) await signUp(`127.0.0.${caller}`);
  expect(await post(OWNER, '/recover', { email: known })).toBe(429);
  expect(await post(OWNER, '/recover', { email: anAddress() })).toBe(429);
  const invited = await world.call('POST', '/invite', {
    apikey: world.keys.secret,
    body: { email: anAddress() },
  });
  expect(invited.status).toBe(200);
});

test('a request that is too early does not reduce the allowance of a mailbox', async () => {
  const email = anAddress();
  await signUp(OWNER, email);
  for (let i = 0; i < 12; i++) await post(OWNER, '/recover', { email });
  world.ahead += 61_000;
  expect(await post(OWNER, '/recover', { email })).toBe(200);
});

test('a service that sets no number sends more than thirty mails an hour', async () => {
  const roomy = await startAuth({ join: world, verifyEmail: true, env: { SVC_AUTH_RATE_LIMITS: 'on' } });
  try {
    for (let i = 0; i < 30; i++) {
      const body = { email: anAddress(), password: 'a good password' };
      expect((await roomy.call('POST', '/signup', { body })).status).toBe(200);
    }
    const body = { email: anAddress() };
    for (let i = 0; i < 10; i++)
      expect((await roomy.call('POST', '/otp', { body: { email: anAddress() } })).status).toBe(200);
    expect((await roomy.call('POST', '/otp', { body })).status).toBe(200);
  } finally {
    await roomy.close();
  }
});
