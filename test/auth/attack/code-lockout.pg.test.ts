// A stranger who knows an address cannot keep its owner from signing in with a mailed code.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { raw } from '../../../src/postgres/sql.ts';
import { postFrom, mailSecrets, startAuth, type AuthWorld } from '../../support/auth-world.ts';

let world: AuthWorld;
beforeAll(async () => {
  world = await startAuth({ env: { SVC_AUTH_RATE_LIMITS: 'on' } });
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.query(raw('truncate auth.rate_limits, auth.email_throttle'));
});

const OWNER = '127.0.0.3';
const STRANGER = '127.0.0.2';
let count = 0;
const anAddress = (): string => `mailbox${++count}@example.com`;

const requestCode = async (from: string, email: string): Promise<number> =>
  (await postFrom(world, from, '/otp', { email })).status;
const mailedCode = async (email: string): Promise<string> => mailSecrets((await world.mails(email))[0]!).code;
const enter = async (from: string, email: string, token: string): Promise<number> =>
  (await postFrom(world, from, '/verify', { type: 'email', email, token })).status;
const wrong = (code: string, by = 1): string => String((Number(code) + by) % 1_000_000).padStart(6, '0');
/** A hundred wrong codes from fifty networks. */
const enterWrong = (email: string, code: string): Promise<unknown> =>
  Promise.all(
    Array.from({ length: 100 }, (_, i) => enter(`127.0.2.${(i % 50) + 1}`, email, wrong(code, i + 1))),
  );

test('wrong codes from another network do not use up the tries of the owner', async () => {
  const email = anAddress();
  await requestCode(OWNER, email);
  const code = await mailedCode(email);
  const statuses: number[] = [];
  for (let i = 1; i <= 30; i++) statuses.push(await enter(STRANGER, email, wrong(code, i)));
  expect(statuses.slice(0, 10)).toEqual(Array(10).fill(403));
  expect(statuses.slice(10)).toEqual(Array(20).fill(429));
  expect(await enter(OWNER, email, code)).toBe(200);
});

test('a code allows three wrong tries from the requesting network and two from all others', async () => {
  const email = anAddress();
  await requestCode(OWNER, email);
  const code = await mailedCode(email);
  for (let i = 1; i <= 2; i++) await enter(`127.0.1.${i}`, email, wrong(code, i));
  expect(await enter('127.0.1.9', email, code)).toBe(403);
  await Promise.all([1, 2, 3].map((by) => enter(OWNER, email, wrong(code, by))));
  expect(await enter(OWNER, email, code)).toBe(403);
});

test('a request from another network does not void the code of the owner', async () => {
  const email = anAddress();
  await requestCode(OWNER, email);
  const code = await mailedCode(email);
  expect(await requestCode(STRANGER, email)).toBe(200);
  expect(await requestCode(STRANGER, email)).toBe(429);
  expect(await enter(OWNER, email, code)).toBe(200);
  // One use voids every secret of the mailbox.
  expect(await enter(OWNER, email, await mailedCode(email))).toBe(403);
});

test('a new request from the same network replaces its own code', async () => {
  const email = anAddress();
  await requestCode(OWNER, email);
  const first = await mailedCode(email);
  world.ahead += 61_000;
  await requestCode(OWNER, email);
  const second = await mailedCode(email);
  expect(await enter(OWNER, email, first)).toBe(403);
  expect(await enter(OWNER, email, second)).toBe(200);
});

test('a hundred wrong codes from many networks stop all networks but the requesting one', async () => {
  const email = anAddress();
  await requestCode(OWNER, email);
  const code = await mailedCode(email);
  await enterWrong(email, code);
  expect(await enter('127.0.3.1', email, wrong(code))).toBe(403);
  expect(await enter(OWNER, email, code)).toBe(200);
});

test('right codes cost nothing', async () => {
  const email = anAddress();
  for (let i = 0; i < 12; i++) {
    world.ahead += 3_600_000;
    await requestCode(OWNER, email);
    expect(await enter(OWNER, email, await mailedCode(email))).toBe(200);
  }
});

test('an unknown mailbox gets the same responses', async () => {
  const email = anAddress();
  const statuses: number[] = [];
  for (let i = 1; i <= 12; i++) statuses.push(await enter(STRANGER, email, wrong('000000', i)));
  expect(statuses).toEqual([...Array<number>(10).fill(403), 429, 429]);
  await enterWrong(email, '000000');
  expect(await enter('127.0.3.1', email, '000000')).toBe(403);
});

test('requests by strangers leave two mails an hour to a network that redeemed one before', async () => {
  const email = anAddress();
  await requestCode(OWNER, email);
  expect(await enter(OWNER, email, await mailedCode(email))).toBe(200);
  await world.query(raw('truncate auth.rate_limits'));
  const strangers: number[] = [];
  for (let network = 1; network <= 10; network++)
    strangers.push((await postFrom(world, `127.0.4.${network}`, '/recover', { email })).status);
  expect(strangers).toEqual([...Array<number>(8).fill(200), 429, 429]);
  expect(await requestCode(OWNER, email)).toBe(200);
  expect((await postFrom(world, OWNER, '/resend', { email, type: 'signup' })).status).toBe(200);
  expect((await postFrom(world, OWNER, '/resend', { email, type: 'email_change' })).status).toBe(429);
});

test('strangers cannot use up the reauthentication mails of a signed-in user', async () => {
  const email = anAddress();
  await postFrom(world, OWNER, '/signup', { email, password: 'correct horse' });
  const signedIn = await world.call('POST', '/token?grant_type=password', {
    body: { email, password: 'correct horse' },
  });
  for (let network = 1; network <= 10; network++)
    await postFrom(world, `127.0.4.${network}`, '/recover', { email });
  const reply = await world.call('GET', '/reauthenticate', { bearer: signedIn.json.access_token });
  expect(reply.status).toBe(200);
});
