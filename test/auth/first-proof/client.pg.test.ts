// The first proof of an address as applications see it: supabase-js against a whole backend with its default settings.
import { createClient, REALTIME_SUBSCRIBE_STATES, type SupabaseClient } from '@supabase/supabase-js';
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { raw, sql } from '../../../src/postgres/sql.ts';
import { decodeClaims, navigate, pressButton, parseRedirect } from '../../support/auth-world.ts';
import { startBackendWorld, type BackendWorld } from '../../support/backend-world.ts';

const FILE = `
version: 1
auth: { email: {}, redirect_urls: [https://app.example] }
tables:
  notes:
    fields: [{ name: id, type: bigserial, primary_key: true }, { name: body, type: text }]
    rls: [{ operations: [select], using: "true" }]
functions:
  secret: { runtime: node, file: secret.js, auth_required: true }
`;
const PASSWORD = 'correct horse battery';

let world: BackendWorld;
beforeAll(async () => {
  world = await startBackendWorld(FILE, {
    dev: true,
    env: { SVC_AUTH_RATE_LIMITS: 'off' },
    files: { 'secret.js': 'export default () => new Response("ran")' },
  });
});
afterAll(() => world.close());

const OPTIONS = { auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false } };
const aClient = (): SupabaseClient => createClient(world.url, world.keys.publishable, OPTIONS);
let count = 0;
const anEmail = (): string => `person${++count}@example.com`;

type Mail = { readonly kind: string; readonly html: string; readonly text: string };

/** Newest first. */
async function mails(to: string): Promise<Mail[]> {
  const headers = { apikey: world.keys.secret };
  const response = await fetch(`${world.url}/auth/v1/admin/mails?to=${encodeURIComponent(to)}`, { headers });
  return ((await response.json()) as { mails: Mail[] }).mails;
}
async function newest(to: string, kind: string): Promise<{ link: string; code: string }> {
  const mail = (await mails(to)).find((entry) => entry.kind === kind);
  const link = /href="([^"]*\/verify\?[^"]*)"/.exec(mail?.html ?? '')?.[1]?.replaceAll('&amp;', '&') ?? '';
  return { link, code: /\b\d{6}\b/.exec(mail?.text ?? '')?.[0] ?? '' };
}
async function signUp(
  data: Record<string, unknown> = {},
): Promise<{ email: string; client: SupabaseClient }> {
  const email = anEmail();
  const client = aClient();
  const { error } = await client.auth.signUp({ email, password: PASSWORD, options: { data } });
  expect(error).toBeNull();
  return { email, client };
}
/** Signs in with a mailed code, from another browser. */
async function enterByCode(email: string): Promise<SupabaseClient> {
  const client = aClient();
  expect((await client.auth.signInWithOtp({ email })).error).toBeNull();
  const { code } = await newest(email, 'magic_link');
  expect((await client.auth.verifyOtp({ email, token: code, type: 'email' })).error).toBeNull();
  return client;
}
const signIn = async (email: string): Promise<string | undefined> =>
  (await aClient().auth.signInWithPassword({ email, password: PASSWORD })).error?.code;
/** Presses a button of the page that a link opens. */
async function press(link: string, field?: string): Promise<string> {
  const reply = await pressButton(link, field);
  return reply.headers.get('location') ?? reply.text;
}

async function enrol(client: SupabaseClient): Promise<{ id: string; secret: string }> {
  const { data } = await client.auth.mfa.enroll({ factorType: 'totp' });
  const secret = data?.type === 'totp' ? data.totp.secret : '';
  const id = data?.id ?? '';
  expect((await client.auth.mfa.challengeAndVerify({ factorId: id, code: totp(secret) })).error).toBeNull();
  return { id, secret };
}
const totp = (secret: string): string => new TOTP({ secret: Secret.fromBase32(secret) }).generate();
/** A code works once, so this clears the last time step instead of waiting for the next one. */
const forgetStep = async (id: string): Promise<unknown> =>
  await world.owner.query(sql`update auth.mfa_factors set last_used_step = 0 where id = ${id}`);

const accessToken = async (client: SupabaseClient): Promise<string> =>
  (await client.auth.getSession()).data.session?.access_token ?? '';
