// An attacker registers the victim's address first, or at a provider that does not check it, and waits for
// the victim.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { resolveIdentity, type LinkOutcome } from '../../../src/auth/accounts/identity-link.ts';
import { BUILT_IN } from '../../../src/auth/provider/builtin.ts';
import type { ProfileSource } from '../../../src/auth/provider/definition.ts';
import type { ProviderEmail } from '../../../src/auth/provider/provider.ts';
import { sql } from '../../../src/postgres/sql.ts';
import { Problem } from '../../../src/problem/problem.ts';
import { aUser, startAuth, type AuthWorld } from '../../support/auth-world.ts';
import { anAuthContext, anAuthRequest } from '../../support/auth-context.ts';

let world: AuthWorld;
beforeAll(async () => {
  world = await startAuth();
});
afterAll(() => world.close());

let count = 0;
async function arrive(emails: ProviderEmail[], subject = `s${++count}`): Promise<LinkOutcome> {
  const auth = anAuthContext(world);
  const request = anAuthRequest(world);
  const claims = { sub: subject, email: emails[0]?.email, email_verified: emails[0]?.verified ?? false };
  return await auth.db.transaction((db) =>
    resolveIdentity(db, request, {
      provider: 'acme',
      profile: { subject, emails, claims },
      emailOptional: false,
    }),
  );
}

const signIn = async (email: string, password: string): Promise<number> =>
  (await world.call('POST', '/token?grant_type=password', { body: { email, password } })).status;

test('an unverified provider address never opens an existing account', async () => {
  const victim = await aUser(world);
  const outcome = await arrive([{ email: victim.email, verified: false, primary: true }]);
  expect(outcome).toMatchObject({ code: 'provider_email_needs_verification' });
  expect(await signIn(victim.email, victim.password)).toBe(200);
});

test('a verified secondary address does not lend its truth to an unverified primary one', async () => {
  const victim = await aUser(world);
  const outcome = await arrive([
    { email: victim.email, verified: false, primary: true },
    { email: `attacker${count}@example.com`, verified: true, primary: false },
  ]);
  expect(outcome).toBeInstanceOf(Problem);
});

test('the mailbox owner gets the account without the password, identities and factors of the first user', async () => {
  const squatter = await aUser(world);
  await world.query(sql`
    insert into auth.mfa_factors (user_id, friendly_name, factor_type, status)
      values (${squatter.id}, 'x', 'totp', 'unverified')`);
  const evil = JSON.stringify({ sub: 'e', email: 'attacker@example.com' });
  await world.query(sql`
    insert into auth.identities (provider, provider_id, user_id, identity_data)
    values ('evil', ${`e${squatter.id}`}, ${squatter.id}, ${evil})`);
  const outcome = await arrive([{ email: squatter.email, verified: true, primary: true }]);
  expect(outcome).toEqual({ userId: squatter.id, isRestricted: false });
  expect(await signIn(squatter.email, squatter.password)).toBe(400);
  expect((await world.call('GET', '/user', { bearer: squatter.access })).status).toBe(403);
  const rows = await world.query(sql`
    select (select count(*)::int from auth.mfa_factors where user_id = ${squatter.id}) as factors,
      (select array_agg(provider order by provider) from auth.identities where user_id = ${squatter.id}) as providers`);
  expect(rows).toEqual([{ factors: 0, providers: ['acme', 'email'] }]);
});

test('an account with a proven mailbox keeps its password when a provider is linked', async () => {
  const owner = await aUser(world);
  await world.query(sql`update auth.users set email_proven_at = now() where id = ${owner.id}`);
  expect(await arrive([{ email: owner.email, verified: true, primary: true }])).toMatchObject({
    userId: owner.id,
  });
  expect(await signIn(owner.email, owner.password)).toBe(200);
});

test('user_metadata.email_verified, which a user writes, proves nothing', async () => {
  const squatter = await aUser(world);
  await world.call('PUT', '/user', {
    bearer: squatter.access,
    body: { data: { email_verified: true, sub: 'x' } },
  });
  await arrive([{ email: squatter.email, verified: true, primary: true }]);
  expect(await signIn(squatter.email, squatter.password)).toBe(400);
});

test('a known identity keeps its account when its address becomes that of another user', async () => {
  const first = await arrive([{ email: 'mover@example.com', verified: true, primary: true }], 'mover');
  const owner = await aUser(world);
  const again = await arrive([{ email: owner.email, verified: true, primary: true }], 'mover');
  expect(again).toEqual(first);
});

