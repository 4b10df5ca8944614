// A response must not show whether an address has an account: not in the body, the status, the headers or its
// duration.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import { aUser, startAuth, type AuthWorld, type Reply } from '../../support/auth-world.ts';

let world: AuthWorld;
beforeAll(async () => {
  world = await startAuth({ verifyEmail: true, hashing: 'real' });
  const create = (i: number, password: Readonly<Record<string, unknown>>): Promise<Reply> =>
    world.call('POST', '/admin/users', {
      apikey: world.keys.secret,
      body: { email: `known${i}@example.com`, email_confirm: true, ...password },
    });
  await create(0, { password: 'correct horse' });
  // The others get the same hash, which need not be computed again.
  const [row] = await world.query<{ hash: string }>(sql`select encrypted_password as hash from auth.users`);
  for (let i = 1; i < 40; i++) await create(i, { password_hash: row?.hash });
});
afterAll(() => world.close());

const VOLATILE = ['date', 'x-request-id', 'content-length'];

function shape(reply: Reply): unknown {
  const headers = [...reply.headers].filter(([name]) => !VOLATILE.includes(name));
  return { status: reply.status, headers, body: reply.text };
}

describe('the same response', () => {
  const requests: ReadonlyArray<readonly [string, (email: string) => Promise<Reply>]> = [
    [
      'password',
      (email) =>
        world.call('POST', '/token?grant_type=password', { body: { email, password: 'wrong horse' } }),
    ],
    ['recover', (email) => world.call('POST', '/recover', { body: { email } })],
    ['recover again', (email) => world.call('POST', '/recover', { body: { email } })],
    ['otp', (email) => world.call('POST', '/otp', { body: { email: `otp-${email}` } })],
    ['resend', (email) => world.call('POST', '/resend', { body: { type: 'signup', email } })],
    [
      'resend email_change',
      (email) => world.call('POST', '/resend', { body: { type: 'email_change', email } }),
    ],
    [
      'verify',
      (email) => world.call('POST', '/verify', { body: { type: 'recovery', email, token: '000000' } }),
    ],
  ];
  test.each(requests)('%s', async (_name, ask) => {
    const known = shape(await ask('known0@example.com'));
    const unknown = shape(await ask('stranger0@example.com'));
    expect(unknown).toEqual(known);
  });

  test('sign-up: a registered address returns the keys and types of a new one', async () => {
    const ask = (email: string) =>
      world.call('POST', '/signup', { body: { email, password: 'correct horse', data: { a: 1 } } });
    const [taken, fresh] = [await ask('known1@example.com'), await ask('fresh1@example.com')];
    const types = (reply: Reply) => Object.entries(reply.json).map(([key, value]) => [key, typeof value]);
    expect(types(taken)).toEqual(types(fresh));
    expect(taken.status).toBe(fresh.status);
    const again = [await ask('known1@example.com'), await ask('fresh1@example.com')];
    expect(again[0]?.json.error_code).toBe(again[1]?.json.error_code);
    expect(again.map((reply) => reply.status)).toEqual([429, 429]);
  });

  test('a ban is visible only to a caller who knows the password', async () => {
    const list = await world.admin().auth.admin.listUsers({ perPage: 100 });
    const user = list.data.users.find((user) => user.email === 'known2@example.com');
    await world.admin().auth.admin.updateUserById(user?.id ?? '', { ban_duration: '1h' });
    const ask = (email: string) =>
      world.call('POST', '/token?grant_type=password', { body: { email, password: 'wrong horse' } });
    expect(shape(await ask('known2@example.com'))).toEqual(shape(await ask('stranger2@example.com')));
  });
});

describe('the same duration', () => {
  const median = (values: readonly number[]): number =>
    values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
  async function timed(ask: () => Promise<Reply>): Promise<number> {
    const startedAt = performance.now();
    await ask();
    return performance.now() - startedAt;
  }

  // Many samples make a median that a busy machine does not move. A second /recover for an address is another
  // path (the gap between mails), so each address gets one request.
  test.each<[string, string, number, (email: string) => unknown]>([
    ['a password', '/token?grant_type=password', 4, (email) => ({ email, password: 'wrong horse' })],
    ['recover', '/recover', 1, (email) => ({ email })],
    ['a code', '/verify', 4, (email) => ({ type: 'recovery', email, token: '000000' })],
  ])('%s', async (_name, path, passes, body) => {
    const [known, unknown]: [number[], number[]] = [[], []];
    for (let pass = 0; pass < passes; pass++) {
      // Alternates the requests, so that other load of the machine affects both alike.
      for (let i = 5; i < 25; i++) {
        known.push(await timed(() => world.call('POST', path, { body: body(`known${i}@example.com`) })));
        unknown.push(await timed(() => world.call('POST', path, { body: body(`stranger${i}@example.com`) })));
      }
    }
    const [a, b] = [median(known), median(unknown)];
    expect(Math.abs(a - b) / Math.max(a, b)).toBeLessThan(0.25);
  });
});

test('OAuth callbacks and signed-out routes reveal no user', async () => {
  const user = await aUser(world).catch(() => undefined);
  expect(user).toBeUndefined();
  const reply = await world.call('GET', '/callback/google?state=x&code=y', { apikey: null });
  expect(reply.text).not.toContain('@');
});