const at = async (path: string, access: string): Promise<{ status: number; code: unknown }> => {
  const headers = { apikey: world.keys.publishable, authorization: `Bearer ${access}` };
  const response = await fetch(`${world.url}${path}`, { headers });
  const body = (await response.json()) as { code?: unknown } | null;
  return { status: response.status, code: body?.code };
};

describe('an account with a verified factor', () => {
  test('keeps factor and password when a code is mailed, and opens a restricted session', async () => {
    const { email, client } = await signUp({ full_name: 'Ada' });
    const factor = await enrol(client);
    const second = await enterByCode(email);

    const { data } = await second.auth.mfa.listFactors();
    expect(data?.totp.map(({ id }) => id)).toEqual([factor.id]);
    const { data: level } = await second.auth.mfa.getAuthenticatorAssuranceLevel();
    expect(level).toMatchObject({ currentLevel: 'aal1', nextLevel: 'aal2' });
    expect(decodeClaims(await accessToken(second))).toMatchObject({ restricted: true, aal: 'aal1' });
    expect((await mails(email))[0]?.kind).toBe('guarded_sign_in');

    const refused = { code: 'insufficient_aal', status: 403 };
    expect((await second.auth.updateUser({ password: 'another one' })).error).toMatchObject({
      code: 'insufficient_aal',
      status: 401,
    });
    expect((await second.auth.updateUser({ data: { a: 1 } })).error).toMatchObject(refused);
    expect((await second.auth.mfa.enroll({ factorType: 'totp', friendlyName: 'x' })).error).toMatchObject(
      refused,
    );
    expect((await second.auth.mfa.unenroll({ factorId: factor.id })).error).toMatchObject(refused);
    expect((await second.auth.reauthenticate()).error).toMatchObject(refused);
    expect((await second.auth.linkIdentity({ provider: 'google' })).error).toMatchObject(refused);

    expect((await client.auth.getUser()).data.user?.user_metadata).toMatchObject({ full_name: 'Ada' });
    expect(await signIn(email)).toBeUndefined();
  });

  test('shows no data to a restricted session until its factor is verified', async () => {
    const { email, client } = await signUp();
    const factor = await enrol(client);
    const second = await enterByCode(email);
    const access = await accessToken(second);
    for (const path of ['/rest/v1/notes', '/storage/v1/bucket', '/functions/v1/secret'])
      expect(await at(path, access)).toEqual({ status: 403, code: 'insufficient_aal' });
    const refreshed = await second.auth.refreshSession();
    expect(decodeClaims(refreshed.data.session?.access_token ?? '').restricted).toBe(true);
    const joined = await new Promise<string>((resolve) => {
      void second.realtime.setAuth(access).then(() => {
        second.channel('room').subscribe((status, error) => {
          if (status !== REALTIME_SUBSCRIBE_STATES.CLOSED) resolve(`${status} ${error?.message ?? ''}`);
        });
      });
    });
    expect(joined).toMatch(/CHANNEL_ERROR.*Verify the second factor of this account first/);
    await second.removeAllChannels();

    await forgetStep(factor.id);
    const code = totp(factor.secret);
    expect((await second.auth.mfa.challengeAndVerify({ factorId: factor.id, code })).error).toBeNull();
    const raised = await accessToken(second);
    expect(decodeClaims(raised)).toMatchObject({ aal: 'aal2' });
    expect(decodeClaims(raised)).not.toHaveProperty('restricted');
    expect((await second.from('notes').select()).error).toBeNull();
    expect(await signIn(email)).toBeUndefined();
    const [row] = await world.owner.query(sql`
      select email_proven_at is not null as proven from auth.users where email = ${email}`);
    expect(row).toEqual({ proven: true });
  });

  test('follows the rules of its other credentials after an administrator removes the factor', async () => {
    const { email, client } = await signUp();
    const factor = await enrol(client);
    const restricted = await enterByCode(email);
    const admin = createClient(world.url, world.keys.secret, OPTIONS);
    const userId = (await client.auth.getUser()).data.user?.id ?? '';
    expect((await admin.auth.admin.mfa.deleteFactor({ userId, id: factor.id })).error).toBeNull();
    expect((await restricted.auth.updateUser({ data: { a: 1 } })).error?.code).toBe('insufficient_aal');
    await enterByCode(email);
    expect(await signIn(email)).toBe('invalid_credentials');
  });

  test('signing out of a restricted session ends no other session', async () => {
    const { email, client } = await signUp();
    await enrol(client);
    const second = await enterByCode(email);
    await second.auth.signOut({ scope: 'global' });
    expect((await client.auth.getUser()).error).toBeNull();
  });
});

