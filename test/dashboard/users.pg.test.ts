// Users, mail and auth settings in the dashboard, with canaries in place of secrets.
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { authSettingsRoutes } from '../../src/dashboard-api/routes/auth-settings.ts';
import type {
  AuthSettings,
  MailList,
  MailPage,
  MailPreview,
  UserDetail,
  UserList,
} from '../../src/dashboard-api/contract.ts';
import { mailPageRoutes } from '../../src/dashboard-api/routes/mail-page.ts';
import { mailRoutes } from '../../src/dashboard-api/routes/mail.ts';
import { userRoutes } from '../../src/dashboard-api/routes/users.ts';
import { NOTICE_KINDS } from '../../src/config/schema/names.ts';
import { raw, sql } from '../../src/postgres/sql.ts';
import { startRoutesWorld, type RoutesWorld } from '../support/dashboard/dashboard-routes-world.ts';

const CANARIES = {
  SVC_GOOGLE_SECRET: 'canary-google-client-secret',
  SVC_SMTP_URL: 'smtp://mailer:canary-smtp-password@mail.example.com:587',
  SVC_RESEND_KEY: 'canary-resend-key',
} as const;

const YAML = `
version: 1
auth:
  redirect_urls: [https://app.example.com]
  allow_anonymous: true
  email:
    verify_email: false
    templates:
      confirmation:
        subject: Hello {{ .Email }}
        body: <p>Your code is {{ .Token }}</p>
  oauth:
    google:
      client_id: public-client-id
      client_secret: \${SVC_GOOGLE_SECRET}
      redirect_url: https://api.example.com/auth/v1/callback/google
`;

let world: RoutesWorld;
let ada: { id: string; access_token: string; refresh_token: string };
const answers: string[] = [];

beforeAll(async () => {
  world = await startRoutesWorld({
    yaml: YAML,
    routes: [userRoutes, mailRoutes, mailPageRoutes, authSettingsRoutes],
    env: CANARIES,
  });
  const signedUp = await post('/signup', { email: 'ada@example.com', password: 'correct horse' });
  ada = { ...signedUp, id: signedUp.user.id };
  await post('/token?grant_type=password', { email: 'ada@example.com', password: 'correct horse' });
  await post('/signup', { email: 'under_score@example.com', password: 'correct horse' });
  await post('/signup', { email: 'underscore@example.com', password: 'correct horse' });
  await post('/signup', {});
  await world.owner.query(
    raw(`update auth.users set phone = '4915112345678' where email = 'underscore@example.com'`),
  );
  await post('/recover', { email: 'ada@example.com' });
  await world.owner.query(sql`
    insert into auth.mfa_factors (user_id, friendly_name, factor_type, status, secret)
    values (${ada.id}, 'phone', 'totp', 'verified', 'canary-totp-secret'::bytea)`);
});
afterAll(async () => await world.close());

// oxlint-disable-next-line typescript/no-explicit-any
async function post(path: string, body: unknown, bearer?: string): Promise<any> {
  const response = await fetch(`${world.url}/auth/v1${path}`, {
    method: 'POST',
    headers: {
      apikey: world.keys.publishable,
      'content-type': 'application/json',
      ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
    },
    body: JSON.stringify(body),
  });
  return response.json();
}

async function get<T>(path: string): Promise<T> {
  const answer = await world.call('GET', path);
  if (answer.status !== 200) throw new Error(`${path}: ${answer.text}`);
  answers.push(answer.text);
  return answer.json as T;
}

const found = async (search: string): Promise<Array<string | null>> =>
  (await get<UserList>(`/users?search=${encodeURIComponent(search)}`)).users.map(({ email }) => email);

