// Walks every row of the state tables in docs/auth-states.md: creates the state, triggers the event, checks
// the result.
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { maintain } from '../../../src/auth/maintenance.ts';
import { sql } from '../../../src/postgres/sql.ts';
import { anAuthContext } from '../../support/auth-context.ts';
import {
  aUser,
  decodeClaims,
  navigate,
  parseRedirect,
  mailSecrets,
  startAuth,
  type AuthWorld,
  type Reply,
} from '../../support/auth-world.ts';

const DOCUMENT = readFileSync(new URL('../../../docs/auth-states.md', import.meta.url), 'utf8');
type Row = { state: string; event: string; next: string };

function readStateTable(heading: string): Row[] {
  const section = DOCUMENT.split(/^## /m).find((section) => section.startsWith(`${heading}\n`)) ?? '';
  return [...section.matchAll(/^\| (.+?) \| (.+?) \| (.+?) \|$/gm)]
    .map((match) => ({ state: match[1] ?? '', event: match[2] ?? '', next: match[3] ?? '' }))
    .filter((row) => row.state !== 'State');
}

type Machine<S> = {
  readonly make: Readonly<Record<string, () => Promise<S>>>;
  readonly fire: Readonly<Record<string, (subject: S) => Promise<unknown>>>;
  readonly observe: (subject: S) => Promise<string>;
};

let world: AuthWorld;
beforeAll(async () => {
  world = await startAuth({ auth: { redirectUrls: ['https://app.example'] } });
});
afterAll(() => world.close());

const PASSWORD = 'correct horse';
let count = 0;
const anEmail = (): string => `state${++count}@example.com`;
const call: AuthWorld['call'] = (...given) => world.call(...given);
const post = (path: string, body: unknown, bearer?: string): Promise<Reply> =>
  call('POST', path, { body, bearer });
const admin = (method: string, path: string, body?: unknown): Promise<Reply> =>
  call(method, path, { apikey: world.keys.secret, body });
const refresh = (refresh_token: string): Promise<Reply> =>
  post('/token?grant_type=refresh_token', { refresh_token });
const signIn = (email: string): Promise<Reply> =>
  post('/token?grant_type=password', { email, password: PASSWORD });
const newest = async (to: string) => mailSecrets((await world.mails(to))[0]!);
const pass = (ms: number): Promise<void> => {
  world.ahead += ms;
  return Promise.resolve();
};
const cleanUp = async (): Promise<void> => {
  const auth = anAuthContext(world);
  await maintain(auth);
  await auth.outbox.close();
};
const DAY = 86_400_000;

async function verifying<T>(isOn: boolean, work: () => Promise<T>): Promise<T> {
  const before = world.config;
  world.config = { ...before, auth: { ...before.auth, email: { verifyEmail: isOn, templates: [] } } };
  try {
    return await work();
  } finally {
    world.config = before;
  }
}

function walk<S>(heading: string, machine: Machine<S>): void {
  const rows = readStateTable(heading);
  describe(heading, () => {
    test.each(rows)('$state | $event → $next', async ({ state, event, next }) => {
      const [make, fire] = [machine.make[state], machine.fire[event]];
      if (!make || !fire) throw new Error(`the test knows no ${make ? `event ${event}` : `state ${state}`}`);
      const subject = await make();
      if (state !== 'none') expect(await machine.observe(subject)).toBe(state);
      await fire(subject);
      expect(await machine.observe(subject)).toBe(next);
    });
    test('the document names every state and event of the test', () => {
      expect(new Set(rows.map((row) => row.state))).toEqual(new Set(Object.keys(machine.make)));
      expect(new Set(rows.map((row) => row.event))).toEqual(new Set(Object.keys(machine.fire)));
    });
  });
}

// ---- User

type Person = { email: string; id: string; access: string; pending: string };

async function aPerson(): Promise<Person> {
  const user = await aUser(world, { email: anEmail(), password: PASSWORD });
  return { email: user.email, id: user.id, access: user.access, pending: '' };
}
const nobody = (): Promise<Person> => Promise.resolve({ email: anEmail(), id: '', access: '', pending: '' });
async function made(work: (person: Person) => Promise<Reply>): Promise<Person> {
  const person = await nobody();
  const { json } = await work(person);
  return { ...person, id: json.id ?? json.user?.id ?? '', access: json.access_token ?? '' };
}
async function move(person: Person): Promise<void> {
  person.pending = anEmail();
  world.ahead += 61_000;
  const { access_token: bearer } = (await signIn(person.email)).json;
  await call('PUT', '/user', { bearer: bearer ?? person.access, body: { email: person.pending } });
}
const answerFrom = async (to: string): Promise<Reply> =>
  post('/verify', { type: 'email_change', token_hash: (await newest(to)).token });

walk<Person>('User', {
  make: {
    none: nobody,
    unconfirmed: () =>
      made((person) => verifying(true, () => post('/signup', { email: person.email, password: PASSWORD }))),
    invited: () => made((person) => admin('POST', '/invite', { email: person.email })),
    anonymous: () => made(() => post('/signup', {})),
    confirmed: aPerson,
    'change pending': async () => {
      const person = await aPerson();
      await move(person);
      return person;
    },
    'half changed': async () => {
      const person = await aPerson();
      await move(person);
      await answerFrom(person.email);
      return person;
    },
    banned: async () => {
      const person = await aPerson();
      await admin('PUT', `/admin/users/${person.id}`, { ban_duration: '1h' });
      return person;
    },
    tombstone: async () => {
      const person = await aPerson();
      await admin('DELETE', `/admin/users/${person.id}`, { should_soft_delete: true });
      return person;
    },
  },
  fire: {
    'sign-up, verification off': ({ email }) => post('/signup', { email, password: PASSWORD }),
    'sign-up, verification on': ({ email }) =>
      verifying(true, () => post('/signup', { email, password: PASSWORD })),
    'sign-up again': async ({ email }) => {
      world.ahead += 61_000;
      await verifying(true, () => post('/signup', { email, password: PASSWORD }));
    },
    'one-time password': ({ email }) => post('/otp', { email }),
    invitation: ({ email }) => admin('POST', '/invite', { email }),
    'anonymous sign-in': async (person) => {
      person.id = (await post('/signup', {})).json.user.id;
    },
    'admin creates': ({ email }) => admin('POST', '/admin/users', { email }),
    'admin confirms': ({ id }) => admin('PUT', `/admin/users/${id}`, { email_confirm: true }),
    'mailed secret': async ({ email }) =>
      post('/verify', { type: 'email', email, token: (await newest(email)).code }),
    'password sign-in': ({ email }) => signIn(email),
    'new address, verification off': ({ access, email }) =>
      call('PUT', '/user', { bearer: access, body: { email } }),
    'sign-up with its token': ({ access, email }) => post('/signup', { email, password: PASSWORD }, access),
    'new address': move,
    'one mailbox answers': ({ email }) => answerFrom(email),
    'other mailbox answers': ({ pending }) => answerFrom(pending),
    ban: ({ id }) => admin('PUT', `/admin/users/${id}`, { ban_duration: '1h' }),
    unban: ({ id }) => admin('PUT', `/admin/users/${id}`, { ban_duration: 'none' }),
    'time passes': () => pass(3_700_000),
    'soft delete': ({ id }) => admin('DELETE', `/admin/users/${id}`, { should_soft_delete: true }),
    'hard delete': ({ id }) => admin('DELETE', `/admin/users/${id}`),
  },
  async observe({ id, email, pending }) {
    const [user] = await world.query(sql`
      select email_confirmed_at, invited_at, is_anonymous, banned_until, deleted_at, email_change,
        email_change_confirm_status
      from auth.users where id::text = ${id} or email = ${email} or email = ${pending}`);
    if (!user) return 'none';
    if (user['deleted_at']) return 'tombstone';
    if (user['banned_until'] instanceof Date && user['banned_until'] > world.now()) return 'banned';
    if (user['is_anonymous']) return 'anonymous';
    if (!user['email_confirmed_at']) return user['invited_at'] ? 'invited' : 'unconfirmed';
    if (user['email_change'] === '') return 'confirmed';
    return user['email_change_confirm_status'] === 1 ? 'half changed' : 'change pending';
  },
});

// ---- Session

type Subject = {
  id: string;
  email: string;
  session: string;
  access: string;
  tokens: string[];
  before: string;
  factor: string;
  secret: string;
};

const codeFor = (secret: string): string =>
  new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: world.now().getTime() });

