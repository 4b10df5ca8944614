// Every secret that works once, redeemed fifty times in parallel: exactly one wins, and exactly one session exists.
import { createHash, randomBytes } from 'node:crypto';
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import {
  aUser,
  decodeClaims,
  parseRedirect,
  mailSecrets,
  startAuth,
  type AuthWorld,
  type Reply,
} from '../../support/auth-world.ts';

const TIMES = 50;
let world: AuthWorld;
let neighbour: AuthWorld;
// Fifty attempts are more than a mailbox or a factor is allowed.
const options = { auth: { redirectUrls: ['https://app.example'] }, env: { SVC_AUTH_RATE_LIMITS: 'off' } };
beforeAll(async () => {
  world = await startAuth(options);
  // Two instances share one database, so that a lock inside a process is not sufficient.
  neighbour = await startAuth({ join: world, ...options });
});
afterAll(async () => {
  await neighbour.close();
  await world.close();
});

const fifty = (work: (instance: AuthWorld, index: number) => Promise<Reply>): Promise<Reply[]> =>
  Promise.all(Array.from({ length: TIMES }, (_, index) => work(index % 2 ? world : neighbour, index)));

const count = (replies: readonly Reply[], won: (reply: Reply) => boolean): number =>
  replies.filter(won).length;
const isSession = (reply: Reply): boolean => typeof reply.json.access_token === 'string';

async function aMail(path: string, email: string): Promise<{ link: URL; code: string; token: string }> {
  await world.call('POST', path, { body: { email } });
  return mailSecrets((await world.mails(email))[0]!);
}

async function countSessions(email: string): Promise<number> {
  const [row] = await world.query<{ n: number }>(sql`
    select count(*)::int as n from auth.sessions s join auth.users u on u.id = s.user_id where u.email = ${email}`);
  return row?.n ?? -1;
}

test('a typed code', async () => {
  const { code } = await aMail('/otp', 'typed@example.com');
  const replies = await fifty((instance) =>
    instance.call('POST', '/verify', { body: { type: 'email', email: 'typed@example.com', token: code } }),
  );
  expect(count(replies, isSession)).toBe(1);
  expect(await countSessions('typed@example.com')).toBe(1);
});

test('wrong codes in parallel are all counted', async () => {
  const { code } = await aMail('/otp', 'guessed@example.com');
  const guesses = Array.from({ length: TIMES }, (_, index) =>
    String((Number(code) + 1 + index) % 1_000_000).padStart(6, '0'),
  );
  await fifty((instance, index) =>
    instance.call('POST', '/verify', {
      body: { type: 'email', email: 'guessed@example.com', token: guesses[index] },
    }),
  );
  const right = await world.call('POST', '/verify', {
    body: { type: 'email', email: 'guessed@example.com', token: code },
  });
  expect(right.status).toBe(403);
});

test('a link hash', async () => {
  const { token } = await aMail('/otp', 'hash@example.com');
  const replies = await fifty((instance) =>
    instance.call('POST', '/verify', { body: { type: 'magiclink', token_hash: token } }),
  );
  expect(count(replies, isSession)).toBe(1);
  expect(await countSessions('hash@example.com')).toBe(1);
});

test('a mailed link', async () => {
  const { link } = await aMail('/otp', 'link@example.com');
  const path = `/verify${link.search}`;
  const replies = await fifty((instance) => instance.call('GET', path, { apikey: null }));
  expect(count(replies, (reply) => 'access_token' in parseRedirect(reply).fragment)).toBe(1);
  expect(await countSessions('link@example.com')).toBe(1);
});

test('a recovery link', async () => {
  await aUser(world, { email: 'recovery@example.com' });
  const { token } = await aMail('/recover', 'recovery@example.com');
  const replies = await fifty((instance) =>
    instance.call('POST', '/verify', { body: { type: 'recovery', token_hash: token } }),
  );
  expect(count(replies, isSession)).toBe(1);
});

test('an invitation', async () => {
  await world.admin().auth.admin.inviteUserByEmail('invited@example.com');
  const { token } = mailSecrets((await world.mails('invited@example.com'))[0]!);
  const replies = await fifty((instance) =>
    instance.call('POST', '/verify', { body: { type: 'invite', token_hash: token } }),
  );
  expect(count(replies, isSession)).toBe(1);
});

test('an authorization code', async () => {
  const verifier = randomBytes(56).toString('hex');
  const challenge = {
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 's256',
  };
  await world.call('POST', '/otp', { body: { email: 'code@example.com', ...challenge } });
  const { link } = mailSecrets((await world.mails('code@example.com'))[0]!);
  const { query } = parseRedirect(await world.call('GET', link.href, { apikey: null }));
  const body = { auth_code: query['code'], code_verifier: verifier };
  const replies = await fifty((instance) => instance.call('POST', '/token?grant_type=pkce', { body }));
  expect(count(replies, isSession)).toBe(1);
  expect(count(replies, (reply) => reply.json.error_code === 'flow_state_not_found')).toBe(TIMES - 1);
  expect(await countSessions('code@example.com')).toBe(1);
});

test('both halves of an email change apply it once', async () => {
  const user = await aUser(world, { email: 'halves@example.com' });
  await world.call('PUT', '/user', { bearer: user.access, body: { email: 'whole@example.com' } });
  const halves = [
    mailSecrets((await world.mails('halves@example.com'))[0]!),
    mailSecrets((await world.mails('whole@example.com'))[0]!),
  ];
  const replies = await fifty((instance, index) =>
    instance.call('POST', '/verify', {
      body: { type: 'email_change', token_hash: halves[index % 4 < 2 ? 0 : 1]!.token },
    }),
  );
  expect(count(replies, isSession)).toBe(1);
  expect(count(replies, (reply) => reply.json.code === '200')).toBe(1);
});

test('a TOTP code, with a challenge for each', async () => {
  const user = await aUser(world, { email: 'totp@example.com' });
  const post = (instance: AuthWorld, path: string, body: unknown) =>
    instance.call('POST', path, { bearer: user.access, body });
  const { json: factor } = await post(world, '/factors', { factor_type: 'totp', friendly_name: 'f' });
  const code = new TOTP({ secret: Secret.fromBase32(factor.totp.secret) }).generate();
  const tries = 8;
  const challenges = await Promise.all(
    Array.from({ length: tries }, () => post(world, `/factors/${factor.id}/challenge`, {})),
  );
  const replies = await Promise.all(
    challenges.map((challenge, index) =>
      post(index % 2 ? world : neighbour, `/factors/${factor.id}/verify`, {
        challenge_id: challenge.json.id,
        code,
      }),
    ),
  );
  expect(count(replies, isSession)).toBe(1);
});

test('a refresh token: all callers get the same next token, and the counter increases once', async () => {
  const user = await aUser(world, { email: 'refresh@example.com' });
  const replies = await fifty((instance) =>
    instance.call('POST', '/token?grant_type=refresh_token', { body: { refresh_token: user.refresh } }),
  );
  expect(count(replies, isSession)).toBe(TIMES);
  expect(new Set(replies.map((reply) => reply.json.refresh_token)).size).toBe(1);
  const [row] = await world.query<{ counter: string }>(
    sql`select refresh_token_counter as counter from auth.sessions where id = ${decodeClaims(user.access).session_id}`,
  );
  expect(Number(row?.counter)).toBe(1);
});