test('users are listed newest first, in pages, with the total', async () => {
  const all = await get<UserList>('/users');
  expect(all.total).toBe(4);
  expect(all.users.map(({ email }) => email)).toEqual([
    null,
    'underscore@example.com',
    'under_score@example.com',
    'ada@example.com',
  ]);
  expect(all.users[0]).toMatchObject({ anonymous: true, providers: [] });
  expect(all.users[3]).toMatchObject({
    id: ada.id,
    anonymous: false,
    providers: ['email'],
    bannedUntil: null,
  });
  const second = await get<UserList>('/users?page=2&per_page=3');
  expect(second.total).toBe(4);
  expect(second.users.map(({ id }) => id)).toEqual([ada.id]);
});

test('a search finds part of an email address, phone number or id, and has no wildcards', async () => {
  expect(await found('ADA@')).toEqual(['ada@example.com']);
  expect(await found('under_score')).toEqual(['under_score@example.com']);
  expect(await found('%')).toEqual([]);
  expect(await found(String.raw`\ `)).toEqual([]);
  expect(await found('+49151')).toEqual(['underscore@example.com']);
  expect(await found(ada.id.slice(2, 13).toUpperCase())).toEqual(['ada@example.com']);
  expect(await found("' or true --")).toEqual([]);
});

test('a user has identities, sessions and factors', async () => {
  const user = await get<UserDetail>(`/users/${ada.id}`);
  expect(user).toMatchObject({
    email: 'ada@example.com',
    appMetadata: { provider: 'email' },
    identities: [{ provider: 'email', email: 'ada@example.com' }],
    factors: [{ type: 'totp', name: 'phone', status: 'verified' }],
  });
  expect(user.sessions).toHaveLength(2);
  expect(user.sessions[0]).toMatchObject({
    aal: 'aal1',
    ip: expect.stringMatching(/127\.0\.0\.1$/) as string,
  });
});

test.each(['nobody', '99999999-9999-4999-8999-999999999999'])('there is no user %s', async (id) => {
  expect((await world.call('GET', `/users/${id}`)).status).toBe(404);
  expect((await world.call('DELETE', `/users/${id}/sessions`)).status).toBe(404);
});

test('signing out ends one session, then all of them, and is recorded in the audit log', async () => {
  const { sessions } = await get<UserDetail>(`/users/${ada.id}`);
  const [newest, oldest] = sessions;
  const second = await get<UserList>('/users?search=underscore');
  const elsewhere = await get<UserDetail>(`/users/${second.users[0]?.id ?? ''}`);
  // A session of another user cannot be ended under this user.
  const foreign = await world.call('DELETE', `/users/${ada.id}/sessions/${elsewhere.sessions[0]?.id ?? ''}`);
  expect([foreign.status, foreign.json.code]).toEqual([404, 'session_not_found']);
  expect((await world.call('DELETE', `/users/${ada.id}/sessions/${newest?.id ?? ''}`)).status).toBe(204);
  expect((await get<UserDetail>(`/users/${ada.id}`)).sessions.map(({ id }) => id)).toEqual([oldest?.id]);
  expect(
    (await post('/token?grant_type=refresh_token', { refresh_token: ada.refresh_token })).access_token,
  ).toEqual(expect.any(String));
  expect((await world.call('DELETE', `/users/${ada.id}/sessions`)).status).toBe(204);
  expect((await get<UserDetail>(`/users/${ada.id}`)).sessions).toEqual([]);
  expect((await get<UserDetail>(`/users/${elsewhere.id}`)).sessions).toHaveLength(1);
  const audited = await world.owner.query<{ user: string }>(
    raw(`select payload -> 'traits' ->> 'user_id' as user from auth.audit_log_entries
      where payload ->> 'action' = 'logout' and payload ->> 'actor_username' = 'service_role'`),
  );
  expect(audited).toEqual([{ user: ada.id }, { user: ada.id }]);
});

