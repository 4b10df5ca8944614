// Effects of events on sessions: every event with the session that caused it, another session of the user, the access
// token and a mailed link. docs/auth-states.md has the same table.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import { aUser, mailSecrets, startAuth, type AuthWorld } from '../../support/auth-world.ts';

let world: AuthWorld;
beforeAll(async () => {
  world = await startAuth({ hashing: 'real' });
});
afterAll(() => world.close());

type User = Awaited<ReturnType<typeof aUser>>;
type Event = (user: User) => Promise<unknown>;
type Fate = { readonly own: string; readonly other: string; readonly access: string; readonly link: string };

const call: AuthWorld['call'] = (...given) => world.call(...given);
const admin = (method: string, path: string, body?: unknown) =>
  call(method, path, { apikey: world.keys.secret, body });

const EVENTS: Readonly<Record<string, readonly [Event, Fate]>> = {
  nothing: [() => Promise.resolve(), { own: '200', other: '200', access: '200', link: '200' }],
  'sign-out local': [
    (user) => call('POST', '/logout?scope=local', { bearer: user.access }),
    { own: 'refresh_token_not_found', other: '200', access: 'session_not_found', link: '200' },
  ],
  'sign-out others': [
    (user) => call('POST', '/logout?scope=others', { bearer: user.access }),
    { own: '200', other: 'refresh_token_not_found', access: '200', link: '200' },
  ],
  'sign-out global': [
    (user) => call('POST', '/logout', { bearer: user.access }),
    {
      own: 'refresh_token_not_found',
      other: 'refresh_token_not_found',
      access: 'session_not_found',
      link: '200',
    },
  ],
  'password change': [
    (user) => call('PUT', '/user', { bearer: user.access, body: { password: 'another horse' } }),
    { own: '200', other: 'refresh_token_not_found', access: '200', link: 'otp_expired' },
  ],
  'password change by an admin': [
    (user) => admin('PUT', `/admin/users/${user.id}`, { password: 'another horse' }),
    {
      own: 'refresh_token_not_found',
      other: 'refresh_token_not_found',
      access: 'session_not_found',
      link: 'otp_expired',
    },
  ],
  ban: [
    (user) => admin('PUT', `/admin/users/${user.id}`, { ban_duration: '1h' }),
    { own: 'user_banned', other: 'user_banned', access: 'user_banned', link: 'user_banned' },
  ],
  'ban and unban': [
    async (user) => {
      await admin('PUT', `/admin/users/${user.id}`, { ban_duration: '1h' });
      await admin('PUT', `/admin/users/${user.id}`, { ban_duration: 'none' });
    },
    { own: '200', other: '200', access: '200', link: '200' },
  ],
  'soft delete': [
    (user) => admin('DELETE', `/admin/users/${user.id}`, { should_soft_delete: true }),
    {
      own: 'refresh_token_not_found',
      other: 'refresh_token_not_found',
      access: 'user_not_found',
      link: 'otp_expired',
    },
  ],
  'hard delete': [
    (user) => admin('DELETE', `/admin/users/${user.id}`),
    {
      own: 'refresh_token_not_found',
      other: 'refresh_token_not_found',
      access: 'user_not_found',
      link: 'otp_expired',
    },
  ],
  'address change by an admin': [
    (user) => admin('PUT', `/admin/users/${user.id}`, { email: `moved-${user.email}` }),
    { own: '200', other: '200', access: '200', link: 'otp_expired' },
  ],
};

test.each(Object.entries(EVENTS))('%s', async (_name, [happen, fate]) => {
  const user = await aUser(world);
  const other = (
    await call('POST', '/token?grant_type=password', { body: { email: user.email, password: user.password } })
  ).json;
  await call('POST', '/recover', { body: { email: user.email } });
  const { token } = mailSecrets((await world.mails(user.email))[0]!);
  await happen(user);
  const outcome = async (reply: ReturnType<AuthWorld['call']>): Promise<string> => {
    const { status, json } = await reply;
    return status === 200 ? '200' : String(json.error_code);
  };
  const refresh = (refresh_token: string) =>
    call('POST', '/token?grant_type=refresh_token', { body: { refresh_token } });
  const access = await outcome(call('GET', '/user', { bearer: user.access }));
  const own = await outcome(refresh(user.refresh));
  const another = await outcome(refresh(other.refresh_token));
  const link = await outcome(call('POST', '/verify', { body: { type: 'recovery', token_hash: token } }));
  expect({ own, other: another, access, link }).toEqual(fate);
});

test('a password sign-in that races a password change does not survive it', async () => {
  for (let round = 0; round < 5; round++) {
    const user = await aUser(world);
    const body = { email: user.email, password: user.password };
    const [raced] = await Promise.all([
      call('POST', '/token?grant_type=password', { body }),
      call('PUT', '/user', { bearer: user.access, body: { password: 'another horse' } }),
    ]);
    if (raced.status !== 200) continue;
    const after = await call('POST', '/token?grant_type=refresh_token', {
      body: { refresh_token: raced.json.refresh_token },
    });
    expect(after.status).toBe(400);
  }
});

test('concurrent requests turn an anonymous user into one full user', async () => {
  const anonymous = await world.call('POST', '/signup', { body: {} });
  const replies = await Promise.all(
    ['first', 'second', 'third'].map((name) =>
      world.call('POST', '/signup', {
        bearer: anonymous.json.access_token,
        body: { email: `${name}-promotion@example.com`, password: 'correct horse' },
      }),
    ),
  );
  const won = replies.filter((reply) => reply.json.user?.id === anonymous.json.user.id);
  expect(won).toHaveLength(1);
  const [user] = await world.query(sql`select email from auth.users where id = ${anonymous.json.user.id}`);
  expect(user).toEqual({ email: won[0]?.json.user.email });
});
