// An attacker creates an account with the victim's address and waits for its owner. Combines every way to prepare the
// account with every way in which the owner may arrive: afterwards no credential of the attacker opens the account.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { resolveIdentity } from '../../../src/auth/accounts/identity-link.ts';
import { hashSecret } from '../../../src/auth/sessions/flow-state.ts';
import { sql } from '../../../src/postgres/sql.ts';
import { anAuthContext, anAuthRequest } from '../../support/auth-context.ts';
import {
  pressButton,
  mailSecrets,
  startAuth,
  withAuth,
  type AuthWorld,
  type Reply,
} from '../../support/auth-world.ts';

const THEIRS = 'the password of a stranger';
const OFF = { email: { verifyEmail: false, templates: [] } };
const OPTIONS = { verifyEmail: true, env: { SVC_AUTH_RATE_LIMITS: 'off' } };
let world: AuthWorld;
/** A second instance, which hashes passwords at their real cost. */
let slow: AuthWorld;
beforeAll(async () => {
  world = await startAuth(OPTIONS);
  slow = await startAuth({ ...OPTIONS, hashing: 'real', join: world });
});
afterAll(async () => {
  await slow.close();
  await world.close();
});

type Stranger = { readonly access?: string; readonly subject?: string; readonly flow?: string };

const ok = (reply: Reply): Reply => {
  if (reply.status >= 400) throw new Error(`${reply.status} ${reply.text}`);
  return reply;
};
const signUp = async (email: string, password = THEIRS, data?: Record<string, unknown>): Promise<Reply> =>
  ok(await world.call('POST', '/signup', { body: { email, password, data } }));
const admin = async (path: string, body: unknown): Promise<Reply> =>
  ok(await world.call('POST', path, { apikey: world.keys.secret, body }));

async function arriveByProvider(
  email: string,
  verified: boolean,
  subject: string,
  inviteTokenHash?: string,
): Promise<unknown> {
  const auth = anAuthContext(world);
  return await auth.db.transaction((db) =>
    resolveIdentity(db, anAuthRequest(world), {
      provider: 'acme',
      profile: {
        subject,
        emails: [{ email, verified, primary: true }],
        claims: { sub: subject, email, email_verified: verified },
      },
      emailOptional: false,
      inviteTokenHash,
    }),
  );
}

/** Preparations without verification: a session and its possible additions. */
async function settled(email: string): Promise<Stranger> {
  let stranger: Stranger = {};
  await withAuth(world, OFF, async () => {
    const { json } = await signUp(email);
    const access: string = json.access_token;
    ok(await world.call('PUT', '/user', { bearer: access, body: { data: { note: 'planted' } } }));
    ok(await world.call('POST', '/factors', { bearer: access, body: { factor_type: 'totp' } }));
    const subject = `evil ${email}`;
    await world.query(sql`
      insert into auth.identities (provider, provider_id, user_id, identity_data)
      values ('acme', ${subject}, ${json.user.id}, ${JSON.stringify({ sub: subject, email: 'x@attacker.example' })})`);
    const [flow] = await world.query<{ id: string }>(sql`
      insert into auth.flow_state (provider_type, authentication_method, linking_target_id)
      values ('acme', 'oauth', ${json.user.id}) returning id`);
    ok(await world.call('PUT', '/user', { bearer: access, body: { email: `attacker.${email}` } }));
    stranger = { access, subject, flow: flow?.id ?? '' };
  });
  return stranger;
}

const PREPARED: Readonly<Record<string, (email: string) => Promise<Stranger>>> = {
  async 'a sign-up with a password'(email) {
    await signUp(email);
    return {};
  },
  async 'a sign-up with user_metadata'(email) {
    await signUp(email, THEIRS, { note: 'planted' });
    return {};
  },
  async 'the same sign-up twice'(email) {
    await signUp(email);
    await signUp(email);
    return {};
  },
  async 'two sign-ups with different passwords'(email) {
    await signUp(email, 'another password of theirs');
    await signUp(email);
    return {};
  },
  async 'a one-time password asked for, then a sign-up'(email) {
    ok(await world.call('POST', '/otp', { body: { email } }));
    await signUp(email);
    return {};
  },
  async 'a provider that does not verify'(email) {
    const subject = `evil ${email}`;
    await arriveByProvider(email, false, subject);
    return { subject };
  },
  async 'a provider that does not verify, then a sign-up'(email) {
    const subject = `evil ${email}`;
    await arriveByProvider(email, false, subject);
    await signUp(email);
    return { subject };
  },
  'an account from before verification, with session, factor, identity and open flow': settled,
};

const latest = async (to: string): Promise<ReturnType<typeof mailSecrets>> => {
  const [mail] = await world.mails(to);
  if (!mail) throw new Error(`no mail to ${to}`);
  return mailSecrets(mail);
};
const open = async (link: URL): Promise<void> => void ok(await pressButton(link.href));

/** The first half sends the request, and the second is the action of the owner. A stranger can act in between. */
type Proof = (email: string) => Promise<() => Promise<void>>;

