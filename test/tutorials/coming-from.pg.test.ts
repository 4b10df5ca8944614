// Migration pages of the docs: callers try their svc.yaml, and their scripts run on data in the format of the other
// product.
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { hash as bcrypt } from '@node-rs/bcrypt';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { SignJWT } from 'jose';
import pg from 'pg';
import { afterEach, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { readBlocks, ROOT } from '../support/documentation/blocks.ts';
import { NODE, runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

let folder: string;
let database: TestDatabase;
let svc: SvcProcess | undefined;

afterEach(async () => {
  await svc?.stop();
  svc = undefined;
  await database.drop();
  rmSync(folder, { recursive: true });
});

/** Creates a folder with the files of the page, and runs svc on the page's svc.yaml with this text in it. */
async function begin(page: string, part: string): Promise<void> {
  const blocks = readBlocks(page);
  folder = mkdtempSync(join(tmpdir(), 'svc-coming-'));
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const yaml = blocks.filter(({ language, code }) => language === 'yaml' && code.includes(part));
  expect(yaml).toHaveLength(1);
  writeFileSync(join(folder, 'svc.yaml'), yaml[0]?.code ?? '');
  for (const { file, code } of blocks) if (file !== undefined) writeFileSync(join(folder, file), code);
}

async function serve(): Promise<void> {
  svc = await startSvc({
    command: 'serve',
    config: join(folder, 'svc.yaml'),
    cwd: folder,
    arguments: ['--migrate'],
    env: { ...KEYS, SVC_DATABASE_URL: database.url },
  });
}

function put(path: string, content: string | Buffer): void {
  mkdirSync(join(folder, path, '..'), { recursive: true });
  writeFileSync(join(folder, path), content);
}

/** Returns the commands of the page that contain the part, with the addresses and keys of this run. */
function runCommands(page: string, part: string, values: Readonly<Record<string, string>> = {}): void {
  const blocks = readBlocks(page).filter(({ language, code }) => language === 'sh' && code.includes(part));
  expect(blocks).toHaveLength(1);
  const all = { 'http://localhost:8080': svc?.url ?? '', 'svc_secret_…': KEYS.SVC_SECRET_KEY, ...values };
  const code = Object.entries(all).reduce(
    (text, [shown, own]) => text.replaceAll(shown, own),
    blocks[0]?.code ?? '',
  );
  const path = `${dirname(NODE)}:${process.env['PATH']}`;
  const { status, stderr } = spawnSync('bash', ['-e', '-c', code], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, PATH: path },
  });
  expect(status, stderr).toBe(0);
}

/** Adds the part of the file that the page shows for it. */
async function seed(page: string): Promise<string> {
  const [whole, part] = readBlocks(page)
    .filter(({ language }) => language === 'yaml')
    .map(({ code }) => code);
  put('svc.yaml', `${whole}${part}`);
  const { code, output } = await runSvc(['seed', '--mode', 'production'], {
    cwd: folder,
    env: { ...KEYS, SVC_DATABASE_URL: database.url },
  });
  expect(code, output).toBe(0);
  return output;
}

function anon(headers: Readonly<Record<string, string>> = {}): SupabaseClient {
  return createClient(svc?.url ?? '', KEYS.SVC_PUBLISHABLE_KEY, {
    auth: { persistSession: false, autoRefreshToken: false },
    global: { headers },
  });
}

async function signIn(email: string, password: string): Promise<SupabaseClient> {
  const client = anon();
  expect((await client.auth.signInWithPassword({ email, password })).error).toBeNull();
  return client;
}

async function signUp(email: string): Promise<SupabaseClient> {
  const client = anon();
  expect((await client.auth.signUp({ email, password: 'correct horse battery' })).error).toBeNull();
  return client;
}

const readTexts = async (client: SupabaseClient): Promise<unknown[]> =>
  ((await client.from('notes').select('text').order('text')).data ?? []).map(({ text }) => text);

