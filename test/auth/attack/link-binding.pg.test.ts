// An attacker begins to link an identity to their own account and sends the link to a victim. The victim must not lose
// their identity to that account. A user who began the flow must succeed with the unmodified client library.
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import {
  aUser,
  navigate,
  parseRedirect,
  startAuth,
  type AuthWorld,
  type Reply,
} from '../../support/auth-world.ts';
import { signInAt, startOidcPeer, type OidcPeer } from '../../support/peers/oidc-peer.ts';

const APP = 'https://app.example';
let world: AuthWorld;
let peer: OidcPeer;
beforeAll(async () => {
  world = await startAuth({ auth: { redirectUrls: [APP] }, env: { SVC_AUTH_RATE_LIMITS: 'off' } });
  const redirectUrl = `${world.url}/auth/v1/callback/acme`;
  const client = { client_id: 'svc', client_secret: 'a-secret-of-the-client' };
  peer = await startOidcPeer([{ ...client, redirect_uris: [redirectUrl] }]);
  const acme = {
    name: 'acme',
    clientId: client.client_id,
    clientSecret: client.client_secret,
    redirectUrl,
    issuer: peer.issuer,
    url: undefined,
    scopes: undefined,
    emailOptional: false,
    position: { line: 1, column: 1 },
  };
  world.config = { ...world.config, auth: { ...world.config.auth, oauth: [acme] } };
});
afterAll(async () => {
  await peer?.stop();
  await world.close();
});

/** The client library in a separate browser. */
async function aBrowser(
  flowType: 'implicit' | 'pkce',
): Promise<{ client: SupabaseClient; id: string; email: string }> {
  const kept = new Map<string, string>();
  const client = createClient(world.url, world.keys.publishable, {
    auth: {
      flowType,
      autoRefreshToken: false,
      detectSessionInUrl: false,
      storage: {
        getItem: (key) => kept.get(key) ?? null,
        setItem: (key, value) => void kept.set(key, value),
        removeItem: (key) => void kept.delete(key),
      },
    },
  });
  const user = await aUser(world);
  const { error } = await client.auth.signInWithPassword(user);
  expect(error).toBeNull();
  return { client, id: user.id, email: user.email };
}

async function beginLink(client: SupabaseClient): Promise<string> {
  const { data, error } = await client.auth.linkIdentity({
    provider: 'acme' as 'google',
    options: { redirectTo: `${APP}/settings`, skipBrowserRedirect: true },
  });
  expect(error).toBeNull();
  return data.url ?? '';
}

let people = 0;
const aPerson = (): string => `person${++people}|person${people}@example.com|true`;

async function listProviders(userId: string): Promise<string[]> {
  const rows = await world.query<{ provider: string }>(
    sql`select provider from auth.identities where user_id = ${userId} order by provider`,
  );
  return rows.map((row) => row.provider);
}

const readCookie = (reply: Reply): string => reply.headers.get('set-cookie')?.split(';')[0] ?? '';
const readCode = (page: string): string => /name="code" value="([^"]+)"/.exec(page)?.[1] ?? '';
const press = async (code: string, cookie?: string): Promise<Reply> =>
  await world.call('POST', '/user/identities/confirm', {
    apikey: null,
    rawBody: new URLSearchParams({ code }).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...(cookie ? { cookie } : {}) },
  });

