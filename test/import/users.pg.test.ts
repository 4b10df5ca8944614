// Users of a Supabase project sign in with their existing password, second factor or open session.
import { createCipheriv, createHash, createHmac, hkdfSync, randomBytes, scryptSync } from 'node:crypto';
import { hash as bcrypt } from '@node-rs/bcrypt';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { TOTP } from 'otpauth';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openBoxes } from '../../src/auth/auth-context.ts';
import { Keyring } from '../../src/identity/keyring.ts';
import { copy } from '../../src/import/copy.ts';
import { readSourceKeys, type SourceKeys } from '../../src/import/encrypted-value.ts';
import { skippedFactors, readFactors, usersWithoutTheirFactor } from '../../src/import/factors.ts';
import { readSource } from '../../src/import/source.ts';
import type { Changes } from '../../src/import/write-users.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';
import { raw } from '../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { provisionAt } from '../support/provision.ts';
import { addUser, createTypicalProject, IDS, TOTP_SECRET, type SupabaseProject } from './supabase-project.ts';

const SESSION = '11111111-0000-4000-8000-000000000001';
const OLD_SESSION = '11111111-0000-4000-8000-000000000002';
const FACTOR = '22222222-0000-4000-8000-000000000001';
const SEALED_FACTOR = '22222222-0000-4000-8000-000000000002';
const id = (last: string): string => `00000000-0000-4000-8000-0000000000${last}`;
const KEY = randomBytes(32);
const SOURCE_KEYS = `first:${KEY.toString('base64url')}`;
const SESSION_KEY = randomBytes(32);

let project: SupabaseProject;
let world: BackendWorld;
let first: readonly Changes[];

beforeAll(async () => {
  project = await createTypicalProject();
  await addUser(project, {
    id: id('f1'),
    email: 'fire@example.com',
    password: firebaseHash('fire-password'),
  });
  await addUser(project, {
    id: id('e1'),
    email: 'sealed@example.com',
    password: encrypted(await bcrypt('sealed-password', 4), id('e1')),
  });
  await addUser(project, {
    id: id('b1'),
    email: 'banned@example.com',
    password: await bcrypt('banned-password', 4),
    more: { banned_until: '2200-01-01T00:00:00Z' },
  });
  await addUser(project, {
    id: id('d1'),
    email: 'deleted@example.com',
    password: await bcrypt('deleted-password', 4),
    more: { deleted_at: '2026-02-01T00:00:00Z' },
  });
  await addUser(project, { id: id('a1'), email: 'sso@example.com', more: { is_sso_user: true } });
  await addUser(project, { id: id('a2'), more: { phone: '491234', raw_user_meta_data: { big: 0 } } });
  // Numbers that JavaScript cannot represent.
  await project.query(`update auth.users set raw_user_meta_data = '{"big": 12345678901234567890, "price": 1.10}'
    where id = '${id('a2')}'`);
  await project.query(`
    insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, created_at, updated_at, secret)
    values ('${FACTOR}', '${IDS.ann}', 'phone app', 'totp', 'verified', now(), now(), '${TOTP_SECRET}'),
      ('${SEALED_FACTOR}', '${id('e1')}', 'sealed app', 'totp', 'verified', now(), now(),
        '${encrypted(TOTP_SECRET, SEALED_FACTOR)}'),
      (gen_random_uuid(), '${id('f1')}', 'closed app', 'totp', 'verified', now(), now(),
        '${encrypted(TOTP_SECRET, SEALED_FACTOR).replace('first', 'other')}'),
      (gen_random_uuid(), '${id('f1')}', 'odd app', 'totp', 'verified', now(), now(), 'no base32!'),
      (gen_random_uuid(), '${IDS.ben}', 'half done', 'totp', 'unverified', now(), now(), '${TOTP_SECRET}');
    insert into auth.sessions (id, user_id, created_at, updated_at, aal, refreshed_at,
      refresh_token_hmac_key, refresh_token_counter)
    values ('${SESSION}', '${IDS.ben}', now(), now(), 'aal1', now() at time zone 'utc' - interval '1 minute',
      '${SESSION_KEY.toString('base64url')}', 300);
    insert into auth.sessions (id, user_id, created_at, updated_at)
      values ('${OLD_SESSION}', '${IDS.ben}', '2024-01-01', now());
    insert into auth.refresh_tokens (token, user_id, session_id, revoked, created_at, updated_at) values
      ('revoked00000', '${IDS.ben}', '${OLD_SESSION}', true, '2024-01-01', now()),
      ('current00000', '${IDS.ben}', '${OLD_SESSION}', false, now(), now());
    insert into auth.mfa_amr_claims values ('${SESSION}', now(), now(), 'password', gen_random_uuid()),
      ('${OLD_SESSION}', now(), now(), 'password', gen_random_uuid());`);
  world = await startBackendWorld('version: 1', { importPreview: true });
  // A trigger of the application. It must not fire for imported users.
  await world.owner.query(
    raw(`create table public.seen (id uuid);
    create function public.see() returns trigger language plpgsql security definer as
      $$ begin insert into public.seen values (new.id); return new; end $$;
    create trigger see after insert on auth.users for each row execute function public.see();`),
  );
  first = await run();
});
afterAll(async () => {
  await world?.close();
  await project?.drop();
});

