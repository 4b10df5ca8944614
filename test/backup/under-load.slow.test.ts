// Backups of an app under constant load, and killed backups: restored data is consistent.
import { spawn, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { rounds } from '../support/rounds.ts';
import { LAUNCHER, NODE, runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';
import { canDump } from './can-dump.ts';
import { scaled } from '../support/run/scaled.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const ACCOUNTS = 10;
const MONEY = 100;
const YAML = `version: 1
project: { name: busy }
tables:
  accounts:
    fields: [{ name: id, type: int, primary_key: true }, { name: balance, type: int, required: true }]
    rls: false
  notes:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: account, type: int, required: true, foreign_key: { references: accounts.id } }
      - { name: file, type: text, required: true }
    rls: false
rpc:
  pay:
    args: [{ name: payer, type: int }, { name: payee, type: int }]
    returns: { type: void }
    body: |
      begin
        update accounts set balance = balance - 1 where id = payer;
        update accounts set balance = balance + 1 where id = payee;
      end
storage:
  files: { rls: [{ operations: [select, insert, update, delete], check: "true" }] }
`;
const ENGINES = (await canDump()) ? (['pg_dump', 'copy'] as const) : (['copy'] as const);

let home: string;
let target: string;
let database: TestDatabase;
let svc: SvcProcess;
let app: SupabaseClient;

const env = (url: string) => ({ ...KEYS, SVC_DATABASE_URL: url });
const project = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-busy-'));
  writeFileSync(join(folder, 'svc.yaml'), YAML);
  return folder;
};
const run = (folder: string, url: string, ...args: readonly string[]) =>
  runSvc([...args, '--config', join(folder, 'svc.yaml')], { env: env(url) });
const query = async <R extends pg.QueryResultRow>(url: string, text: string): Promise<R[]> => {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query<R>(text)).rows;
  } finally {
    await client.end();
  }
};

beforeAll(async () => {
  home = project();
  target = mkdtempSync(join(tmpdir(), 'svc-busy-backups-'));
  database = await createDatabase();
  svc = await startSvc({
    command: 'serve',
    config: join(home, 'svc.yaml'),
    arguments: ['--migrate'],
    env: env(database.url),
  });
  app = createClient(svc.url, svc.publishableKey, { auth: { persistSession: false } });
  const accounts = Array.from({ length: ACCOUNTS }, (_, id) => ({ id, balance: MONEY }));
  expect((await app.from('accounts').insert(accounts)).error).toBeNull();
});
afterAll(async () => {
  await svc?.stop();
  await database?.drop();
  for (const folder of [home, target]) rmSync(folder, { recursive: true, force: true });
});

type Use = { readonly failed: unknown[]; requests: number; longestMs: number };

/** Uploads, replacements and deletions, payments, rows: a row is inserted after its file and deleted before it. */
function useApp(signal: AbortSignal): { readonly use: Use; readonly ended: Promise<unknown> } {
  const use: Use = { failed: [], requests: 0, longestMs: 0 };
  const ask = async (asked: PromiseLike<{ error: unknown }>): Promise<void> => {
    const startedAt = performance.now();
    const { error } = await asked;
    if (error !== null) use.failed.push(error);
    use.requests += 1;
    use.longestMs = Math.max(use.longestMs, performance.now() - startedAt);
  };
  const files = app.storage.from('files');
  const person = async (number: number): Promise<void> => {
    const own: string[] = [];
    for (let n = 0; !signal.aborted; n++) {
      const name = `${number}-${randomBytes(6).toString('hex')}.bin`;
      await ask(files.upload(name, randomBytes(1 + ((n * 7_919) % 90_000))));
      await ask(app.from('notes').insert({ account: n % ACCOUNTS, file: name }));
      own.push(name);
      await ask(app.rpc('pay', { payer: n % ACCOUNTS, payee: (n + number) % ACCOUNTS }));
      const [oldest = name] = own;
      await ask(files.upload(oldest, randomBytes(1 + (n % 5_000)), { upsert: true }));
      if (own.length <= 15) continue;
      own.shift();
      await ask(app.from('notes').delete().eq('file', oldest));
      await ask(files.remove([oldest]));
    }
  };
  return { use, ended: Promise.all([1, 2, 3].map(person)) };
}

/** Every invariant of the app holds for the restored data. */
async function expectConsistent(url: string, store: string): Promise<number> {
  const objects = await query<{ name: string; version: string; size: number; tag: string }>(
    url,
    `select name, version, (metadata ->> 'size')::int as size, metadata ->> 'eTag' as tag from storage.objects`,
  );
  const places = new Map(
    readdirSync(store, { recursive: true, encoding: 'utf8' }).map((path) => [path.split('/').at(-1), path]),
  );
  for (const { version, size, tag } of objects) {
    const bytes = readFileSync(join(store, places.get(version) ?? 'missing'));
    expect([bytes.length, `"${createHash('md5').update(bytes).digest('hex')}"`]).toEqual([size, tag]);
  }
  const names = new Set(objects.map(({ name }) => name));
  const notes = await query<{ file: string }>(url, 'select file from notes');
  expect(notes.filter(({ file }) => !names.has(file))).toEqual([]);
  const [{ money } = { money: 0 }] = await query<{ money: number }>(
    url,
    'select sum(balance)::int as money from accounts',
  );
  expect(money).toBe(ACCOUNTS * MONEY);
  return objects.length;
}