const mailed =
  (ask: (email: string) => Promise<unknown>, how: 'link' | 'code', type = 'email'): Proof =>
  async (email) => {
    await ask(email);
    const { link, code } = await latest(email);
    return async () => {
      if (how === 'link') await open(link);
      else ok(await world.call('POST', '/verify', { body: { type, email, token: code } }));
    };
  };
const generated =
  (type: string, more: Record<string, unknown> = {}): Proof =>
  async (email) => {
    const { json } = await admin('/admin/generate_link', { type, email, ...more });
    return async () => await open(new URL(json.action_link));
  };

const otp = (email: string) => world.call('POST', '/otp', { body: { email } }).then(ok);
const recover = (email: string) => world.call('POST', '/recover', { body: { email } }).then(ok);
const invite = (email: string) => admin('/invite', { email, data: { team: 'red' } });

/** Arrivals that also work for an account with a confirmed address. */
const ALWAYS: Readonly<Record<string, Proof>> = {
  'a magic link': mailed(otp, 'link'),
  'a one-time password': mailed(otp, 'code'),
  'the older magic link': mailed(
    (email) => world.call('POST', '/magiclink', { body: { email } }).then(ok),
    'link',
  ),
  'a recovery link': mailed(recover, 'link'),
  'a recovery code': mailed(recover, 'code', 'recovery'),
  'an admin’s magic link': generated('magiclink'),
  'an admin’s recovery link': generated('recovery'),
  'a provider that verifies': async (email) => {
    await Promise.resolve();
    return async () => void (await arriveByProvider(email, true, `owner ${email}`));
  },
};
const WAITING: Readonly<Record<string, Proof>> = {
  ...ALWAYS,
  'an invitation': mailed(invite, 'link'),
  'an invitation’s code': mailed(invite, 'code', 'invite'),
  'an invitation accepted with a provider': async (email) => {
    await invite(email);
    const { token } = await latest(email);
    return async () => void (await arriveByProvider(email, true, `owner ${email}`, hashSecret(token)));
  },
  'an admin’s invitation link': generated('invite'),
  'an admin’s sign-up link': generated('signup', { password: 'chosen by the admin' }),
  'the owner’s own sign-up': mailed((email) => signUp(email, 'the password of the owner'), 'link'),
  'the owner’s own sign-up, sent again': mailed(async (email) => {
    await signUp(email, 'the password of the owner');
    ok(await world.call('POST', '/resend', { body: { type: 'signup', email } }));
  }, 'link'),
};

async function expectNobodyElse(email: string, stranger: Stranger): Promise<void> {
  const [user] = await world.query<Record<string, unknown>>(sql`
    select u.email_proven_at is not null as proven, u.email_change as change,
      (select count(*)::int from auth.mfa_factors f where f.user_id = u.id) as factors,
      (select count(*)::int from auth.identities i
        where i.user_id = u.id and i.provider_id like 'evil %') as identities,
      (select count(*)::int from auth.one_time_tokens t where t.user_id = u.id) as tokens
    from auth.users u where u.email = ${email}`);
  expect(user).toEqual({
    proven: true,
    change: '',
    factors: 0,
    identities: 0,
    tokens: 0,
  });
  for (const password of [THEIRS, 'another password of theirs']) {
    const tried = await world.call('POST', '/token?grant_type=password', { body: { email, password } });
    expect(tried.json.error_code).toBe('invalid_credentials');
  }
  if (stranger.access)
    expect((await world.call('GET', '/user', { bearer: stranger.access })).status).toBe(403);
  if (stranger.flow)
    expect(await world.query(sql`select 1 from auth.flow_state where id = ${stranger.flow}`)).toEqual([]);
}

let count = 0;
const anAddress = (): string => `victim${++count}@example.com`;

for (const [prepared, prepare] of Object.entries(PREPARED)) {
  // Runs in parallel, because each case has its own address. `settled` changes the configuration of all.
  const each =
    prepare === settled ? test.each(Object.entries(ALWAYS)) : test.concurrent.each(Object.entries(WAITING));
  each(`${prepared}, then %s`, async (_name, proof) => {
    const email = anAddress();
    const stranger = await prepare(email);
    const arrive = await proof(email);
    await arrive();
    await expectNobodyElse(email, stranger);
  });
}

describe('the stranger acts between the request and the answer of the owner', () => {
  const BETWEEN: Readonly<Record<string, Proof>> = {
    'a magic link': ALWAYS['a magic link'] ?? otp,
    'a one-time password': ALWAYS['a one-time password'] ?? otp,
    'a recovery link': ALWAYS['a recovery link'] ?? otp,
    'an invitation': WAITING['an invitation'] ?? otp,
    'an invitation accepted with a provider': WAITING['an invitation accepted with a provider'] ?? otp,
  } as Readonly<Record<string, Proof>>;

  test.each(Object.entries(BETWEEN))('%s, with the same sign-up repeated', async (_name, proof) => {
    const email = anAddress();
    await signUp(email);
    const arrive = await proof(email);
    await signUp(email);
    ok(await world.call('POST', '/resend', { body: { type: 'signup', email } }));
    await arrive();
    await expectNobodyElse(email, {});
  });

  test('an invitation of a new address stays valid and keeps the metadata of the admin', async () => {
    const email = anAddress();
    await invite(email);
    const { link } = await latest(email);
    await signUp(email, THEIRS, { note: 'planted', team: 'blue' });
    ok(await world.call('POST', '/resend', { body: { type: 'signup', email } }));
    await open(link);
    await expectNobodyElse(email, {});
    const [user] = await world.query(
      sql`select raw_user_meta_data ->> 'team' as team from auth.users where email = ${email}`,
    );
    expect(user).toEqual({ team: 'red' });
  });
});