describe('the first proof', () => {
  test('by a typed code keeps the metadata, removes the password and reports it', async () => {
    const { email } = await signUp({ full_name: 'Ada' });
    const second = await enterByCode(email);
    expect((await second.auth.getUser()).data.user?.user_metadata).toMatchObject({ full_name: 'Ada' });
    expect(await signIn(email)).toBe('invalid_credentials');
    const [notice] = await mails(email);
    expect(notice?.kind).toBe('credentials_removed');
    expect(notice?.text).toContain('The password set before you confirmed');
    expect(notice?.html).not.toContain('/verify');
    expect(notice?.text).not.toMatch(/\b\d{6}\b/);
  });

  test('by a recovery link keeps the metadata and sends no notice', async () => {
    const { email } = await signUp({ full_name: 'Ada' });
    await aClient().auth.resetPasswordForEmail(email);
    const { link } = await newest(email, 'recovery');
    const access = new URLSearchParams(new URL(await press(link)).hash.slice(1)).get('access_token') ?? '';
    expect(decodeClaims(access).user_metadata).toMatchObject({ full_name: 'Ada' });
    expect((await mails(email)).map(({ kind }) => kind)).toEqual(['recovery', 'confirm']);
  });

  test('asks on the page of a link whether the password is the visitor’s', async () => {
    const { email } = await signUp();
    await aClient().auth.signInWithOtp({ email });
    const { link } = await newest(email, 'magic_link');
    const page = await navigate(link, { 'accept-language': 'en' });
    expect(page.text).toMatch(
      /A password was set on <strong>\d+ \w+ \d{4}<\/strong>, before this address was confirmed/,
    );
    const [remove, keep] = [...page.text.matchAll(/<button[^>]*>([^<]*)</g)].map((match) => match[1]);
    expect([remove, keep]).toEqual(['Continue and remove it', 'It is mine: continue and keep it']);
    await press(link, 'keep_password');
    expect(await signIn(email)).toBeUndefined();
    expect((await mails(email)).map(({ kind }) => kind)).not.toContain('credentials_removed');
  });

  test('by an administrator removes foreign identities and keeps the password that was set', async () => {
    const { email, client } = await signUp();
    const { data } = await client.auth.getUser();
    await world.owner.query(sql`
      insert into auth.identities (provider, provider_id, user_id, identity_data)
      values ('acme', ${email}, ${data.user?.id ?? null}, '{}')`);
    const admin = createClient(world.url, world.keys.secret, OPTIONS);
    const change = { email_confirm: true, password: 'set by the admin' };
    expect((await admin.auth.admin.updateUserById(data.user?.id ?? '', change)).error).toBeNull();
    const entered = await aClient().auth.signInWithPassword({ email, password: change.password });
    expect(entered.data.user?.identities?.map(({ provider }) => provider)).toEqual(['email']);
    await enterByCode(email);
    expect((await aClient().auth.signInWithPassword({ email, password: change.password })).error).toBeNull();
  });

  test('by a code that is sent with the session of the account keeps everything', async () => {
    const { email, client } = await signUp();
    await aClient().auth.signInWithOtp({ email });
    const { code } = await newest(email, 'magic_link');
    const headers = {
      apikey: world.keys.publishable,
      authorization: `Bearer ${await accessToken(client)}`,
      'content-type': 'application/json',
    };
    const body = JSON.stringify({ type: 'email', email, token: code });
    const verified = await fetch(`${world.url}/auth/v1/verify`, { method: 'POST', headers, body });
    expect(verified.status).toBe(200);
    expect((await client.auth.getUser()).error).toBeNull();
    expect(await signIn(email)).toBeUndefined();
  });
});

