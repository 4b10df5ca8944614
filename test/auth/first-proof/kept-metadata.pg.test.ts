// Tests that a proof of an address keeps the metadata, sends a notice, and counts against the mail limits.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { resolveIdentity } from '../../../src/auth/accounts/identity-link.ts';
import { sql } from '../../../src/postgres/sql.ts';
import { anAuthRequest } from '../../support/auth-context.ts';
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
  world = await startAuth({
    auth: { email: { verifyEmail: true, templates: [], notices: true, confirmAtSignup: true } },
  });
});
afterAll(() => world.close());

type Email = NonNullable<AuthWorld['config']['auth']['email']>;
async function withEmail<T>(change: Partial<Email>, work: () => Promise<T>): Promise<T> {
  const before = world.config;
  const email: Email = { verifyEmail: false, templates: [], ...before.auth.email, ...change };
  world.config = { ...before, auth: { ...before.auth, email } };
  try {
    return await work();
  } finally {
    world.config = before;
  }
}
const open = <T>(work: () => Promise<T>): Promise<T> => withEmail({ verifyEmail: false }, work);
const admin = (path: string, body: unknown): Promise<Reply> =>
  world.call('POST', path, { apikey: world.keys.secret, body });
const kinds = async (to: string): Promise<string[]> => (await world.mails(to)).map(({ kind }) => kind);
const readMetadata = async (email: string): Promise<unknown> =>
  (
    await world.query<{ data: unknown }>(
      sql`select raw_user_meta_data as data from auth.users where email = ${email}`,
    )
  )[0]?.data;

describe('metadata', () => {
  test('stays when a second sign-up claims the address with another password', async () => {
    const email = 'contested@example.com';
    await world.call('POST', '/signup', {
      body: { email, password: 'the first one', data: { name: 'Ada' } },
    });
    world.ahead += 61_000;
    await world.call('POST', '/signup', {
      body: { email, password: 'the other one', data: { name: 'Eve' } },
    });
    expect(await readMetadata(email)).toMatchObject({ name: 'Ada' });
  });

  test('stays when an unconfirmed address is invited', async () => {
    const email = 'invited@example.com';
    await world.call('POST', '/signup', {
      body: { email, password: 'the first one', data: { name: 'Ada' } },
    });
    await admin('/invite', { email, data: { team: 'red' } });
    expect(await readMetadata(email)).toMatchObject({ name: 'Ada', team: 'red' });
  });

  test('of a later one-time password is added to that of an earlier one', async () => {
    const email = 'asked@example.com';
    await world.call('POST', '/otp', { body: { email, data: { name: 'Ada' } } });
    world.ahead += 61_000;
    await world.call('POST', '/otp', { body: { email, data: { lang: 'en' } } });
    expect(await readMetadata(email)).toMatchObject({ name: 'Ada', lang: 'en' });
  });

  test('of the user wins over the claims of an identity that they link by hand', async () => {
    const user = await open(() => aUser(world, { data: { name: 'Ada', avatar_url: 'mine.png' } }));
    const subject = randomUUID();
    const claims = { sub: subject, name: 'Kim Doe', avatar_url: 'theirs.png', locale: 'de' };
    const request = anAuthRequest(world);
    const linking = { userId: user.id, sessionId: decodeClaims(user.access).session_id };
    const order = {
      provider: 'acme',
      profile: { subject, emails: [], claims },
      emailOptional: true,
      linking,
    };
    await request.auth.db.transaction((db) => resolveIdentity(db, request, order));
    expect(await readMetadata(user.email)).toMatchObject({
      name: 'Ada',
      avatar_url: 'mine.png',
      locale: 'de',
    });
    expect(await kinds(user.email)).toContain('identity_linked');

    // The next sign-in replaces them with the values of the provider.
    const again = { ...order, linking: undefined };
    await request.auth.db.transaction((db) => resolveIdentity(db, request, again));
    expect(await readMetadata(user.email)).toMatchObject({ name: 'Kim Doe', avatar_url: 'theirs.png' });
  });
});