async function run(keys: SourceKeys = readSourceKeys(SOURCE_KEYS, 'KEYS')): Promise<readonly Changes[]> {
  const { ownerUrl } = await provisionAt(world.databaseUrl);
  const keyring = await Keyring.open(world.owner, { current: world.keys.secret, previous: [] });
  return await copy({
    source: parseAddress(project.url),
    target: parseAddress(ownerUrl),
    secrets: { sourceKeys: keys, boxes: openBoxes(keyring) },
  });
}

function client(): SupabaseClient {
  return createClient(world.url, world.keys.publishable, {
    auth: { persistSession: false, autoRefreshToken: false },
  });
}

const signIn = async (email: string, password: string) =>
  await client().auth.signInWithPassword({ email, password });

const findChanges = (all: readonly Changes[], kind: string) => all.find((change) => change.kind === kind);

/** Firebase's scrypt: the signer key, encrypted with the scrypt hash of the password. */
function firebaseHash(password: string): string {
  const [salt, separator, signer] = [randomBytes(8), Buffer.from([7]), randomBytes(64)];
  const key = scryptSync(password, Buffer.concat([salt, separator]), 32, { N: 16, r: 8, p: 1 });
  const cipher = createCipheriv('aes-256-ctr', key, Buffer.alloc(16));
  const hash = Buffer.concat([cipher.update(signer), cipher.final()]);
  const [ss, sk, s, h] = [separator, signer, salt, hash].map((bytes) => bytes.toString('base64'));
  return `$fbscrypt$v=1,n=4,r=8,p=1,ss=${ss},sk=${sk}$${s}$${h}`;
}

/** Encrypts a value like the source's auth server with database encryption. */
function encrypted(text: string, rowId: string): string {
  const key = Buffer.from(hkdfSync('sha256', KEY, '', rowId, 32));
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', key, nonce);
  const data = Buffer.concat([cipher.update(text), cipher.final(), cipher.getAuthTag()]);
  return JSON.stringify({
    key_id: 'first',
    alg: 'aes-gcm-hkdf',
    data: data.toString('base64'),
    nonce: nonce.toString('base64'),
  });
}

/** Published format: version, session, counter as a varint, 16 bytes of HMAC, 4 bytes of checksum. */
function refreshToken(session: string, counter: number, key: Buffer): string {
  const varint = Buffer.from(counter < 128 ? [counter] : [(counter & 127) | 128, counter >> 7]);
  const covered = Buffer.concat([Buffer.from([0]), Buffer.from(session.replaceAll('-', ''), 'hex'), varint]);
  const signed = Buffer.concat([covered, createHmac('sha256', key).update(covered).digest().subarray(0, 16)]);
  return Buffer.concat([signed, createHash('sha256').update(signed).digest().subarray(0, 4)]).toString(
    'base64url',
  );
}

test('every hash format signs in', async () => {
  expect(findChanges(first, 'user')).toEqual({ kind: 'user', added: 9, changed: 0, removed: 0 });
  for (const name of ['ben', 'fire', 'sealed']) {
    const { data, error } = await signIn(`${name}@example.com`, `${name}-password`);
    expect(error).toBeNull();
    expect(data.user?.email).toBe(`${name}@example.com`);
  }
  expect((await signIn('ben@example.com', 'wrong-password')).error?.code).toBe('invalid_credentials');
});