async function restoreElsewhere(): Promise<number> {
  const there = project();
  const otherDatabase = await createDatabase();
  try {
    const restored = await run(there, otherDatabase.url, 'restore', target);
    expect(restored.code, restored.output).toBe(0);
    return await expectConsistent(otherDatabase.url, join(there, '.svc/storage'));
  } finally {
    await otherDatabase.drop();
    rmSync(there, { recursive: true, force: true });
  }
}

test(
  'each backup of an app in use comes back whole, and no request fails because of one',
  { timeout: scaled(1_800_000) },
  async () => {
    const over = new AbortController();
    const { use, ended } = useApp(over.signal);
    let files = 0;
    const count = Number(process.env['SVC_TEST_BACKUPS'] ?? rounds(4, 10));
    for (let round = 0; round < count; round++) {
      const engine = ENGINES[round % ENGINES.length] ?? 'copy';
      const saved = await run(home, database.url, 'backup', '--to', target, '--engine', engine);
      expect(saved.code, saved.output).toBe(0);
      files += await restoreElsewhere();
    }
    over.abort();
    await ended;
    expect(use.failed).toEqual([]);
    expect(files).toBeGreaterThan(count);
    if (process.env['SVC_TEST_BACKUPS'] !== undefined)
      process.stdout.write(`${count} backups, ${JSON.stringify({ ...use, files })}\n`);
  },
);

const canMount = process.platform === 'linux' && process.getuid?.() === 0;
test.skipIf(!canMount)('a full disk leaves no backup, and deletions continue', async () => {
  const disk = mkdtempSync(join(tmpdir(), 'svc-busy-disk-'));
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', disk]).status !== 0) return;
  try {
    for (let n = 0; n < 15; n++)
      expect(
        (await app.storage.from('files').upload(`large-${n}.bin`, randomBytes(100_000))).error,
      ).toBeNull();
    const full = await run(home, database.url, 'backup', '--to', disk, '--engine', 'copy');
    expect([full.code === 0, full.output]).toEqual([false, expect.stringMatching(/no room left in/)]);
    const listed = await run(home, database.url, 'backup', 'list', '--to', disk);
    expect(listed.output).toContain('no complete backup');
    expect(readdirSync(join(disk, 'backups'))).toEqual([]);
    expect(await query(database.url, 'select from storage.deletion_hold')).toEqual([]);
  } finally {
    spawnSync('umount', [disk]);
    rmSync(disk, { recursive: true, force: true });
  }
});

/** Returns the observable progress of a backup. */
const STATIONS: ReadonlyArray<readonly [string, (names: readonly string[]) => boolean]> = [
  ['begun', (names) => names.length > 0],
  ['the database is being written', (names) => names.some((name) => /^data|^database/.test(name))],
  [
    'the database is written',
    (names) => names.some((name) => /^(?:schema\.json|database\.dump)$/.test(name)),
  ],
  ['the list of files is being written', (names) => names.some((name) => name.startsWith('blobs.jsonl'))],
  ['the list of files is written', (names) => names.includes('blobs.jsonl')],
  ['the configuration is written', (names) => names.includes('svc.yaml')],
  ['the manifest is being written', (names) => names.some((name) => name.startsWith('manifest.json'))],
  ['the manifest is written', (names) => names.includes('manifest.json')],
];

test.each(ENGINES)(
  'by %s, killed at each stage: listed backups and the next one are complete, and deletions continue',
  { timeout: scaled(300_000) },
  async (engine) => {
    const over = new AbortController();
    const { ended } = useApp(over.signal);
    const backups = join(target, 'backups');
    const foldersNow = (): string[] => (existsSync(backups) ? readdirSync(backups) : []);
    for (const [, isThere] of STATIONS) {
      const before = new Set(foldersNow());
      const child = spawn(
        NODE,
        [LAUNCHER, 'backup', '--to', target, '--engine', engine, '--config', join(home, 'svc.yaml')],
        { env: { ...process.env, ...env(database.url) }, stdio: 'ignore' },
      );
      const exited = once(child, 'exit');
      await expect
        .poll(
          () => {
            const folder = foldersNow().find((id) => !before.has(id));
            return folder !== undefined && isThere(readdirSync(join(backups, folder), { encoding: 'utf8' }));
          },
          { interval: 1 },
        )
        .toBe(true);
      child.kill('SIGKILL');
      await exited;
    }
    over.abort();
    await ended;
    for (const id of foldersNow().filter((id) => existsSync(join(backups, id, 'manifest.json')))) {
      const verified = await run(home, database.url, 'backup', 'verify', id, '--to', target);
      expect(verified.code, verified.output).toBe(0);
    }
    // An unrenewed hold expires by itself; here it has.
    await query(database.url, `update storage.deletion_hold set expires_at = now() - interval '1 second'`);
    await query(database.url, `update storage.blob_gc set queued_at = 'epoch', retry_at = 'epoch'`);
    await expect
      .poll(async () => await query(database.url, 'select from storage.blob_gc'), { interval: 500 })
      .toEqual([]);
    expect((await run(home, database.url, 'backup', '--to', target, '--engine', engine)).code).toBe(0);
    expect(await restoreElsewhere()).toBeGreaterThan(0);
  },
);