async function enrol(
  bearer: string,
  name = randomBytes(4).toString('hex'),
): Promise<{ factor: string; secret: string }> {
  const { json } = await post('/factors', { factor_type: 'totp', friendly_name: name }, bearer);
  return { factor: json.id ?? '', secret: json.totp?.secret ?? '' };
}
async function verifyTotp(bearer: string, factor: string, code: string): Promise<Reply> {
  const { json } = await post(`/factors/${factor}/challenge`, {}, bearer);
  return await post(`/factors/${factor}/verify`, { challenge_id: json.id, code }, bearer);
}
async function aSession(): Promise<Subject> {
  const user = await aUser(world, { email: anEmail(), password: PASSWORD });
  const { factor, secret } = await enrol(user.access);
  return {
    ...user,
    session: decodeClaims(user.access).session_id,
    tokens: [user.refresh],
    before: user.refresh,
    factor,
    secret,
  };
}
async function turn(subject: Subject): Promise<void> {
  const { json } = await refresh(subject.tokens.at(-1) ?? '');
  if (json.refresh_token) subject.tokens.push(json.refresh_token);
}
async function raise(subject: Subject): Promise<void> {
  const { json } = await verifyTotp(subject.access, subject.factor, codeFor(subject.secret));
  subject.access = json.access_token;
  subject.tokens.push(json.refresh_token);
}
const elsewhere = async ({ email }: Subject): Promise<string> => (await signIn(email)).json.access_token;