test('users who were banned, deleted or without a password at the source cannot sign in', async () => {
  expect((await signIn('banned@example.com', 'banned-password')).error?.code).toBe('user_banned');
  expect((await signIn('deleted@example.com', 'deleted-password')).error?.code).toBe('invalid_credentials');
  expect((await signIn('sso@example.com', 'any-password')).error?.code).toBe('invalid_credentials');
});

async function signInWithCode(user: SupabaseClient, factorId: string, secret: string) {
  const code = new TOTP({ secret }).generate();
  const { error } = await user.auth.mfa.challengeAndVerify({ factorId, code });
  expect(error).toBeNull();
  const { data } = await user.auth.mfa.getAuthenticatorAssuranceLevel();
  return data?.currentLevel;
}

test.each([
  ['plain', 'ann', FACTOR],
  ['encrypted', 'sealed', SEALED_FACTOR],
])('codes of an authenticator app whose secret is %s are still accepted', async (_form, name, factor) => {
  const user = client();
  await user.auth.signInWithPassword({ email: `${name}@example.com`, password: `${name}-password` });
  expect(await signInWithCode(user, factor, TOTP_SECRET)).toBe('aal2');
  expect(findChanges(first, 'factor')?.added).toBe(2);
});

test('an app whose secret cannot be decrypted is reported; its user signs in and enrols again', async () => {
  const factors = await readSource(parseAddress(project.url), (source) =>
    readFactors(source, readSourceKeys(SOURCE_KEYS, 'KEYS')),
  );
  expect(
    skippedFactors(factors)
      .map(({ name, why }) => `${name}: ${why}`)
      .sort(),
  ).toEqual([
    'totp factor "closed app" of fire@example.com: no key of SVC_IMPORT_ENCRYPTION_KEYS opens it',
    'totp factor "odd app" of fire@example.com: its secret is in an unknown form',
  ]);
  expect(usersWithoutTheirFactor(factors)).toEqual([id('f1')]);
  const fire = client();
  await fire.auth.signInWithPassword({ email: 'fire@example.com', password: 'fire-password' });
  expect((await fire.auth.mfa.getAuthenticatorAssuranceLevel()).data?.nextLevel).toBe('aal1');
  const { data, error } = await fire.auth.mfa.enroll({ factorType: 'totp', friendlyName: 'closed app' });
  expect(error).toBeNull();
  expect(await signInWithCode(fire, data?.id ?? '', data?.totp?.secret ?? '')).toBe('aal2');
});

test('an open session of the source stays valid', async () => {
  const token = refreshToken(SESSION, 300, SESSION_KEY);
  const { data, error } = await client().auth.refreshSession({ refresh_token: token });
  expect(error).toBeNull();
  expect(data.user?.id).toBe(IDS.ben);
  expect(data.session?.refresh_token).toBe(refreshToken(SESSION, 301, SESSION_KEY));
  const forged = refreshToken(SESSION, 301, randomBytes(32));
  expect((await client().auth.refreshSession({ refresh_token: forged })).error).not.toBeNull();
});

test('a refresh token of the older form is exchanged once', async () => {
  const refresh = async (token: string) => await client().auth.refreshSession({ refresh_token: token });
  const read = raw(`select refreshed_at from auth.sessions where id = '${OLD_SESSION}'`);
  expect((await refresh('revoked00000')).error?.code).toBe('refresh_token_not_found');
  const [first, second] = await Promise.all([refresh('current00000'), refresh('current00000')]);
  expect(first.error).toBeNull();
  expect(first.data.user?.id).toBe(IDS.ben);
  expect(second.data.session?.refresh_token).toBe(first.data.session?.refresh_token);
  expect((await refresh(first.data.session!.refresh_token)).error).toBeNull();
  expect(await world.owner.query(raw(`select from auth.refresh_tokens where token like '%0000'`))).toEqual(
    [],
  );

  await world.owner.query(
    raw(`update auth.sessions set refreshed_at = now() - interval '11 seconds' where id = '${OLD_SESSION}'`),
  );
  expect((await refresh('current00000')).error?.code).toBe('refresh_token_already_used');
  expect(await world.owner.query(read)).toEqual([]);
});

