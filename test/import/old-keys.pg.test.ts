// The publishable key of the source project stays valid for a limited time. Keys with more rights never do.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@supabase/supabase-js';
import { SignJWT } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { raw } from '../../src/postgres/sql.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { runSvc } from '../support/svc-process.ts';

const FILE = `
version: 1
tables:
  news:
    fields: [{ name: id, type: bigint, primary_key: true }, { name: secret, type: boolean }]
    rls: [{ operations: [select], using: "not secret" }]
auth: {}
storage: { pictures: { public: true } }
`;
const JWT_SECRET = 'the jwt secret of the former project, long enough';
const IN_TEN_YEARS = Math.floor(Date.now() / 1000) + 10 * 365 * 86_400;

let world: BackendWorld;
let directory: string;
let anonKey: string;

beforeAll(async () => {
  world = await startBackendWorld(FILE);
  directory = mkdtempSync(join(tmpdir(), 'svc-keys-'));
  anonKey = await oldKey('anon');
  await world.owner.query(raw('insert into public.news values (1, false), (2, true)'));
});
afterAll(async () => {
  await world?.close();
  if (directory) rmSync(directory, { recursive: true });
});

const oldKey = async (role: string): Promise<string> =>
  await new SignJWT({ iss: 'supabase', ref: 'abcdefghijklmnopqrst', role, exp: IN_TEN_YEARS })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .sign(Buffer.from(JWT_SECRET));

const svc = async (...args: string[]) =>
  await runSvc(['keys', ...args], {
    env: {
      SVC_DATABASE_URL: world.databaseUrl,
      SVC_SECRET_KEY: world.keys.secret,
      SVC_PUBLISHABLE_KEY: world.keys.publishable,
    },
  });

const fileWith = (text: string): string => {
  const path = join(directory, 'key.txt');
  writeFileSync(path, `${text}\n`);
  return path;
};

const readStatus = async (headers: Record<string, string>): Promise<number> =>
  (await fetch(`${world.url}/rest/v1/news`, { headers })).status;

const idIn = (output: string): string => /Alias (\w+)/.exec(output)?.[1] ?? '';

test('an old anon key has the rights of the publishable key until it expires, then it is rejected', async () => {
  expect(await readStatus({ apikey: anonKey })).toBe(401);
  const { code, output } = await svc('alias', 'add', '--key-file', fileWith(anonKey));
  expect(output).toMatch(/^Alias \w{12} is accepted as the publishable key until \d{4}-/);
  expect(code).toBe(0);
  expect(output).not.toContain(anonKey.slice(-20));
  await expect.poll(() => readStatus({ apikey: anonKey })).toBe(200);
  const client = createClient(world.url, anonKey, { auth: { persistSession: false } });
  expect((await client.from('news').select()).data).toEqual([{ id: 1, secret: false }]);
  const signedUp = await client.auth.signUp({ email: 'ann@example.com', password: 'ann-password' });
  expect(signedUp.error).toBeNull();
  expect((await client.from('news').select()).data).toHaveLength(1);
  expect((await client.storage.from('pictures').list()).error).toBeNull();
  expect((await client.auth.admin.listUsers()).error).not.toBeNull();
  await client.auth.stopAutoRefresh();
  expect((await svc('alias')).output).toMatch(/accepted until .*, last used on \d{4}-\d\d-\d\d\n$/);

  await world.owner.query(raw(`update svc_meta.key_alias set accept_until = now() + interval '1 second'`));
  await world.owner.query(raw(`select pg_notify('svc_signing_keys', '')`));
  // No notification arrives at the expiry: the instance checks the time.
  await expect.poll(() => readStatus({ apikey: anonKey })).toBe(401);
  expect(await readStatus({ apikey: anonKey, authorization: `Bearer ${anonKey}` })).toBe(401);
  expect((await svc('alias', 'list')).output).toMatch(/^\w{12}  ended /);
});

test('a publishable key of the newer form is an alias too, and removing it takes effect immediately', async () => {
  const key = 'sb_publishable_abcdefghijklmnopqrstu_vwxyz012';
  const { output } = await svc('alias', 'add', '--key-file', fileWith(key), '--days', '3');
  await expect.poll(() => readStatus({ apikey: key })).toBe(200);
  expect((await svc('alias', 'remove', idIn(output))).code).toBe(0);
  await expect.poll(() => readStatus({ apikey: key })).toBe(401);
  const again = await svc('alias', 'remove', idIn(output));
  expect(again.code).not.toBe(0);
  expect(again.output).toContain('There is no alias');
});

test('neither a key that bypasses policies nor an invalid key becomes an alias', async () => {
  const service = await oldKey('service_role');
  for (const key of [service, 'sb_secret_abcdefghijklmnopqrstuvwxyz']) {
    const { code, output } = await svc('alias', 'add', '--key-file', fileWith(key));
    expect(code).not.toBe(0);
    expect(output).toContain('This key bypasses policies');
    expect(output).not.toContain(key.slice(10));
    expect(await readStatus({ apikey: key })).toBe(401);
  }
  for (const key of [world.keys.publishable, 'hello', await oldKey('authenticated')]) {
    const { code, output } = await svc('alias', 'add', '--key-file', fileWith(key));
    expect(code).not.toBe(0);
    expect(output).toContain('Only the publishable key of a Supabase project can be an alias');
  }
  expect((await svc('alias', 'add', '--key-file', fileWith(anonKey), '--days', '0')).code).toBe(2);
});

test('with an imported JWT secret the old anon key is an alias, and service_role stays rejected', async () => {
  const secretFile = join(directory, 'secret.txt');
  writeFileSync(secretFile, JWT_SECRET);
  expect((await svc('import', '--secret-file', secretFile)).code).toBe(0);
  await svc('alias', 'add', '--key-file', fileWith(anonKey));
  const both = { apikey: anonKey, authorization: `Bearer ${anonKey}` };
  await expect.poll(() => readStatus(both)).toBe(200);
  const service = await oldKey('service_role');
  expect(await readStatus({ apikey: anonKey, authorization: `Bearer ${service}` })).toBe(401);
  expect(await readStatus({ apikey: service })).toBe(401);
});