walk<Subject>('Session', {
  make: {
    aal1: aSession,
    aal2: async () => {
      const subject = await aSession();
      await raise(subject);
      return subject;
    },
    suspended: async () => {
      const subject = await aSession();
      await admin('PUT', `/admin/users/${subject.id}`, { ban_duration: '1h' });
      return subject;
    },
    expired: async () => {
      const subject = await aSession();
      await pass(8 * DAY);
      return subject;
    },
  },
  fire: {
    refresh: turn,
    'fifty refreshes at once': ({ tokens }) =>
      Promise.all(Array.from({ length: 50 }, () => refresh(tokens[0] ?? ''))),
    'trailing token': async (subject) => {
      await turn(subject);
      await pass(3_600_000);
      await refresh(subject.tokens.at(-2) ?? '');
    },
    'stale token within ten seconds': async (subject) => {
      await turn(subject);
      await turn(subject);
      await refresh(subject.tokens[0] ?? '');
    },
    'stale token later': async (subject) => {
      await turn(subject);
      await turn(subject);
      await pass(11_000);
      await refresh(subject.tokens[0] ?? '');
    },
    'right second factor': raise,
    'wrong second factor': (subject) =>
      verifyTotp(subject.access, subject.factor, codeFor(subject.secret) === '000000' ? '111111' : '000000'),
    'second factor in another session': async (subject) =>
      verifyTotp(await elsewhere(subject), subject.factor, codeFor(subject.secret)),
    'token from before the second factor': ({ before }) => refresh(before),
    'factor removed': ({ access, factor }) => call('DELETE', `/factors/${factor}`, { bearer: access }),
    'sign-out here': ({ access }) => call('POST', '/logout?scope=local', { bearer: access }),
    'sign-out of others here': ({ access }) => call('POST', '/logout?scope=others', { bearer: access }),
    'sign-out of others elsewhere': async (subject) =>
      call('POST', '/logout?scope=others', { bearer: await elsewhere(subject) }),
    'password changed here': ({ access }) =>
      call('PUT', '/user', { bearer: access, body: { password: 'another horse' } }),
    'password changed elsewhere': async (subject) =>
      call('PUT', '/user', { bearer: await elsewhere(subject), body: { password: 'another horse' } }),
    'password changed by an admin': ({ id }) =>
      admin('PUT', `/admin/users/${id}`, { password: 'another horse' }),
    ban: ({ id }) => admin('PUT', `/admin/users/${id}`, { ban_duration: '1h' }),
    unban: ({ id }) => admin('PUT', `/admin/users/${id}`, { ban_duration: 'none' }),
    'seven days without a refresh': () => pass(8 * DAY),
    'user deleted': ({ id }) => admin('DELETE', `/admin/users/${id}`),
  },
  async observe({ session, tokens }) {
    const [row] = await world.query<{ aal: string }>(
      sql`select aal from auth.sessions where id = ${session}`,
    );
    if (!row) return 'ended';
    const { json } = await refresh(tokens.at(-1) ?? '');
    if (json.error_code === 'user_banned') return 'suspended';
    if (json.error_code === 'session_expired') return 'expired';
    tokens.push(json.refresh_token);
    return decodeClaims(json.access_token).aal;
  },
});

