// One mailbox has one account, however its address is spelled.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { duplicateMailboxes, rewriteAddresses } from '../../../src/auth/users/canonical-addresses.ts';
import { sql } from '../../../src/postgres/sql.ts';
import { anAuthContext } from '../../support/auth-context.ts';
import { aUser, mailSecrets, startAuth, type AuthWorld } from '../../support/auth-world.ts';

let world: AuthWorld;
beforeAll(async () => {
  world = await startAuth({ env: { SVC_AUTH_RATE_LIMITS: 'off' } });
});
afterAll(() => world.close());

const post = (path: string, body: unknown) => world.call('POST', path, { body });
const admin = (method: string, path: string, body: unknown) =>
  world.call(method, path, { apikey: world.keys.secret, body });
const password = 'correct horse';
const signIn = (email: string) => post('/token?grant_type=password', { email, password });
const userWith = async (email: string): Promise<string> => (await aUser(world, { email, password })).id;

test.each([
  ['lea@müller.example', 'lea@xn--mller-kva.example'],
  ['zo\u00eb@shop.example', 'zoe\u0308@shop.example'],
])('%s and %s are one account at every route', async (stored, variant) => {
  const id = await userWith(variant);
  expect((await post('/signup', { email: stored, password })).json.error_code).toBe('user_already_exists');
  expect((await signIn(variant)).json.user).toMatchObject({ id, email: stored });
  expect((await signIn(`  ${stored}\n`)).json.user.id).toBe(id);
  expect((await admin('POST', '/admin/users', { email: variant })).json.error_code).toBe('email_exists');
  expect((await admin('POST', '/invite', { email: variant })).json.error_code).toBe('email_exists');
  const link = await admin('POST', '/admin/generate_link', { type: 'magiclink', email: variant });
  expect(link.json.id).toBe(id);
  await post('/otp', { email: variant });
  const { code } = mailSecrets((await world.mails(stored))[0]!);
  expect((await post('/verify', { type: 'email', email: stored, token: code })).json.user.id).toBe(id);
  const change = await world.call('PUT', '/user', {
    bearer: (await aUser(world)).access,
    body: { email: variant },
  });
  expect(change.json.error_code).toBe('email_exists');
});

test('letters that become ASCII in lower case are refused', async () => {
  for (const email of ['\u212aate@example.com', 'v\u0130ctor@example.com'])
    expect((await post('/signup', { email, password })).json).toMatchObject({
      code: 400,
      error_code: 'validation_failed',
    });
});

test('an address that an earlier version stored is rewritten once', async () => {
  const id = await userWith('free@example.com');
  await world.query(sql`update auth.users set email = 'free@xn--mller-kva.example' where id = ${id}`);
  await world.query(sql`
    update auth.identities set identity_data = identity_data || '{"email":"free@xn--mller-kva.example"}'
    where user_id = ${id}`);
  const context = anAuthContext(world);
  expect(await rewriteAddresses(context)).toEqual({ rewritten: 1, pairs: 0 });
  expect(await rewriteAddresses(context)).toEqual({ rewritten: 0, pairs: 0 });
  const { json } = await signIn('free@xn--mller-kva.example');
  expect(json.user).toMatchObject({ id, email: 'free@müller.example' });
  expect(json.user.identities[0].email).toBe('free@müller.example');
});

test('two existing accounts of one mailbox remain, and each signs in with its spelling', async () => {
  const first = await userWith('twin@müller.example');
  const second = await userWith('twin@example.com');
  await world.query(sql`update auth.users set email = 'twin@xn--mller-kva.example' where id = ${second}`);
  expect(await rewriteAddresses(anAuthContext(world))).toEqual({ rewritten: 0, pairs: 1 });
  expect((await signIn('twin@müller.example')).json.user.id).toBe(first);
  expect((await signIn('twin@xn--mller-kva.example')).json.user.id).toBe(second);
  await post('/recover', { email: 'twin@xn--mller-kva.example' });
  const { code } = mailSecrets((await world.mails('twin@müller.example'))[0]!);
  const body = { type: 'recovery', email: 'twin@xn--mller-kva.example', token: code };
  expect((await post('/verify', body)).json.user.id).toBe(second);
  expect(await duplicateMailboxes(world.owner)).toEqual([
    'twin@xn--mller-kva.example and twin@müller.example',
  ]);
  expect((await post('/signup', { email: 'twin@xn--mller-kva.example', password })).json.error_code).toBe(
    'user_already_exists',
  );
});