describe('a code of reauthenticate()', () => {
  test('proves the address of the session that sends it, and keeps everything', async () => {
    const { email, client } = await signUp();
    expect((await client.auth.reauthenticate()).error).toBeNull();
    const { code } = await newest(email, 'reauthentication');
    expect((await client.auth.updateUser({ nonce: code, data: { a: 1 } })).error).toBeNull();
    await enterByCode(email);
    expect(await signIn(email)).toBeUndefined();
  });
});

describe('the confirmation at sign-up', () => {
  test('is sent for an open account, and keeps password and session', async () => {
    const email = anEmail();
    const client = aClient();
    const { data } = await client.auth.signUp({ email, password: PASSWORD });
    expect(data.session).not.toBeNull();
    expect(data.user?.email_confirmed_at).toBeDefined();
    expect(data.user?.confirmation_sent_at).toBeDefined();
    expect(data.user?.identities?.[0]?.identity_data?.['email_verified']).toBe(false);
    expect((await mails(email)).map(({ kind }) => kind)).toEqual(['confirm']);
    const { link } = await newest(email, 'confirm');
    const page = await navigate(link, { 'accept-language': 'en' });
    expect(page.text).toContain(`<strong>${email}</strong>`);
    expect(page.text).toContain('<li>a password</li>');
    const buttons = [...page.text.matchAll(/<button[^>]*>([^<]*)</g)].map((match) => match[1]);
    expect(buttons).toEqual(['Confirm', 'This was not me']);
    const ended = await press(link);
    expect(parseRedirect({ headers: new Headers({ location: ended }) } as never).fragment['type']).toBe(
      'signup',
    );
    expect((await client.auth.getUser()).data.user?.identities?.[0]?.identity_data).toMatchObject({
      email_verified: true,
    });
    expect(await signIn(email)).toBeUndefined();
    await enterByCode(email);
    expect(await signIn(email)).toBeUndefined();
  });

  test('has a link that works on the sixth day and a code that works for an hour', async () => {
    const { email } = await signUp();
    const { link, code } = await newest(email, 'confirm');
    await world.owner.query(
      raw(`
      update auth.one_time_tokens set expires_at = expires_at - interval '6 days',
        code_expires_at = code_expires_at - interval '6 days'`),
    );
    const { error } = await aClient().auth.verifyOtp({ email, token: code, type: 'signup' });
    expect(error?.code).toBe('otp_expired');
    expect(await press(link)).toContain('access_token=');
  });

  test('is sent again for an open account whose address is not proven', async () => {
    const { email } = await signUp();
    expect((await aClient().auth.resend({ type: 'signup', email })).error).toBeNull();
    expect((await mails(email)).map(({ kind }) => kind)).toEqual(['confirm', 'confirm']);
    await press((await newest(email, 'confirm')).link);
    expect((await aClient().auth.resend({ type: 'signup', email })).error).toBeNull();
    expect(await mails(email)).toHaveLength(2);
  });

  test('lets the owner of the mailbox disown the account', async () => {
    const { email, client } = await signUp();
    const page = await press((await newest(email, 'confirm')).link, 'disown');
    expect(page).toContain('The credentials of that sign-up were removed');
    expect((await client.auth.getUser()).error).not.toBeNull();
    expect(await signIn(email)).toBe('invalid_credentials');
  });

  test('lists the sign-ins of the account and asks whether they stay', async () => {
    const { email, client } = await signUp();
    const { data } = await client.auth.getUser();
    await world.owner.query(sql`
      insert into auth.identities (provider, provider_id, user_id, identity_data)
      values ('acme', ${email}, ${data.user?.id ?? null}, ${JSON.stringify({ email: 'o<b>@evil.example' })})`);
    const { link } = await newest(email, 'confirm');
    const page = await navigate(link, { 'accept-language': 'en' });
    expect(page.text).toContain('sign-in with acme (o&#60;b&#62;@evil.example)');
    const buttons = [...page.text.matchAll(/<button[^>]*>([^<]*)</g)].map((match) => match[1]);
    expect(buttons).toEqual(['Confirm and keep them', 'Confirm and remove them', 'This was not me']);
  });
});