describe('what each built-in provider calls verified', () => {
  const settings = {
    clientId: 'c',
    clientSecret: 's',
    redirectUrl: 'https://a/auth/v1/callback/x',
    url: undefined,
  };
  const source = (
    answers: Record<string, unknown>,
    idToken?: Record<string, unknown>,
    url?: string,
  ): ProfileSource => ({
    settings: { ...settings, url },
    accessToken: 'token',
    idToken,
    tokenAnswer: answers['token'] ? (answers['token'] as Record<string, unknown>) : {},
    callback: {},
    get: (address) => Promise.resolve(answers[new URL(address).pathname] ?? {}),
  });
  const idToken = (email_verified: unknown, more = {}) =>
    source({}, { sub: '1', iss: 'i', email: 'a@b.co', email_verified, ...more });
  const tenant = 'https://login.microsoftonline.com/00000000-0000-4000-8000-000000000000';

  test.each<[string, ProfileSource, boolean]>([
    ['google', idToken(true), true],
    ['google', idToken('true'), true],
    ['google', idToken(false), false],
    ['google', idToken('false'), false],
    ['google', idToken(undefined), false],
    ['apple', idToken('true'), true],
    ['apple', idToken(undefined), false],
    ['apple', idToken(false), false],
    ['apple', idToken('false'), false],
    ['keycloak', idToken(true), true],
    ['keycloak', idToken('true'), false],
    ['keycloak', idToken(undefined), false],
    ['linkedin_oidc', idToken('true'), true],
    ['linkedin_oidc', idToken('false'), false],
    ['azure', idToken(true), false],
    ['azure', idToken(undefined, { xms_edov: true }), true],
    ['azure', idToken(undefined, { xms_edov: '1' }), true],
    ['azure', idToken(undefined, { xms_edov: false }), false],
    ['azure', source({}, { sub: '1', iss: 'i', email: 'a@b.co' }, tenant), true],
    ['azure', source({}, { sub: '1', iss: 'i', email: 'a@b.co', xms_edov: '0' }, tenant), false],
    [
      'github',
      source({
        '/user': { id: 1, login: 'l' },
        '/user/emails': [{ email: 'a@b.co', primary: true, verified: true }],
      }),
      true,
    ],
    [
      'github',
      source({
        '/user': { id: 1, email: 'a@b.co' },
        '/user/emails': [{ email: 'a@b.co', primary: true, verified: false }],
      }),
      false,
    ],
    ['gitlab', source({ '/api/v4/user': { id: 1, email: 'a@b.co', confirmed_at: '2026-01-01' } }), true],
    ['gitlab', source({ '/api/v4/user': { id: 1, email: 'a@b.co', confirmed_at: null } }), false],
    [
      'bitbucket',
      source({
        '/2.0/user': { uuid: 'u' },
        '/2.0/user/emails': { values: [{ email: 'a@b.co', is_primary: true, is_confirmed: false }] },
      }),
      false,
    ],
    [
      'discord',
      source({
        '/api/users/@me': { id: '1', username: 'u', discriminator: '0', email: 'a@b.co', verified: true },
      }),
      true,
    ],
    [
      'discord',
      source({ '/api/users/@me': { id: '1', username: 'u', email: 'a@b.co', verified: 'true' } }),
      false,
    ],
    ['facebook', source({ '/me': { id: '1', email: 'a@b.co', name: 'n' } }), true],
    ['twitch', source({ '/helix/users': { data: [{ id: '1', login: 'l', email: 'a@b.co' }] } }), true],
    ['spotify', source({ '/v1/me': { id: '1', email: 'a@b.co' } }), false],
    [
      'slack_oidc',
      source(
        { '/api/openid.connect.userInfo': { sub: '1', email: 'a@b.co', email_verified: true } },
        { sub: '1' },
      ),
      true,
    ],
    [
      'slack_oidc',
      source(
        { '/api/openid.connect.userInfo': { sub: '1', email: 'a@b.co', email_verified: 'true' } },
        { sub: '1' },
      ),
      false,
    ],
    [
      'notion',
      source({
        '/v1/users/me': { bot: { owner: { user: { id: '1', name: 'n', person: { email: 'a@b.co' } } } } },
      }),
      true,
    ],
    [
      'zoom',
      source({ '/v2/users/me': { id: '1', email: 'a@b.co', login_types: [100], verified: 0 } }),
      false,
    ],
    ['zoom', source({ '/v2/users/me': { id: '1', email: 'a@b.co', login_types: [100], verified: 1 } }), true],
    ['zoom', source({ '/v2/users/me': { id: '1', email: 'a@b.co', login_types: [1] } }), true],
    ['zoom', source({ '/v2/users/me': { id: '1', email: 'a@b.co' } }), false],
    ['zoom', source({ '/v2/users/me': { id: '1', email: 'a@b.co', login_types: [101] } }), false],
    ['zoom', source({ '/v2/users/me': { id: '1', email: 'a@b.co', login_types: [1, 100] } }), false],
    ['zoom', source({ '/v2/users/me': { id: '1', email: 'a@b.co', login_types: [101], verified: 1 } }), true],
    ['figma', source({ '/v1/me': { id: '1', email: 'a@b.co', handle: 'h' } }), true],
    ['fly', source({ '/oauth/token/info': { user_id: '1', email: 'a@b.co', user_name: 'n' } }), true],
    [
      'kakao',
      source({
        '/v2/user/me': {
          id: 1,
          kakao_account: { email: 'a@b.co', is_email_verified: true, is_email_valid: true },
        },
      }),
      true,
    ],
    [
      'kakao',
      source({
        '/v2/user/me': {
          id: 1,
          kakao_account: { email: 'a@b.co', is_email_verified: true, is_email_valid: false },
        },
      }),
      false,
    ],
    ['workos', source({ token: { profile: { id: '1', email: 'a@b.co' } } }), true],
    ['x', source({ '/2/users/me': { data: { id: '1', username: 'u', confirmed_email: 'a@b.co' } } }), true],
  ])('%s %#', async (name, given, verified) => {
    const profile = await BUILT_IN[name]!.profile(given);
    expect(profile.emails).toEqual([expect.objectContaining({ email: 'a@b.co', verified })]);
    expect(profile.claims['email_verified']).toBe(verified);
    expect(profile.subject).toMatch(/./);
  });

  test('no subject, no sign-in', async () => {
    for (const definition of Object.values(BUILT_IN)) {
      await expect(Promise.resolve().then(() => definition.profile(source({}, {})))).rejects.toThrow();
    }
  });

  test('every provider of the documented list is built in', () => {
    const documented =
      'google apple github gitlab bitbucket azure facebook discord twitter x linkedin_oidc ' +
      'slack_oidc spotify twitch notion zoom kakao keycloak workos figma fly';
    expect(Object.keys(BUILT_IN).sort()).toEqual(documented.split(' ').sort());
  });
});
