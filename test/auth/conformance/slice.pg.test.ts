import { afterAll, beforeAll, expect, test } from 'vitest';
import { aUser, decodeClaims, startAuth, type AuthWorld } from '../../support/auth-world.ts';

let world: AuthWorld;
beforeAll(async () => {
  world = await startAuth();
});
afterAll(() => world.close());

test.each(['newest', '2.107'] as const)(
  'sign up, sign in, refresh, change and sign out with the %s client',
  async (version) => {
    const client = version === 'newest' ? world.client() : world.oldClient();
    const email = `slice-${version}@example.com`;
    const up = await client.auth.signUp({ email, password: 'correct horse', options: { data: { x: 1 } } });
    expect(up.error).toBeNull();
    expect(up.data.session?.expires_in).toBe(900);
    expect(up.data.user?.user_metadata['x']).toBe(1);
    const signedIn = await client.auth.signInWithPassword({ email, password: 'correct horse' });
    expect(signedIn.error).toBeNull();
    const refreshed = await client.auth.refreshSession();
    expect(refreshed.error).toBeNull();
    expect(refreshed.data.session?.refresh_token).not.toBe(signedIn.data.session?.refresh_token);
    const updated = await client.auth.updateUser({ data: { x: null, y: 2 } });
    expect(updated.data.user?.user_metadata).toMatchObject({ y: 2 });
    expect(updated.data.user?.user_metadata).not.toHaveProperty('x');
    expect((await client.auth.getUser()).data.user?.email).toBe(email);
    const claims = await client.auth.getClaims();
    expect(claims.data?.claims.email).toBe(email);
    expect((await client.auth.signOut()).error).toBeNull();
  },
);

test('anonymous users', async () => {
  const { data, error } = await world.client().auth.signInAnonymously();
  expect(error).toBeNull();
  expect(decodeClaims(data.session?.access_token ?? '')).toMatchObject({ role: 'anon', is_anonymous: true });
});

test('admin users', async () => {
  const { admin } = world.admin().auth;
  const made = await admin.createUser({
    email: 'made@example.com',
    password: 'correct horse',
    email_confirm: true,
  });
  expect(made.error).toBeNull();
  const id = made.data.user?.id ?? '';
  expect((await admin.getUserById(id)).data.user?.email).toBe('made@example.com');
  expect((await admin.updateUserById(id, { ban_duration: '24h' })).data.user).toHaveProperty('banned_until');
  const listed = await admin.listUsers();
  expect(listed.error).toBeNull();
  expect(listed.data).toMatchObject({ total: expect.any(Number) });
  expect((await admin.deleteUser(id)).error).toBeNull();
});

test('a repeated token gets the same response, and sign-out ends it', async () => {
  const user = await aUser(world);
  const refresh = (token: string) =>
    world.call('POST', '/token?grant_type=refresh_token', { body: { refresh_token: token } });
  const answers = await Promise.all(Array.from({ length: 10 }, () => refresh(user.refresh)));
  expect(answers.map((answer) => answer.status)).toEqual(Array(10).fill(200));
  expect(new Set(answers.map((answer) => answer.json.refresh_token)).size).toBe(1);
  expect((await world.call('POST', '/logout', { bearer: user.access })).status).toBe(204);
  expect((await refresh(answers[0]!.json.refresh_token)).json.error_code).toBe('refresh_token_not_found');
});