describe('notices', () => {
  test('report a changed password once in ten minutes', async () => {
    const user = await open(() => aUser(world));
    const change = async (password: string): Promise<void> => {
      const { status } = await world.call('PUT', '/user', { bearer: user.access, body: { password } });
      expect(status).toBe(200);
    };
    const sent = async (): Promise<number> =>
      (await kinds(user.email)).filter((kind) => kind === 'password_changed').length;
    await change('another password');
    await change('yet another one');
    expect(await sent()).toBe(1);
    world.ahead += 601_000;
    await change('the last password');
    expect(await sent()).toBe(2);
  });

  test('go to the former address when the address changes', async () => {
    const user = await open(() => aUser(world));
    const path = `/admin/users/${user.id}`;
    const body = { email: `moved.${user.email}`, email_confirm: true };
    await world.call('PUT', path, { apikey: world.keys.secret, body });
    const mail = (await world.mails(user.email)).find(({ kind }) => kind === 'email_changed');
    expect(mail?.text).toContain(`from ${user.email} to moved.${user.email}`);
  });

  test.each([
    ['false', false],
    ['a list without their kind', ['email_changed'] as const],
  ])('are not sent with %s', async (_name, notices) => {
    const user = await open(() => aUser(world));
    await withEmail({ notices }, () =>
      world.call('PUT', '/user', { bearer: user.access, body: { password: 'another password' } }),
    );
    expect(await kinds(user.email)).not.toContain('password_changed');
  });
});

test('a sign-up succeeds without its confirmation mail when the limit on mails is reached', async () => {
  const limited = await startAuth({
    join: world,
    auth: { email: { verifyEmail: false, templates: [], confirmAtSignup: true, notices: true } },
    env: { SVC_AUTH_RATE_LIMITS: 'on', SVC_AUTH_MAILS_PER_HOUR: '1' },
  });
  const first = await aUser(limited, { email: 'first.of.hour@example.com' });
  const second = await aUser(limited, { email: 'second.of.hour@example.com' });
  expect(await kinds(first.email)).toEqual(['confirm']);
  expect(await kinds(second.email)).toEqual([]);
  await limited.call('PUT', '/user', { bearer: second.access, body: { password: 'another password' } });
  const audit = await world.query(sql`
    select payload -> 'traits' ->> 'notice' as notice from auth.audit_log_entries
    where payload ->> 'action' = 'notice_dropped'`);
  expect(audit).toEqual([{ notice: 'password_changed' }]);
  await limited.close();
});

test('a link of generate_link for the sign-up of a guarded account is refused', async () => {
  const email = 'guarded@example.com';
  const { json } = await world.call('POST', '/signup', { body: { email, password: 'the first one' } });
  await world.query(sql`
    insert into auth.mfa_factors (user_id, friendly_name, factor_type, status)
      values (${json.id}, 'f', 'totp', 'verified')`);
  const reply = await admin('/admin/generate_link', { type: 'signup', email, password: 'by the admin' });
  expect([reply.status, reply.json.error_code]).toEqual([422, 'email_exists']);
});

test('a restricted session cannot verify a factor that was never verified', async () => {
  const user = await open(() => aUser(world));
  const enrolled = await world.call('POST', '/factors', {
    bearer: user.access,
    body: { factor_type: 'totp' },
  });
  await world.query(sql`
    insert into auth.mfa_factors (user_id, friendly_name, factor_type, status)
      values (${user.id}, 'f', 'totp', 'verified')`);
  await world.call('POST', '/otp', { body: { email: user.email } });
  const code = mailSecrets((await world.mails(user.email))[0]!).code;
  const { json } = await world.call('POST', '/verify', {
    body: { type: 'email', email: user.email, token: code },
  });
  expect(decodeClaims(json.access_token).restricted).toBe(true);
  const reply = await world.call('POST', `/factors/${enrolled.json.id}/challenge`, {
    bearer: json.access_token,
  });
  expect(reply.status).toBe(404);
});
