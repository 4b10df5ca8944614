// Every state of an unproven account with every way to prove its address. The expectations are written out and do not
// come from the table in the source.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { resolveIdentity } from '../../../src/auth/accounts/identity-link.ts';
import { generateLink } from '../../../src/auth/actions/admin/generate-link.ts';
import { verify } from '../../../src/auth/actions/verify.ts';
import { Fields } from '../../../src/auth/fields.ts';
import { signLinkForm } from '../../../src/auth/http/link-form.ts';
import type { AuthRequest } from '../../../src/auth/http/request.ts';
import { hashSecret } from '../../../src/auth/sessions/flow-state.ts';
import {
  issueOneTimeToken,
  type IssuedToken,
  type TokenKind,
} from '../../../src/auth/sessions/one-time-token.ts';
import { Problem } from '../../../src/problem/problem.ts';
import { sql } from '../../../src/postgres/sql.ts';
import { anAuthRequest } from '../../support/auth-context.ts';
import { decodeClaims, startAuth, type AuthWorld } from '../../support/auth-world.ts';

let world: AuthWorld;
beforeAll(async () => {
  world = await startAuth({
    auth: { email: { verifyEmail: false, templates: [], notices: true } },
    env: { SVC_AUTH_RATE_LIMITS: 'off' },
  });
});
afterAll(() => world.close());

type Parts = {
  readonly password: boolean;
  readonly identity: boolean;
  readonly factor: boolean;
  readonly session: boolean;
};
type Account = {
  readonly id: string;
  readonly email: string;
  readonly subject: string;
  readonly session: string;
};

const METADATA = { full_name: 'Ada', locale: 'en' };
let count = 0;

async function anAccount({ password, identity, factor, session }: Parts): Promise<Account> {
  const account: Account = {
    id: randomUUID(),
    email: `state${++count}@example.com`,
    subject: `subject ${count}`,
    session: randomUUID(),
  };
  const { id, email, subject } = account;
  await world.query(sql`
    insert into auth.users (id, email, encrypted_password, password_set_at, email_confirmed_at, raw_user_meta_data)
    values (${id}, ${email}, ${password ? 'hash' : null}, now(), now(), ${JSON.stringify(METADATA)})`);
  await world.query(sql`
    insert into auth.identities (provider, provider_id, user_id, identity_data)
    values ('email', ${id}, ${id}, ${JSON.stringify({ sub: id, email, email_verified: false })})`);
  if (identity) {
    await world.query(sql`
      insert into auth.identities (provider, provider_id, user_id, identity_data)
      values ('acme', ${subject}, ${id}, ${JSON.stringify({ sub: subject, email, email_verified: false })})`);
  }
  await world.query(sql`
    insert into auth.mfa_factors (user_id, friendly_name, factor_type, status)
      values (${id}, 'abandoned', 'totp', 'unverified')`);
  if (factor) {
    await world.query(sql`
      insert into auth.mfa_factors (user_id, friendly_name, factor_type, status)
        values (${id}, 'phone', 'totp', 'verified')`);
  }
  if (session)
    await world.query(sql`insert into auth.sessions (id, user_id) values (${account.session}, ${id})`);
  return account;
}

/** The remaining credentials of the account, and the response to the proof. */
async function describeAccount({ id, session, subject }: Account, answer: string): Promise<string> {
  const [row] = await world.query<Record<string, boolean>>(sql`
    select u.encrypted_password is not null as password, u.email_proven_at is not null as proven,
      u.raw_user_meta_data @> ${JSON.stringify(METADATA)}::jsonb as metadata,
      exists (select from auth.identities i where i.user_id = u.id and i.provider_id = ${subject}) as identity,
      exists (select from auth.mfa_factors f where f.user_id = u.id and f.status = 'verified') as factor,
      exists (select from auth.sessions s where s.id = ${session}) as session
    from auth.users u where u.id = ${id}`);
  const { metadata, proven, ...rest } = row ?? {};
  if (!metadata) throw new Error('the metadata was lost');
  const kept = Object.keys(rest).filter((part) => row?.[part]);
  return `${answer}, ${proven ? 'proven' : 'unproven'}: ${kept.join(' ') || 'nothing'}`;
}

// ---- The proofs

function aRequest(change: Partial<AuthRequest>): AuthRequest {
  return { ...anAuthRequest(world), userAgent: 'test', method: 'POST', ...change };
}

async function issue(account: Account, kind: TokenKind, revokes: boolean): Promise<IssuedToken> {
  const { auth, now } = aRequest({});
  const order = { userId: account.id, kind, email: account.email, revokes, now };
  return await auth.db.transaction((db) => issueOneTimeToken(auth, db, order));
}

const kindOfSession = (access: string): string =>
  decodeClaims(access).restricted ? 'restricted' : 'signed in';

/** The form fields that a button on the page of a link posts. */
function aFormRequest(
  link: Readonly<Record<string, string>>,
  button: Readonly<Record<string, string>>,
): AuthRequest {
  const request = aRequest({ isForm: true, query: new Fields(link) });
  return { ...request, body: new Fields({ ...button, form: signLinkForm(request) }) };
}