// ---- One-time token

type Mailed = { email: string; id: string; access: string; code: string; link: URL; token: string };

async function mail(mailed: Mailed): Promise<void> {
  world.ahead += 61_000;
  await post('/otp', { email: mailed.email });
  Object.assign(mailed, await newest(mailed.email));
}
async function unmailed(): Promise<Mailed> {
  const user = await aUser(world, { email: anEmail(), password: PASSWORD });
  await world.query(sql`update auth.users set email_proven_at = now() where id = ${user.id}`);
  return { ...user, code: '', token: '', link: new URL('http://none/') };
}
async function live(): Promise<Mailed> {
  const mailed = await unmailed();
  await mail(mailed);
  return mailed;
}
const type = ({ email }: Mailed, code: string): Promise<Reply> =>
  post('/verify', { type: 'email', email, token: code });
async function guess(mailed: Mailed, times: number): Promise<void> {
  for (let i = 1; i <= times; i++)
    await type(mailed, String((Number(mailed.code) + i) % 1_000_000).padStart(6, '0'));
}

walk<Mailed>('One-time token', {
  make: {
    none: unmailed,
    live,
    locked: async () => {
      const mailed = await live();
      await guess(mailed, 3);
      return mailed;
    },
    expired: async () => {
      const mailed = await live();
      await pass(3_601_000);
      return mailed;
    },
  },
  fire: {
    mail,
    'right code': (mailed) => type(mailed, mailed.code),
    'right link': ({ link }) => call('GET', link.href, { apikey: null }),
    'wrong code': (mailed) => guess(mailed, 1),
    'three wrong codes from its network': (mailed) => guess(mailed, 3),
    'HEAD of the link': ({ link }) => call('HEAD', link.href, { apikey: null }),
    'a scanner opens the link': ({ link }) => navigate(link.href),
    'an hour passes': () => pass(3_601_000),
    'password change': async ({ email }) =>
      call('PUT', '/user', {
        bearer: (await signIn(email)).json.access_token,
        body: { password: 'another horse' },
      }),
    'another secret is used': async ({ email }) => {
      const { json } = await admin('POST', '/admin/generate_link', {
        type: 'email_change_new',
        email,
        new_email: anEmail(),
      });
      const current = await admin('POST', '/admin/generate_link', {
        type: 'email_change_current',
        email,
        new_email: json.new_email,
      });
      for (const token_hash of [json.hashed_token, current.json.hashed_token])
        await post('/verify', { type: 'email_change', token_hash });
    },
    'right link while banned': async ({ id, link }) => {
      await admin('PUT', `/admin/users/${id}`, { ban_duration: '1h' });
      await call('GET', link.href, { apikey: null });
    },
    'soft delete': ({ id }) => admin('DELETE', `/admin/users/${id}`, { should_soft_delete: true }),
  },
  async observe({ id, token }) {
    const [row] = await world.query<{ attempts: number; expires_at: Date; token_hash: string }>(
      sql`select attempts, expires_at, token_hash from auth.one_time_tokens
        where user_id = ${id} and token_type = 'recovery_token'`,
    );
    if (!row) return 'none';
    expect(row.token_hash).toBe(createHash('sha256').update(token).digest('hex'));
    if (row.expires_at <= world.now()) return 'expired';
    return row.attempts >= 3 ? 'locked' : 'live';
  },
});

// ---- Flow

type Flow = Mailed & { verifier: string; authCode: string };