describe('from PocketBase', () => {
  test('users with their passwords, records and files are copied, and the rules apply', async () => {
    await begin('docs/from-pocketbase.md', 'public or owner');
    database = await createDatabase();
    const old = join(folder, 'pb_data');
    mkdirSync(old);
    const sqlite = new DatabaseSync(join(old, 'data.db'));
    sqlite.exec(`create table _collections (id text primary key, name text);
      insert into _collections values ('pbc_3395098727', 'notes');
      create table users (id text primary key, email text, verified boolean, password text, "tokenKey" text, name text);
      create table notes (id text primary key, owner text, text text, public boolean, picture text, created text)`);
    const user = sqlite.prepare('insert into users values (?, ?, ?, ?, ?, ?)');
    user.run('ann000000000001', 'ann@example.com', 1, await bcrypt('first password'), 'k1', 'Ann');
    user.run('ben000000000001', 'ben@example.com', 1, await bcrypt('other password'), 'k2', 'Ben');
    const note = sqlite.prepare('insert into notes values (?, ?, ?, ?, ?, ?)');
    note.run('note00000000001', 'ann000000000001', 'secret', 0, 'a_x1y2z3.png', '2026-01-02 03:04:05.678Z');
    note.run('note00000000002', 'ann000000000001', 'shown', 1, '', '2026-01-03 03:04:05.678Z');
    sqlite.close();
    put('pb_data/storage/pbc_3395098727/note00000000001/a_x1y2z3.png', PIXEL);
    await serve();
    runCommands('docs/from-pocketbase.md', 'from-pocketbase.mjs', { '../old/pb_data': 'pb_data' });
    await seed('docs/from-pocketbase.md');
    runCommands('docs/from-pocketbase.md', 'from-pocketbase.mjs', { '../old/pb_data': 'pb_data' });
    expect(await seed('docs/from-pocketbase.md')).toMatch(/nothing to do/);

    const [ann, ben] = [
      await signIn('ann@example.com', 'first password'),
      await signIn('ben@example.com', 'other password'),
    ];
    expect([await readTexts(ann), await readTexts(ben), await readTexts(anon())]).toEqual([
      ['secret', 'shown'],
      ['shown'],
      ['shown'],
    ]);
    const { data: secret } = await ann.from('notes').select().eq('text', 'secret').single();
    expect(new Date(secret.created).toISOString()).toBe('2026-01-02T03:04:05.678Z');
    const open = async (client: SupabaseClient): Promise<boolean> =>
      (await client.storage.from('pictures').download(secret.picture)).error === null;
    expect([await open(ann), await open(ben), await open(anon())]).toEqual([true, false, false]);

    // Callers that the rules exclude.
    const { data: me } = await ann.auth.getUser();
    expect((await ben.from('notes').insert({ text: 'x', owner: me.user?.id })).error?.code).toBe('42501');
    expect((await ben.from('notes').insert({ text: 'x', picture: secret.picture })).error?.code).toBe(
      '42501',
    );
    expect((await ben.from('notes').update({ text: 'x' }).eq('text', 'shown').select()).data).toEqual([]);
    expect((await ben.from('notes').delete().eq('text', 'shown').select()).data).toEqual([]);
    const upload = async (client: SupabaseClient): Promise<boolean> =>
      (
        await client.storage
          .from('pictures')
          .upload('note00000000002/b.png', PIXEL, { contentType: 'image/png' })
      ).error === null;
    expect([await upload(ben), await upload(anon()), await upload(ann)]).toEqual([false, false, true]);
  });
});

describe('from Firebase', () => {
  test('users with their passwords, documents and files are copied, and the rules apply', async () => {
    await begin('docs/from-firebase.md', 'shared or owner');
    database = await createDatabase();
    // User and parameters of Firebase's published scrypt example.
    const users = [
      {
        localId: 'Ann28CharactersOfLettersXyz1',
        email: 'ann@example.com',
        emailVerified: true,
        displayName: 'Ann',
        salt: '42xEC-ixf3L2lw==',
        passwordHash:
          'lSrfV15cpx95_sZS2W9c9Kp6i_LVgQNDNC_qzrCnh1SAyZvqmZqAjTdn3aoItz-VHjoZilo78198JAdRuid5lQ==',
        customAttributes: '{"plan":"pro"}',
      },
      { localId: 'Ben28CharactersOfLettersXyz1', email: 'ben@example.com', emailVerified: true },
      { localId: 'Phone8CharactersOfLettersXyz', phoneNumber: '+15550100' },
    ];
    put('users.json', JSON.stringify({ users }));
    const documents = [
      {
        id: 'n1',
        owner: users[0]?.localId,
        text: 'secret',
        tags: ['red'],
        created: '2026-01-02T03:04:05.678Z',
      },
      {
        id: 'n2',
        owner: users[0]?.localId,
        text: 'shown',
        shared: true,
        created: '2026-01-03T03:04:05.678Z',
      },
    ];
    put('documents/notes.ndjson', documents.map((document) => `${JSON.stringify(document)}\n`).join(''));
    put(`bucket/${users[0]?.localId}/a.txt`, 'a file');
    await serve();
    const signer = 'jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==';
    const values = { 'SIGNER_KEY=…': `SIGNER_KEY=${signer}` };
    runCommands('docs/from-firebase.md', 'node from-firebase.mjs', values);
    await seed('docs/from-firebase.md');
    runCommands('docs/from-firebase.md', 'node from-firebase.mjs', values);

    const ann = await signIn('ann@example.com', 'user1password');
    const eve = await signUp('eve@example.com');
    expect([await readTexts(ann), await readTexts(eve), await readTexts(anon())]).toEqual([
      ['secret', 'shown'],
      ['shown'],
      ['shown'],
    ]);
    expect((await ann.from('notes').select('text').contains('tags', ['red'])).data).toEqual([
      { text: 'secret' },
    ]);
    const { data: me } = await ann.auth.getUser();
    expect(me.user?.app_metadata).toMatchObject({ plan: 'pro' });
    const open = async (client: SupabaseClient): Promise<string | undefined> =>
      await (await client.storage.from('files').download(`${me.user?.id}/a.txt`)).data?.text();
    expect([await open(ann), await open(eve)]).toEqual(['a file', undefined]);
    expect((await eve.from('notes').insert({ text: 'x', owner: me.user?.id })).error?.code).toBe('42501');
    // A rule forbids changing the owner of a note.
    const { data: other } = await eve.auth.getUser();
    expect((await ann.from('notes').update({ owner: other.user?.id }).eq('id', 'n1')).error?.code).toBe(
      '42501',
    );
    expect((await anon().from('notes').insert({ text: 'x' })).error).not.toBeNull();
  });
});