/** Presses a button on the page of a link. */
async function press(
  token: string,
  type: string,
  button: Readonly<Record<string, string>> = {},
): Promise<string> {
  const answer = await verify(aFormRequest({ token, type }, button));
  const fragment = new URLSearchParams(new URL(answer.headers?.['location'] ?? 'http://none/').hash.slice(1));
  const access = fragment.get('access_token') ?? (answer.body as { access_token: string }).access_token;
  return kindOfSession(access);
}

async function enter(body: Readonly<Record<string, string>>): Promise<string> {
  const answer = await verify(aRequest({ body: new Fields(body) }));
  return kindOfSession((answer.body as { access_token: string }).access_token);
}

async function arrive(account: Account, subject: string, inviteTokenHash?: string): Promise<string> {
  const request = aRequest({});
  const { email } = account;
  const profile = {
    subject,
    emails: [{ email, verified: true, primary: true }],
    claims: { sub: subject, email, email_verified: true },
  };
  const order = { provider: 'acme', profile, emailOptional: false, inviteTokenHash };
  const linked = await request.auth.db.transaction((db) => resolveIdentity(db, request, order));
  if (linked instanceof Problem) return linked.code;
  return linked.isRestricted ? 'restricted' : 'signed in';
}

type Proof = (account: Account) => Promise<string>;

const link =
  (kind: TokenKind, type: string, button?: Readonly<Record<string, string>>): Proof =>
  async (account) =>
    await press((await issue(account, kind, true)).token, type, button);
const ownLink =
  (button?: Readonly<Record<string, string>>): Proof =>
  async (account) =>
    await press((await issue(account, 'confirmation_token', false)).token, 'signup', button);
const code =
  (kind: TokenKind, type: string): Proof =>
  async (account) =>
    await enter({ type, email: account.email, token: (await issue(account, kind, true)).code });
const generated =
  (type: string): Proof =>
  async ({ email }) => {
    const { body } = await generateLink(aRequest({ body: new Fields({ type, email }) }));
    return await enter({ type, token_hash: (body as { hashed_token: string }).hashed_token });
  };

const MAILBOX: Readonly<Record<string, Proof>> = {
  'a magic link': link('recovery_token', 'magiclink'),
  'a code': code('recovery_token', 'email'),
  'a recovery link': link('recovery_token', 'recovery'),
  'a recovery code': code('recovery_token', 'recovery'),
  'an invitation': link('confirmation_token', 'invite'),
  'an invitation’s code': code('confirmation_token', 'invite'),
  'a contested confirmation': link('confirmation_token', 'signup'),
  'a generated magic link': generated('magiclink'),
  'a generated recovery link': generated('recovery'),
  'a JSON body with keep_password': async (account) =>
    await enter({
      type: 'magiclink',
      token_hash: (await issue(account, 'recovery_token', true)).token,
      keep_password: '1',
    }),
};
const OWN: Readonly<Record<string, Proof>> = {
  'the own confirmation link': ownLink(),
  'the own confirmation code': async (account) =>
    await enter({
      type: 'signup',
      email: account.email,
      token: (await issue(account, 'confirmation_token', false)).code,
    }),
};
const KEEPING: Readonly<Record<string, Proof>> = {
  'a magic link, keeping the password': link('recovery_token', 'magiclink', { keep_password: '1' }),
  'a recovery link, keeping the password': link('recovery_token', 'recovery', { keep_password: '1' }),
};
const OWN_KEEPING: Readonly<Record<string, Proof>> = {
  'the own confirmation, keeping identities': ownLink({ keep_credentials: '1' }),
};
const NEW_IDENTITY: Readonly<Record<string, Proof>> = {
  'a new identity of a provider': async (account) => await arrive(account, `owner ${account.email}`),
  'an invitation accepted with a provider': async (account) => {
    const { token } = await issue(account, 'confirmation_token', true);
    return await arrive(account, `owner ${account.email}`, hashSecret(token));
  },
};
const OWN_IDENTITY: Readonly<Record<string, Proof>> = {
  'the identity that is on the account': async (account) => await arrive(account, account.subject),
};

// ---- The states

const states: readonly Parts[] = [false, true].flatMap((password) =>
  [false, true].flatMap((identity) =>
    [false, true].flatMap((factor) =>
      [false, true].map((session) => ({ password, identity, factor, session })),
    ),
  ),
);
const describeParts = (parts: Parts): string =>
  Object.entries(parts)
    .filter(([, has]) => has)
    .map(([part]) => part)
    .join(' ') || 'nothing';
const list = (...parts: ReadonlyArray<string | false>): string =>
  parts.filter((part) => part !== false).join(' ') || 'nothing';
const all = (parts: Parts): string =>
  list(
    parts.password && 'password',
    parts.identity && 'identity',
    parts.factor && 'factor',
    parts.session && 'session',
  );