describe('what must not be removed', () => {
  const enters = async (email: string, password: string): Promise<number> =>
    (await world.call('POST', '/token?grant_type=password', { body: { email, password } })).status;

  test('confirming the first sign-up keeps password and metadata, even after a resend', async () => {
    const email = anAddress();
    await signUp(email, 'my own password', { name: 'Ada' });
    await signUp(email, 'my own password');
    ok(await world.call('POST', '/resend', { body: { type: 'signup', email } }));
    await open((await latest(email)).link);
    expect(await enters(email, 'my own password')).toBe(200);
    const [user] = await world.query(
      sql`select raw_user_meta_data ->> 'name' as name from auth.users where email = ${email}`,
    );
    expect(user).toEqual({ name: 'Ada' });
  });

  test('a one-time password requested by others does not change the pending sign-up', async () => {
    const email = anAddress();
    await signUp(email, 'my own password');
    const { link } = await latest(email);
    await otp(email);
    await open(link);
    expect(await enters(email, 'my own password')).toBe(200);
  });

  test('a first one-time password keeps the data of its request', async () => {
    const email = anAddress();
    ok(await world.call('POST', '/otp', { body: { email, data: { name: 'Ada' } } }));
    await otp(email);
    await open((await latest(email)).link);
    const [user] = await world.query(
      sql`select raw_user_meta_data ->> 'name' as name from auth.users where email = ${email}`,
    );
    expect(user).toEqual({ name: 'Ada' });
  });

  test('a proven account loses nothing to a magic link, an admin’s link or an email change', async () => {
    const email = anAddress();
    await signUp(email, 'my own password');
    await open((await latest(email)).link);
    await otp(email);
    await open((await latest(email)).link);
    const { json } = await admin('/admin/generate_link', { type: 'recovery', email });
    await open(new URL(json.action_link));
    expect(await enters(email, 'my own password')).toBe(200);
  });

  test('a sign-up link of an admin keeps the password set by the admin', async () => {
    const email = anAddress();
    await signUp(email);
    const { json } = await admin('/admin/generate_link', { type: 'signup', email, password: 'by the admin' });
    await open(new URL(json.action_link));
    expect(await enters(email, 'by the admin')).toBe(200);
  });
});

describe('other ways to move or confirm an account', () => {
  test('an email change that an admin began does not carry a stranger’s password to the new address', async () => {
    const email = anAddress();
    const to = `new.${email}`;
    await settled(email);
    for (const type of ['email_change_current', 'email_change_new']) {
      const { json } = await admin('/admin/generate_link', { type, email, new_email: to });
      await open(new URL(json.action_link));
    }
    const tried = await world.call('POST', '/token?grant_type=password', {
      body: { email: to, password: THEIRS },
    });
    expect(tried.json.error_code).toBe('invalid_credentials');
    const [left] = await world.query(sql`
      select (select count(*)::int from auth.identities i
        where i.user_id = u.id and i.provider <> 'email') as identities,
        (select count(*)::int from auth.mfa_factors f where f.user_id = u.id) as factors from auth.users u
          where email = ${to}`);
    expect(left).toEqual({ identities: 0, factors: 0 });
  });

  test('an admin who confirms an address does not vouch for the password: the owner still revokes it', async () => {
    const email = anAddress();
    const { json } = await signUp(email);
    const { error } = await world.admin().auth.admin.updateUserById(json.id, { email_confirm: true });
    expect(error).toBeNull();
    await otp(email);
    await open((await latest(email)).link);
    await expectNobodyElse(email, {});
  });

  test('a pending password change fails after the owner arrives, because its session has ended', async () => {
    const email = anAddress();
    const { access = '' } = await settled(email);
    await world.query(
      sql`delete from auth.mfa_factors f using auth.users u where u.id = f.user_id and u.email = ${email}`,
    );
    await otp(email);
    const { token } = await latest(email);
    // Hashing takes long enough for the link to be redeemed in between.
    const [changed] = await Promise.all([
      slow.call('PUT', '/user', { bearer: access, body: { password: 'planted once more' } }),
      world.call('POST', '/verify', { body: { type: 'email', token_hash: token } }),
    ]);
    expect([200, 403]).toContain(changed.status);
    const tried = await world.call('POST', '/token?grant_type=password', {
      body: { email, password: 'planted once more' },
    });
    expect(tried.json.error_code).toBe('invalid_credentials');
  });
});