describe('from PostgREST', () => {
  const SECRET = 'a secret of at least thirty-two characters';
  const ANN = randomUUID();

  /** Objects of a project with PostgREST. */
  async function prepare(): Promise<void> {
    database = await createDatabase();
    await query(`create extension if not exists pgcrypto;
      create schema api; create schema basic_auth;
      create table films (id bigint generated always as identity primary key, owner uuid not null, title text not null);
      create table api.directors (id int primary key, name text, salary int);
      insert into api.directors values (1, 'Varda', 100);
      create function films_of(owner_id uuid) returns setof films language sql stable
        as 'select * from films where owner = owner_id';
      create table basic_auth.users (id uuid primary key, email text, pass text, role text);
      insert into films (owner, title) values ('${ANN}', 'Vagabond');
      insert into basic_auth.users
        values ('${ANN}', 'ann@example.com', crypt('first password', gen_salt('bf')), 'editor')`);
  }

  async function query(text: string): Promise<void> {
    const client = new pg.Client(database.url);
    await client.connect();
    await client.query(text);
    await client.end();
  }

  test('an unchanged database is served with its grants, policies and tokens', async () => {
    await begin('docs/from-postgrest.md', 'expose:');
    await prepare();
    await serve();
    const [statements] = readBlocks('docs/from-postgrest.md').filter(({ language }) => language === 'sql');
    await query(statements?.code ?? '');
    put('jwt-secret.txt', SECRET);
    const imported = await runSvc(['keys', 'import', '--secret-file', 'jwt-secret.txt'], {
      cwd: folder,
      env: { ...KEYS, SVC_DATABASE_URL: database.url },
    });
    expect(imported.code, imported.output).toBe(0);

    const read = () => anon().schema('api').from('directors').select();
    await expect.poll(async () => (await read()).data).toEqual([{ id: 1, name: 'Varda' }]);
    const token = async (sub: string): Promise<SupabaseClient> => {
      const jwt = new SignJWT({ role: 'authenticated', sub }).setProtectedHeader({ alg: 'HS256' });
      const signed = await jwt.setExpirationTime('5m').sign(new TextEncoder().encode(SECRET));
      return anon({ authorization: `Bearer ${signed}` });
    };
    const [ann, eve] = [await token(ANN), await token(randomUUID())];
    await expect
      .poll(async () => (await ann.from('films').update({ title: 'Sans toit' }).eq('id', 1).select()).data)
      .toHaveLength(1);
    expect((await eve.from('films').update({ title: 'Mine' }).eq('id', 1).select()).data).toEqual([]);
    expect((await anon().from('films').select('title')).data).toEqual([{ title: 'Sans toit' }]);
    expect((await anon().rpc('films_of', { owner_id: ANN }).select('title')).data).toEqual([
      { title: 'Sans toit' },
    ]);
    expect((await anon().from('films').insert({ owner: ANN, title: 'x' })).error).not.toBeNull();
  });

  test('users move with ids and passwords, and the file declares the tables', async () => {
    await begin('docs/from-postgrest.md', '{ name: own');
    await prepare();
    await query('drop function films_of; drop table films');
    await serve();
    runCommands('docs/from-postgrest.md', 'node move-users.mjs', {
      // Both exist already.
      'npm install pg @supabase/supabase-js\n': '',
      'postgres://…': database.url,
    });
    const ann = await signIn('ann@example.com', 'first password');
    const { data: me } = await ann.auth.getUser();
    expect([me.user?.id, me.user?.app_metadata['app_role']]).toEqual([ANN, 'editor']);
    expect((await ann.from('films').insert({ title: 'Vagabond' })).error).toBeNull();
    const eve = await signUp('eve@example.com');
    expect((await eve.from('films').select('title')).data).toEqual([{ title: 'Vagabond' }]);
    expect((await eve.from('films').delete().eq('title', 'Vagabond').select()).data).toEqual([]);
    expect((await anon().from('films').insert({ title: 'x' })).error?.code).toBe('42501');
  });
});