test('caught mail is listed with its text, and its HTML is a sandboxed page', async () => {
  const list = await get<MailList>('/mail');
  expect(list.caught).toBe(true);
  const [mail] = list.mails;
  expect(mail).toMatchObject({ kind: 'recovery', to: 'ada@example.com', state: 'caught', hasHtml: true });
  expect(mail?.text).toContain('http');
  expect((await get<MailList>('/mail?to=nobody@example.com')).mails).toEqual([]);
  const page = await world.call('GET', `/mail/${mail?.id ?? ''}/html`);
  expect(page.status).toBe(200);
  const csp = page.headers.get('content-security-policy') ?? '';
  expect(csp.split('; ')).toEqual(
    expect.arrayContaining(["default-src 'none'", "style-src 'unsafe-inline'", "frame-ancestors 'self'"]),
  );
  expect(csp).toMatch(/^sandbox /);
  expect(csp).not.toMatch(/allow-scripts|allow-same-origin|allow-top-navigation|script-src/);
  expect(page.headers.get('x-frame-options')).toBe('SAMEORIGIN');
  expect(page.headers.get('referrer-policy')).toBe('no-referrer');
  expect(page.text).toMatch(/^<!doctype html><base target="_blank">/);
});

test('the HTML of a preview is a sandboxed page, and cannot be forged', async () => {
  const keep = async (html: string): Promise<string> =>
    ((await world.call('POST', '/auth/templates/page', { html })).json as MailPage).path;
  const path = await keep('<p style="color:red">Hello</p><script>alert(1)</script>');
  const page = await world.call('GET', path);
  expect(page.status).toBe(200);
  expect(page.text).toContain('<p style="color:red">Hello</p>');
  const csp = page.headers.get('content-security-policy') ?? '';
  expect(csp).toMatch(/^sandbox /);
  expect(csp).not.toMatch(/allow-scripts|allow-same-origin|allow-top-navigation|script-src/);
  const changed = path.slice(0, -1) + (path.endsWith('A') ? 'B' : 'A');
  for (const second of [changed, '/auth/templates/page', '/auth/templates/page?token=PHA-aGk8L3A-']) {
    expect((await world.call('GET', second)).status).toBe(404);
  }
  const large = randomBytes(60_000).toString('base64');
  const refused = await world.call('POST', '/auth/templates/page', { html: large });
  expect([refused.status, refused.json.code]).toEqual([413, 'preview_too_large']);
});

test('the content of sent mail is not shown', async () => {
  await world.owner.query(raw(`update auth.mail_outbox set state = 'sent'`));
  const { mails } = await get<MailList>('/mail');
  expect(mails[0]).toMatchObject({ state: 'sent', text: null, hasHtml: false });
  expect((await world.call('GET', `/mail/${mails[0]?.id ?? ''}/html`)).status).toBe(404);
  expect((await world.call('GET', '/mail/nothing/html')).status).toBe(404);
});

test('settings are shown without secrets', async () => {
  const settings = await get<AuthSettings>('/auth');
  expect(settings).toMatchObject({
    allowAnonymous: true,
    revocation: 'immediate',
    redirectUrls: ['https://app.example.com'],
    email: { enabled: true, verifyEmail: false, provider: 'catch' },
    oauth: [
      {
        name: 'google',
        clientId: 'public-client-id',
        callbackUrl: 'https://api.example.com/auth/v1/callback/google',
      },
    ],
    signingKeys: [{ alg: 'ES256', state: 'in_use' }],
  });
  expect(settings.templates.map(({ kind, custom }) => [kind, custom])).toEqual([
    ['confirm', true],
    ['magic_link', false],
    ['recovery', false],
    ['invite', false],
    ['email_change', false],
    ['reauthentication', false],
    ...NOTICE_KINDS.map((kind) => [kind, false]),
  ]);
  expect(settings.templates[0]).toMatchObject({ name: 'confirmation', subject: 'Hello {{ .Email }}' });
});