/** Expected remaining credentials, by group of the proof. */
const EXPECTED: Readonly<Record<string, (parts: Parts) => string>> = {
  own: (parts) => {
    if (parts.factor) return `signed in, proven: ${all(parts)}`;
    if (parts.identity) return `signed in, proven: ${list(parts.password && 'password')}`;
    return `signed in, proven: ${list(parts.password && 'password', parts.password && parts.session && 'session')}`;
  },
  ownKeeping: (parts) =>
    !parts.factor && !parts.identity && !parts.password
      ? 'signed in, proven: nothing'
      : `signed in, proven: ${all(parts)}`,
  mailbox: (parts) => (parts.factor ? `restricted, unproven: ${all(parts)}` : 'signed in, proven: nothing'),
  keeping: (parts) =>
    parts.factor
      ? `restricted, unproven: ${all(parts)}`
      : `signed in, proven: ${list(parts.password && !parts.identity && 'password')}`,
  newIdentity: (parts) =>
    parts.factor ? `insufficient_aal, unproven: ${all(parts)}` : 'signed in, proven: nothing',
  ownIdentity: (parts) =>
    parts.factor ? `restricted, unproven: ${all(parts)}` : 'signed in, proven: identity',
};

function walk(group: string, proofs: Readonly<Record<string, Proof>>, of: readonly Parts[] = states): void {
  describe.each(Object.entries(proofs))('%s', (_name, proof) => {
    test.concurrent.each(of.map((parts) => [describeParts(parts), parts] as const))(
      'of an account with %s',
      async (_parts, parts) => {
        const account = await anAccount(parts);
        const answer = await proof(account);
        expect(await describeAccount(account, answer)).toBe(EXPECTED[group]?.(parts));
      },
    );
  });
}

walk('own', OWN);
walk('ownKeeping', OWN_KEEPING);
walk('mailbox', MAILBOX);
walk('keeping', KEEPING);
walk('newIdentity', NEW_IDENTITY);
walk(
  'ownIdentity',
  OWN_IDENTITY,
  states.filter(({ identity }) => identity),
);

test('an account with a verified factor survives every proof of its mailbox', async () => {
  for (const proof of Object.values({ ...MAILBOX, ...KEEPING, ...NEW_IDENTITY, ...OWN_IDENTITY })) {
    const parts = { password: true, identity: true, factor: true, session: true };
    const account = await anAccount(parts);
    await proof(account);
    expect(await describeAccount(account, 'after')).toBe(`after, unproven: ${all(parts)}`);
  }
});

test('a proven account keeps everything after any redeemed secret', async () => {
  for (const proof of Object.values({ ...MAILBOX, ...OWN, ...KEEPING })) {
    const account = await anAccount({ password: true, identity: true, factor: true, session: true });
    await world.query(sql`update auth.users set email_proven_at = now() where id = ${account.id}`);
    expect(await describeAccount(account, await proof(account))).toBe(
      'signed in, proven: password identity factor session',
    );
  }
});

test('two proofs at the same time remove the credentials once and send one notice', async () => {
  for (let round = 0; round < 5; round++) {
    const account = await anAccount({ password: true, identity: false, factor: false, session: true });
    const recovery = await issue(account, 'recovery_token', true);
    const confirmation = await issue(account, 'confirmation_token', true);
    const answers = await Promise.allSettled([
      press(recovery.token, 'magiclink'),
      press(confirmation.token, 'invite'),
    ]);
    const failed = answers.flatMap((answer) =>
      answer.status === 'rejected' ? [answer.reason as Problem] : [],
    );
    expect(failed.map(({ code: reason }) => reason)).toEqual(['otp_expired']);
    const mails = await world.mails(account.email);
    expect(mails.map(({ kind }) => kind)).toEqual(['credentials_removed']);
  }
});

describe('"This was not me"', () => {
  const disown = async (account: Account): Promise<string> => {
    const { token } = await issue(account, 'confirmation_token', false);
    const answer = await verify(aFormRequest({ token, type: 'signup' }, { disown: '1' }));
    return answer.html === undefined ? 'no page' : 'page';
  };
  const readState = async ({ id }: Account): Promise<unknown> =>
    (
      await world.query(sql`
        select email_confirmed_at is not null as confirmed, flagged_at is not null as flagged
          from auth.users where id = ${id}`)
    )[0];

  test.each([
    { password: true, identity: false, factor: false, session: true },
    { password: true, identity: true, factor: false, session: true },
  ])('leaves an empty, unconfirmed account', async (parts) => {
    const account = await anAccount(parts);
    expect(await describeAccount(account, await disown(account))).toBe('page, unproven: nothing');
    expect(await readState(account)).toEqual({ confirmed: false, flagged: false });
  });

  test('changes nothing about a guarded account and flags it', async () => {
    const account = await anAccount({ password: true, identity: true, factor: true, session: true });
    const left = await describeAccount(account, await disown(account));
    expect(left).toBe('page, unproven: password identity factor session');
    expect(await readState(account)).toEqual({ confirmed: true, flagged: true });
  });
});
