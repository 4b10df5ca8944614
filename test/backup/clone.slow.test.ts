// `svc clone`: copies the data for development, without secrets and without personal data.
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { canDump } from './can-dump.ts';
import { runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const YAML = `version: 1
project: { name: cloned }
tables:
  customers:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: name, type: text }
      - { name: contact, type: text, unique: true }
      - { name: code, type: text }
    rls: [{ operations: [select], using: auth.uid() is not null }]
  notes:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: owner, type: uuid, default: { sql: auth.uid() }, foreign_key: { references: auth.users.id } }
      - { name: customer, type: bigint, foreign_key: { references: customers.id } }
      - { name: body, type: text }
    rls: [{ operations: [select, insert], check: owner = auth.uid() }]
storage:
  files: { public: true, rls: [{ operations: [select, insert], check: auth.uid() is not null }] }
  papers: { rls: [{ operations: [select, insert], check: auth.uid() is not null }] }
`;
const PASSWORD = 'correct horse battery';
const HIDING = [
  ['--keep-users', 'dev@*'],
  ['--mask', 'customers.name=text'],
  ['--mask', 'customers.contact=email'],
  ['--mask', 'customers.code=hash'],
  ['--mask', 'notes.body=null'],
].flat();

let database: TestDatabase;
let home: string;
let svc: SvcProcess;
let source: pg.Client;
const folders: string[] = [];
const spare: TestDatabase[] = [];

const project = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-cloned-'));
  // The database of svc dev runs as another user than root.
  chmodSync(folder, 0o755);
  writeFileSync(join(folder, 'svc.yaml'), YAML);
  folders.push(folder);
  return folder;
};
const clientFor = (server: SvcProcess): SupabaseClient =>
  createClient(server.url, server.publishableKey, {
    auth: { persistSession: false, autoRefreshToken: false },
  });
const clone = (folder: string, from: string, ...args: readonly string[]) =>
  runSvc(['clone', '--from', from, ...args, '--config', join(folder, 'svc.yaml')]);