async function openFlow(): Promise<Flow> {
  const mailed = await unmailed();
  const verifier = randomBytes(40).toString('hex');
  const code_challenge = createHash('sha256').update(verifier).digest('base64url');
  await post('/otp', { email: mailed.email, code_challenge, code_challenge_method: 's256' });
  return { ...mailed, ...(await newest(mailed.email)), verifier, authCode: '' };
}
async function follow(flow: Flow): Promise<void> {
  const { query } = parseRedirect(await call('GET', flow.link.href, { apikey: null }));
  flow.authCode = query['code'] ?? flow.authCode;
}
const exchange = ({ authCode }: Flow, code_verifier: string): Promise<Reply> =>
  post('/token?grant_type=pkce', { auth_code: authCode, code_verifier });

walk<Flow>('Flow', {
  make: {
    open: openFlow,
    issued: async () => {
      const flow = await openFlow();
      await follow(flow);
      return flow;
    },
  },
  fire: {
    link: follow,
    'link again': follow,
    'right code typed': (flow) => type(flow, flow.code),
    'right verifier': (flow) => exchange(flow, flow.verifier),
    'wrong verifier': (flow) => exchange(flow, 'x'.repeat(43)),
    'five wrong verifiers': async (flow) => {
      for (let i = 0; i < 5; i++) await exchange(flow, 'x'.repeat(43));
    },
    'right verifier after five minutes': async (flow) => {
      await pass(301_000);
      await exchange(flow, flow.verifier);
    },
    'a day passes': async () => {
      await pass(DAY + 1000);
      await cleanUp();
    },
  },
  async observe({ id }) {
    const [row] = await world.query<{ auth_code: string | null }>(
      sql`select auth_code from auth.flow_state where user_id = ${id}`,
    );
    if (!row) return 'none';
    return row.auth_code === null ? 'open' : 'issued';
  },
});

// ---- Factor

type Enrolled = {
  id: string;
  email: string;
  low: string;
  access: string;
  factor: string;
  secret: string;
  lastCode: string;
};

async function someone(): Promise<Enrolled> {
  const user = await aUser(world, { email: anEmail(), password: PASSWORD });
  return { ...user, low: user.access, factor: '', secret: '', lastCode: '' };
}
async function begin(enrolled: Enrolled): Promise<void> {
  Object.assign(enrolled, await enrol(enrolled.access));
}
async function right(enrolled: Enrolled): Promise<void> {
  enrolled.lastCode = codeFor(enrolled.secret);
  const { json } = await verifyTotp(enrolled.access, enrolled.factor, enrolled.lastCode);
  enrolled.access = json.access_token ?? enrolled.access;
}

walk<Enrolled>('Factor', {
  make: {
    none: someone,
    unverified: async () => {
      const enrolled = await someone();
      await begin(enrolled);
      return enrolled;
    },
    verified: async () => {
      const enrolled = await someone();
      await begin(enrolled);
      await right(enrolled);
      return enrolled;
    },
  },
  fire: {
    enrol: begin,
    'right code': async (enrolled) => {
      await pass(30_000);
      await right(enrolled);
    },
    'same code again': (enrolled) => verifyTotp(enrolled.access, enrolled.factor, enrolled.lastCode),
    'wrong code': ({ access, factor, secret }) =>
      verifyTotp(access, factor, codeFor(secret) === '000000' ? '111111' : '000000'),
    remove: ({ access, factor }) => call('DELETE', `/factors/${factor}`, { bearer: access }),
    'remove at aal1': async ({ email, factor }) =>
      call('DELETE', `/factors/${factor}`, { bearer: (await signIn(email)).json.access_token }),
    'another factor is verified': async ({ access }) => {
      const spare = await enrol(access);
      await verifyTotp(access, spare.factor, codeFor(spare.secret));
    },
    'five minutes pass, another enrolment': async ({ access }) => {
      await pass(301_000);
      await enrol(access);
    },
    'a day passes': async () => {
      await pass(DAY + 1000);
      await cleanUp();
    },
    'admin removes': ({ id, factor }) => admin('DELETE', `/admin/users/${id}/factors/${factor}`),
    'soft delete': ({ id }) => admin('DELETE', `/admin/users/${id}`, { should_soft_delete: true }),
  },
  async observe({ factor }) {
    if (factor === '') return 'none';
    const [row] = await world.query<{ status: string }>(
      sql`select status from auth.mfa_factors where id = ${factor}`,
    );
    return row?.status ?? 'none';
  },
});