test.each([
  ['smtp', 'url: "${SVC_SMTP_URL}"'],
  ['resend', 'api_key: "${SVC_RESEND_KEY}"'],
])('a mail provider (%s) is shown without its secret', async (type, secret) => {
  const second = await startRoutesWorld({
    yaml: `${YAML}\nproviders:\n  email: { type: ${type}, ${secret}, default_from_email: mail@example.com }\n`,
    routes: [authSettingsRoutes, mailRoutes],
    // `svc dev` captures mail unless it is configured to send it.
    env: { ...CANARIES, SVC_DEV_MAIL: 'send' },
  });
  try {
    const answer = await second.call('GET', '/auth');
    answers.push(answer.text);
    expect(answer.json.email).toMatchObject({ provider: type, from: 'mail@example.com' });
    expect((await second.call('GET', '/mail')).json.caught).toBe(false);
  } finally {
    await second.close();
  }
});

async function preview(body: unknown): Promise<MailPreview> {
  const answer = await world.call('POST', '/auth/templates/preview', body);
  expect(answer.status).toBe(200);
  answers.push(answer.text);
  return answer.json as MailPreview;
}

test('a preview is rendered like the mail, escaped by context', async () => {
  expect(
    await preview({
      kind: 'confirm',
      subject: 'Hi {{ .Email }}',
      body: '<b>{{ .Token }}</b> {{ .Data.full_name }}',
    }),
  ).toEqual({
    ok: true,
    subject: 'Hi ada@example.com',
    html: '<b>123456</b> Ada Example',
    text: '123456 Ada Example',
  });
  expect(await preview({ kind: 'signup', subject: 's', body: 'plain {{ .SiteURL }}' })).toEqual({
    ok: true,
    subject: 's',
    html: null,
    text: 'plain https://app.example.com',
  });
  const conditional = { subject: 's', body: '{{ if .ConfirmationURL }}link{{ else }}code{{ end }}' };
  expect(await preview({ kind: 'recovery', ...conditional })).toMatchObject({ text: 'link' });
  expect(await preview({ kind: 'reauthentication', ...conditional })).toMatchObject({ text: 'code' });
});

test.each([
  ['{{ .Email', '', true],
  ['ok', 'a\nb {{ nonsense( }}', 'body, line 2, column 3'],
  ['{{ if .Email }}x', 'ok', 'subject, line 1, column 1'],
  ['ok', 'first\n  {{ if .A }}\n{{ if .B }}x{{ end }}', 'body, line 2, column 3'],
  ['ok', 'x{{ end }}', 'body, line 1, column 2'],
  ['ok', 'x{{ else }}', 'body, line 1, column 2'],
])('a template %j / %j is refused with its position', async (subject, body, place) => {
  const answer = await preview({ kind: 'invite', subject, body });
  if (place === true) expect(answer.ok).toBe(true);
  else
    expect(answer).toMatchObject({
      ok: false,
      error: expect.stringContaining(`${String(place)}: `) as string,
    });
});

test('a preview of an unknown mail kind or with a bad body is refused', async () => {
  const unknown = await world.call('POST', '/auth/templates/preview', {
    kind: 'toString',
    subject: '',
    body: '',
  });
  expect([unknown.status, unknown.json.code]).toEqual([404, 'unknown_mail']);
  expect((await world.call('POST', '/auth/templates/preview', { kind: 'confirm' })).status).toBe(400);
});

test('no answer contained a secret', async () => {
  const stored = await world.owner.query<{ secret: string }>(
    raw(`
    select encrypted_password as secret from auth.users where encrypted_password is not null
    union all select encode(refresh_token_hmac_key, 'base64') from auth.sessions
    union all select token_hash from auth.one_time_tokens`),
  );
  const secrets = [
    'canary',
    world.keys.secret,
    ada.refresh_token,
    ada.access_token,
    ...stored.map(({ secret }) => secret),
  ];
  expect(answers.length).toBeGreaterThan(20);
  expect(secrets.length).toBeGreaterThan(6);
  for (const answer of answers) for (const secret of secrets) expect(answer).not.toContain(secret);
});