beforeAll(async () => {
  database = await createDatabase();
  home = project();
  svc = await startSvc({
    command: 'serve',
    config: join(home, 'svc.yaml'),
    arguments: ['--migrate'],
    env: { ...KEYS, SVC_DATABASE_URL: database.url },
  });
  source = new pg.Client(database.url);
  await source.connect();
  await source.query(`insert into customers (name, contact, code) values
    ('Hildegard Winterstein', 'Hildegard@winterstein.example', 'K-77141'), ('Bo', 'bo@bo.example', 'K-77142')`);
  for (const email of ['ann@real-people.example', 'dev@our-team.example']) {
    const app = clientFor(svc);
    const { data } = await app.auth.signUp({
      email,
      password: PASSWORD,
      options: { data: { full_name: email.startsWith('ann') ? 'Annabella Realname' : 'Dev' } },
    });
    expect(data.session).not.toBeNull();
    expect((await app.from('notes').insert({ customer: 1, body: 'a very private remark' })).error).toBeNull();
    expect((await app.auth.mfa.enroll({ factorType: 'totp', friendlyName: 'phone' })).error).toBeNull();
    await app.storage.from('files').upload(`${email}.txt`, Buffer.from(`open to all ${email}`));
    await app.storage.from('papers').upload(`${email}.txt`, Buffer.from('for my eyes only'));
  }
  await source.query(`
    insert into auth.one_time_tokens (user_id, token_type, token_hash, code_hash, expires_at)
      select id, 'recovery_token', 'mailed-' || md5(email), 'typed-' || md5(email), now() + '1h' from auth.users;
    update auth.users set recovery_token = 'mailed-' || md5(email);
    insert into auth.mail_outbox (kind, recipient, subject, content, next_attempt_at)
      values ('recovery', 'ann@real-people.example', 'Reset', 'sealed words of a mail', now() + '1h')`);
});
afterAll(async () => {
  await source?.end();
  await svc?.stop();
  for (const one of [database, ...spare]) await one?.drop();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** Returns all secrets in the source as bytes. */
async function secrets(): Promise<Map<string, Buffer>> {
  const found = new Map<string, Buffer>();
  const add = async (name: string, query: string): Promise<void> => {
    const { rows } = await source.query<{ value: Buffer | string | null }>(query);
    for (const [at, { value }] of rows.entries())
      if (value !== null && value.length > 0) found.set(`${name} ${at}`, Buffer.from(value as string));
  };
  await add('keyring', 'select sealed_key as value from auth.keyring');
  await add('signing key', 'select private_jwk as value from auth.signing_keys');
  await add('session', 'select refresh_token_hmac_key as value from auth.sessions');
  await add('factor', 'select secret as value from auth.mfa_factors');
  await add('one-time token', 'select token_hash as value from auth.one_time_tokens');
  await add('user token', `select recovery_token as value from auth.users where recovery_token <> ''`);
  await add('password', `select encrypted_password as value from auth.users where email like 'ann@%'`);
  await add('mail', 'select content as value from auth.mail_outbox where content is not null');
  return found;
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());
}

function findIn(folder: string, wanted: ReadonlyMap<string, Buffer>): string[] {
  const found: string[] = [];
  for (const path of filesBelow(folder)) {
    const bytes = readFileSync(path);
    for (const [name, value] of wanted) if (bytes.includes(value)) found.push(`${name} in ${path}`);
  }
  return found;
}

test('a clone has the rows of its source, and no secret on any page of its disk', async () => {
  const wanted = await secrets();
  expect([...wanted.keys()].map((name) => name.replace(/ \d+$/, ''))).toEqual(
    expect.arrayContaining([
      'keyring',
      'signing key',
      'session',
      'factor',
      'one-time token',
      'user token',
      'password',
      'mail',
    ]),
  );
  for (const text of ['Winterstein', 'winterstein', 'K-77141', 'private remark', 'ann@real', 'Annabella'])
    wanted.set(text, Buffer.from(text));
  const folder = project();
  const cloned = await clone(folder, database.url, ...HIDING);
  expect(cloned.code, cloned.output).toBe(0);
  expect(cloned.output).not.toContain(new URL(database.url).password || 'never');
  expect(findIn(join(folder, '.svc'), wanted)).toEqual([]);

  const dev = await startSvc({ command: 'dev', config: join(folder, 'svc.yaml') });
  try {
    expect(dev.output()).toMatch(/data +clone of .*masked: .*notes\.body=null, users but dev@\*/);
    const app = clientFor(dev);
    const kept = await app.auth.signInWithPassword({ email: 'dev@our-team.example', password: PASSWORD });
    expect(kept.error).toBeNull();
    // A user with a second factor has none in the clone, because its secret is not copied.
    expect(kept.data.user?.factors ?? []).toEqual([]);
    const gone = await app.auth.signInWithPassword({ email: 'ann@real-people.example', password: PASSWORD });
    expect(gone.error?.code).toBe('invalid_credentials');
    await app.auth.signInWithPassword({ email: 'dev@our-team.example', password: PASSWORD });
    const { data: customers } = await app.from('customers').select().order('id');
    expect(customers).toEqual([
      {
        id: 1,
        name: 'xxxxxxxxx xxxxxxxxxxx',
        contact: expect.stringMatching(/^user-[0-9a-f]{16}@example\.invalid$/),
        code: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
      {
        id: 2,
        name: 'xx',
        contact: expect.stringMatching(/^user-/),
        code: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
    ]);
    expect((await app.from('notes').select('customer, body')).data).toEqual([{ customer: 1, body: null }]);
    expect((await app.from('notes').insert({ body: 'next' }).select('id')).data).toEqual([{ id: 3 }]);
  } finally {
    await dev.stop();
  }
});

test('a clone from a backup contains the chosen files, and the former database is kept once', async () => {
  const target = mkdtempSync(join(tmpdir(), 'svc-clone-of-'));
  folders.push(target);
  const env = { ...KEYS, SVC_DATABASE_URL: database.url };
  const engine = (await canDump()) ? 'pg_dump' : 'copy';
  const saved = await runSvc(
    ['backup', '--to', target, '--engine', engine, '--config', join(home, 'svc.yaml')],
    { env },
  );
  expect(saved.code, saved.output).toBe(0);
  const folder = project();
  const wanted = new Map([...(await secrets()), ['private file', Buffer.from('for my eyes only')] as const]);
  const first = await clone(folder, target, ...HIDING, '--public-blobs', '--json');
  expect(first.code, first.output).toBe(0);
  expect(JSON.parse(first.output.slice(first.output.indexOf('{')))).toMatchObject({
    ok: true,
    command: 'clone',
    data: { users: 2, files: 2, kept: null },
  });
  expect(findIn(join(folder, '.svc'), wanted)).toEqual([]);
  expect(readdirSync(join(folder, '.svc'))).not.toContain('clone');

  const dev = await startSvc({ command: 'dev', config: join(folder, 'svc.yaml') });
  try {
    const { data } = await clientFor(dev).storage.from('files').download('dev@our-team.example.txt');
    expect(await data?.text()).toBe('open to all dev@our-team.example');
    const running = await clone(folder, target, ...HIDING);
    expect([running.code, running.output]).toEqual([1, expect.stringMatching(/svc dev is running/)]);
  } finally {
    await dev.stop();
  }
  for (let round = 0; round < 2; round += 1) {
    const again = await clone(
      folder,
      target,
      ...HIDING,
      '--no-blobs',
      '--table',
      'notes=body is null',
      '--table',
      'auth.users=all',
    );
    expect([again.code, again.output]).toEqual([
      0,
      expect.stringMatching(/postgres\.before-clone until the next clone/),
    ]);
  }
  expect(
    readdirSync(join(folder, '.svc'))
      .filter((name) => name.startsWith('postgres.') && !name.endsWith('.log'))
      .sort(),
  ).toEqual(['postgres.before-clone', 'postgres.password']);
});

test('an invalid clone is rejected before anything changes', async () => {
  const folder = project();
  const refusals: ReadonlyArray<readonly [readonly string[], number, RegExp]> = [
    [[], 2, /nothing would be masked.*--unmasked/s],
    [['--mask', 'customers.name=reverse'], 2, /not understood.*null, hash, email, text/s],
    [['--mask', 'customers.nam=text'], 2, /no column public\.customers\.nam .*Did you mean name/s],
    [['--mask', 'custmers.name=text'], 2, /no table public\.custmers.*Did you mean public\.customers/s],
    [['--mask', 'customers.id=text'], 2, /bigint, which text does not mask/],
    [['--mask', 'customers.id=null'], 2, /must have a value/],
    [['--unmasked', '--table', 'customers=none'], 1, /refer to others that are not cloned.*notes/s],
    [['--unmasked', '--table', 'customers=nonsense'], 2, /nonsense/],
    [['--unmasked', '--to', 'elsewhere'], 2, /elsewhere is not a database/],
    [['--unmasked', '--to', database.url], 1, /not empty/],
  ];
  for (const [args, code, said] of refusals) {
    const refused = await clone(folder, database.url, ...args);
    expect([args, refused.code, refused.output]).toEqual([args, code, expect.stringMatching(said)]);
    expect(existsSync(join(folder, '.svc/postgres'))).toBe(false);
    expect(existsSync(join(folder, '.svc/clone'))).toBe(false);
  }
  const empty = await createDatabase();
  spare.push(empty);
  const none = await clone(folder, empty.url, '--unmasked');
  expect([none.code, none.output]).toEqual([1, expect.stringMatching(/is not a database of svc/)]);
  const into = await clone(folder, database.url, '--to', empty.url, ...HIDING);
  expect(into.code, into.output).toBe(0);
  const there = new pg.Client(empty.url);
  await there.connect();
  const { rows } = await there.query(
    'select (select count(*)::int from notes) as notes, (select count(*)::int from auth.sessions) as sessions',
  );
  await there.end();
  expect(rows).toEqual([{ notes: 2, sessions: 0 }]);
});