describe('implicit', () => {
  test('the victim sees the owner of the account, and nothing is linked or issued before consent', async () => {
    const attacker = await aBrowser('implicit');
    const back = await signInAt(await beginLink(attacker.client), aPerson());
    const page = await navigate(back);
    expect(page.status).toBe(200);
    expect(page.text).toContain(attacker.email);
    expect(page.text).toContain(`person${people}@example.com`);
    expect(page.text).not.toMatch(/access_token|<script/);
    expect(page.headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
    expect(await listProviders(attacker.id)).toEqual(['email']);
  });

  test('an image, a script or a program without navigation headers cannot link it either', async () => {
    for (const headers of [
      { 'sec-fetch-mode': 'no-cors', accept: 'image/avif,image/webp,*/*' },
      { accept: '*/*', 'sec-fetch-mode': 'cors' },
      { accept: 'image/webp,*/*;q=0.8' },
    ]) {
      const attacker = await aBrowser('implicit');
      const back = await signInAt(await beginLink(attacker.client), aPerson());
      const reply = await world.call('GET', back, { apikey: null, headers });
      expect(reply.headers.get('location')).toBeNull();
      expect(await listProviders(attacker.id)).toEqual(['email']);
    }
  });

  test('a page elsewhere cannot press the button', async () => {
    const attacker = await aBrowser('implicit');
    const page = await navigate(await signInAt(await beginLink(attacker.client), aPerson()));
    const reply = await press(readCode(page.text));
    expect(parseRedirect(reply).fragment['error_code']).toBe('flow_state_not_found');
    expect(readCookie(page)).not.toBe('');
    expect(page.headers.get('set-cookie')).toMatch(/HttpOnly; SameSite=Strict$/);
    expect(await listProviders(attacker.id)).toEqual(['email']);
  });

  test('the initiator consents once, and the client library receives the session', async () => {
    const owner = await aBrowser('implicit');
    const page = await navigate(await signInAt(await beginLink(owner.client), aPerson()));
    const done = await press(readCode(page.text), readCookie(page));
    expect(done.status).toBe(303);
    const { target, fragment } = parseRedirect(done);
    expect(target).toBe(`${APP}/settings`);
    const { access_token = '', refresh_token = '' } = fragment;
    const { data } = await owner.client.auth.setSession({ access_token, refresh_token });
    expect(data.user?.id).toBe(owner.id);
    const { data: identities } = await owner.client.auth.getUserIdentities();
    expect(identities?.identities.map((identity) => identity.provider).sort()).toEqual(['acme', 'email']);
    const again = await press(readCode(page.text), readCookie(page));
    expect(parseRedirect(again).fragment['error_code']).toBe('flow_state_not_found');
  });

  test('a browser with the cookie of the first request skips the consent', async () => {
    const user = await aUser(world);
    const path =
      `/user/identities/authorize?provider=acme&redirect_to=${encodeURIComponent(APP)}` +
      '&skip_http_redirect=true';
    const begun = await world.call('GET', path, { bearer: user.access });
    const back = await signInAt(begun.json.url, aPerson());
    const reply = await navigate(back, { cookie: readCookie(begun) });
    expect(parseRedirect(reply).fragment['access_token']).toBeDefined();
    expect(await listProviders(user.id)).toEqual(['acme', 'email']);
  });

  test('names are text on the page, whatever a provider sends', async () => {
    const attacker = await aBrowser('implicit');
    await world.query(
      sql`update auth.users set email = ${'"><script>alert(1)</script>@example.com'} where id = ${attacker.id}`,
    );
    const page = await navigate(await signInAt(await beginLink(attacker.client), aPerson()));
    expect(page.text).not.toContain('<script>');
    expect(page.text).toContain('&#60;script&#62;');
  });
});

describe('PKCE', () => {
  test('the victim’s browser gets a code it cannot exchange, and nothing is linked', async () => {
    const attacker = await aBrowser('pkce');
    const reply = await navigate(await signInAt(await beginLink(attacker.client), aPerson()));
    const { code = '' } = parseRedirect(reply).query;
    expect(code).not.toBe('');
    const victim = await aBrowser('pkce');
    await beginLink(victim.client);
    const { error } = await victim.client.auth.exchangeCodeForSession(code);
    expect(error?.code).toBe('bad_code_verifier');
    expect(await listProviders(attacker.id)).toEqual(['email']);
    expect(await listProviders(victim.id)).toEqual(['email']);
  });

  test('the initiator exchanges the code, which creates the link', async () => {
    const owner = await aBrowser('pkce');
    const reply = await navigate(await signInAt(await beginLink(owner.client), aPerson()));
    expect(await listProviders(owner.id)).toEqual(['email']);
    const { data, error } = await owner.client.auth.exchangeCodeForSession(
      parseRedirect(reply).query['code'] ?? '',
    );
    expect(error).toBeNull();
    expect(data.user?.id).toBe(owner.id);
    expect(data.session?.provider_token).toEqual(expect.any(String));
    expect(await listProviders(owner.id)).toEqual(['acme', 'email']);
  });

  test('an identity of another user is refused in the redirect', async () => {
    const person = aPerson();
    const first = await aBrowser('pkce');
    const reply = await navigate(await signInAt(await beginLink(first.client), person));
    await first.client.auth.exchangeCodeForSession(parseRedirect(reply).query['code'] ?? '');
    const second = await aBrowser('pkce');
    const refused = await navigate(await signInAt(await beginLink(second.client), person));
    expect(parseRedirect(refused).fragment['error_code']).toBe('identity_already_exists');
  });

  test('of two flows for one identity the second exchange is refused', async () => {
    const person = aPerson();
    const [first, second] = [await aBrowser('pkce'), await aBrowser('pkce')];
    const codes: string[] = [];
    for (const { client } of [first, second]) {
      const reply = await navigate(await signInAt(await beginLink(client), person));
      codes.push(parseRedirect(reply).query['code'] ?? '');
    }
    expect((await first.client.auth.exchangeCodeForSession(codes[0] ?? '')).error).toBeNull();
    const { error } = await second.client.auth.exchangeCodeForSession(codes[1] ?? '');
    expect(error?.code).toBe('identity_already_exists');
    expect(await listProviders(second.id)).toEqual(['email']);
  });

  test('a session that ended before the exchange links nothing', async () => {
    const owner = await aBrowser('pkce');
    const reply = await navigate(await signInAt(await beginLink(owner.client), aPerson()));
    await world.query(sql`delete from auth.sessions where user_id = ${owner.id}`);
    const { error } = await owner.client.auth.exchangeCodeForSession(
      parseRedirect(reply).query['code'] ?? '',
    );
    expect(error?.code).toBe('flow_state_not_found');
    expect(await listProviders(owner.id)).toEqual(['email']);
  });
});

describe('with a verified second factor', () => {
  test('identities are added and removed only by a session that has shown it', async () => {
    const user = await aBrowser('pkce');
    const begun = await beginLink(user.client);
    await world.query(sql`
      insert into auth.mfa_factors (user_id, friendly_name, factor_type, status)
        values (${user.id}, 'f', 'totp', 'verified')`);
    const { error } = await user.client.auth.linkIdentity({
      provider: 'acme' as 'google',
      options: { skipBrowserRedirect: true },
    });
    expect(error?.code).toBe('insufficient_aal');
    const late = await navigate(await signInAt(begun, aPerson()));
    expect(parseRedirect(late).fragment['error_code']).toBe('insufficient_aal');

    await world.query(sql`
      insert into auth.identities (provider, provider_id, user_id, identity_data)
      values ('acme', ${`x${user.id}`}, ${user.id}, '{"sub":"x"}')`);
    const { data } = await user.client.auth.getUserIdentities();
    const acme = data?.identities.find((identity) => identity.provider === 'acme');
    if (!acme) throw new Error('no identity to remove');
    expect((await user.client.auth.unlinkIdentity(acme)).error?.code).toBe('insufficient_aal');
    await world.query(sql`update auth.sessions set aal = 'aal2' where user_id = ${user.id}`);
    expect((await user.client.auth.unlinkIdentity(acme)).error).toBeNull();
    expect(await beginLink(user.client)).toContain(peer.issuer);
  });
});