test('values arrive exactly, and the trigger of the application does not fire', async () => {
  const [row] = await world.owner.query(
    raw(`select raw_user_meta_data::text as metadata, raw_app_meta_data, email, phone, email_confirmed_at
      from auth.users where id = '${id('a2')}'`),
  );
  expect(row).toEqual({
    metadata: '{"big": 12345678901234567890, "price": 1.10}',
    raw_app_meta_data: { provider: 'email', providers: ['email'] },
    email: null,
    phone: '491234',
    email_confirmed_at: null,
  });
  const [ann] = await world.owner.query(
    raw(`select email_confirmed_at = '2026-01-02T03:04:05.678901Z' as exact, raw_user_meta_data from auth.users
      where id = '${IDS.ann}'`),
  );
  expect(ann).toEqual({ exact: true, raw_user_meta_data: {} });
  expect(await world.owner.query(raw('select * from public.seen'))).toEqual([]);
  await client().auth.signUp({ email: 'new@example.com', password: 'new-password' });
  expect(await world.owner.query(raw('select * from public.seen'))).toHaveLength(1);
  await world.owner.query(raw(`delete from auth.users where email = 'new@example.com'`));
});

test('a second run writes nothing; changes and deletions at the source are copied', async () => {
  const version = raw(`select id, xmin::text from auth.users order by id`);
  const before = await world.owner.query(version);
  const again = await run();
  expect(again.every(({ added, changed, removed }) => added + changed + removed === 0)).toBe(true);
  expect(await world.owner.query(version)).toEqual(before);

  // The user has signed in at the target, so the hash differs. A change of the name must not restore the old hash.
  const hashOf = raw(`select encrypted_password from auth.users where id = '${id('f1')}'`);
  const [rehashed] = await world.owner.query<{ encrypted_password: string }>(hashOf);
  expect(rehashed?.encrypted_password).toMatch(/^\$argon2id\$/);
  await project.query(`
    update auth.users set raw_user_meta_data = '{"name": "Fire"}' where id = '${id('f1')}';
    delete from auth.users where id = '${id('b1')}';
    update auth.users set email = 'banned@example.com' where id = '${IDS.ben}'`);
  const changes = await run();
  expect(findChanges(changes, 'user')).toEqual({ kind: 'user', added: 0, changed: 2, removed: 1 });
  expect(findChanges(changes, 'password')).toEqual({ kind: 'password', added: 0, changed: 0, removed: 1 });
  expect(await world.owner.query(hashOf)).toEqual([rehashed]);
  expect((await signIn('fire@example.com', 'fire-password')).data.user?.user_metadata).toMatchObject({
    name: 'Fire',
  });
  expect((await signIn('banned@example.com', 'ben-password')).data.user?.id).toBe(IDS.ben);
});

test('users who swapped their addresses at the source have swapped them at the target', async () => {
  const [first, second] = [id('f1'), IDS.ann];
  await project.query(`
    update auth.users set email = null where id = '${first}';
    update auth.users set email = 'fire@example.com' where id = '${second}';
    update auth.users set email = 'ann@example.com' where id = '${first}'`);
  expect(findChanges(await run(), 'user')).toEqual({ kind: 'user', added: 0, changed: 2, removed: 0 });
  const emails = raw(`select id, email from auth.users where id in ('${first}', '${second}') order by email`);
  expect(await world.owner.query(emails)).toEqual([
    { id: first, email: 'ann@example.com' },
    { id: second, email: 'fire@example.com' },
  ]);
});

test('without the key an encrypted password is skipped, and the user is still found', async () => {
  const changes = await run(new Map());
  expect(findChanges(changes, 'password')).toEqual({ kind: 'password', added: 0, changed: 0, removed: 1 });
  expect((await signIn('sealed@example.com', 'sealed-password')).error?.code).toBe('invalid_credentials');
  expect(findChanges(changes, 'user')).toEqual({ kind: 'user', added: 0, changed: 0, removed: 0 });
});

test('a database that already has users is not a valid target', async () => {
  const second = await startBackendWorld('version: 1');
  const { ownerUrl } = await provisionAt(second.databaseUrl);
  await second.owner.query(raw(`insert into auth.users (email) values ('own@example.com')`));
  const keyring = await Keyring.open(second.owner, { current: second.keys.secret, previous: [] });
  const copied = copy({
    source: parseAddress(project.url),
    target: parseAddress(ownerUrl),
    secrets: { sourceKeys: new Map(), boxes: openBoxes(keyring) },
  });
  await expect(copied).rejects.toThrow('The target has users already');
  expect(await second.owner.query(raw('select * from svc_meta.import'))).toEqual([]);
  await second.close();
});
