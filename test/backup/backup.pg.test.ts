// `svc backup` of an app in use, and `svc restore` on another server: all data is restored, byte by byte.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { canDump } from './can-dump.ts';
import { startFreshCluster } from '../support/peers/fresh-cluster.ts';
import { LAUNCHER, NODE, runSvc, startSvc, type SvcProcess } from '../support/svc-process.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const YAML = `version: 1
project: { name: kept }
sql: app.sql
expose: { relations: [mine] }
migrations: { steps: [{ name: first-shelf, sql: "insert into shelves (name) values ('of the step')",
      after: expand, on_empty: run }] }
views: { totals: { query: "select count(*) as notes from notes", materialized: true } }
tables:
  shelves:
    fields:
      - { name: id, type: bigint, identity: always, primary_key: true }
      - { name: name, type: text, required: true }
      - { name: loud, type: text, generated: { sql: upper(name) } }
      - { name: best, type: bigint, foreign_key: { references: books.id } }
    rls: false
  books:
    fields:
      - { name: id, type: bigint, identity: by_default, primary_key: true }
      - { name: shelf, type: bigint, foreign_key: { references: shelves.id } }
      - { name: state, type: text }
    rls: false
  readings:
    fields:
      - { name: at, type: timestamptz, primary_key: true }
    partition_by: { range: [at] }
    partitions: { every: 1 month }
    rls: false
  seen:
    unlogged: true
    fields: [{ name: id, type: bigint, primary_key: true }]
    rls: false
  places:
    fields:
      - { name: id, type: bigint, primary_key: true }
    partition_by: { hash: [id] }
    partitions: [{ name: places_0, values: 'with (modulus 2, remainder 0)' },
      { name: places_1, values: 'with (modulus 2, remainder 1)' }]
    rls: false
  notes:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: owner, type: uuid, default: { sql: auth.uid() } }
      - { name: text, type: text }
      - { name: file, type: text }
    rls: [{ operations: [select, insert, delete], check: owner = auth.uid() }]
storage:
  files: { rls: [{ operations: [select, insert, update, delete], check: auth.uid() is not null }] }
`;
const SQL = `
create view mine with (security_invoker = on) as select * from notes where owner = auth.uid();
create function stamp() returns trigger language plpgsql
  as $$ begin new.state := coalesce(new.state, '') || '+'; return new; end $$;
create trigger stamp before insert or update on books for each row execute function stamp();
`;

// The programs of PostgreSQL are those of the system, which match only runs on PostgreSQL 15.
const isPossible = await canDump();
const ENGINES = isPossible ? (['pg_dump', 'copy'] as const) : (['copy'] as const);

describe.each(ENGINES)('saved by %s', (engine) => {
  let here: string;
  let there: string;
  let target: string;
  let database: TestDatabase;
  let other: TestDatabase;
  let svc: SvcProcess;
  const spare: TestDatabase[] = [];

  const project = (): string => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-kept-app-'));
    writeFileSync(join(folder, 'svc.yaml'), YAML);
    writeFileSync(join(folder, 'app.sql'), SQL);
    return folder;
  };
  const serve = (folder: string, url: string): Promise<SvcProcess> =>
    startSvc({
      command: 'serve',
      config: join(folder, 'svc.yaml'),
      arguments: ['--migrate'],
      env: { ...KEYS, SVC_DATABASE_URL: url },
    });
  const run = (folder: string, url: string, args: readonly string[], env: Record<string, string> = {}) =>
    runSvc([...args, '--config', join(folder, 'svc.yaml')], {
      env: { ...KEYS, SVC_DATABASE_URL: url, ...env },
    });
  const backup = (...args: readonly string[]) =>
    run(here, database.url, ['backup', '--to', target, '--engine', engine, ...args]);
  const clientFor = (server: SvcProcess): SupabaseClient =>
    createClient(server.url, server.publishableKey, {
      auth: { persistSession: false, autoRefreshToken: false },
    });
  const fileBytes = (n: number): Buffer => Buffer.alloc(1000 + n * 7001, `file ${n} `);
  const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

  let app: SupabaseClient;

  beforeAll(async () => {
    [here, there] = [project(), project()];
    target = mkdtempSync(join(tmpdir(), 'svc-backups-'));
    [database, other] = [await createDatabase(), await createDatabase()];
    svc = await serve(here, database.url);
    app = clientFor(svc);
    await app.auth.signUp({ email: 'ann@example.com', password: 'correct horse battery' });
    // A session that has ended is saved too: its token is rejected after a restore.
    const ended = clientFor(svc);
    await ended.auth.signUp({ email: 'bob@example.com', password: 'correct horse battery' });
    expect((await ended.auth.signOut()).error).toBeNull();
    for (let n = 0; n < 20; n++) {
      expect((await app.storage.from('files').upload(`${n}.bin`, fileBytes(n))).error).toBeNull();
      expect((await app.from('notes').insert({ text: `note ${n}`, file: `${n}.bin` })).error).toBeNull();
    }
    expect((await app.from('books').insert({ id: 7, shelf: 1, state: 'read' })).error).toBeNull();
    // Two tables with foreign keys to each other.
    expect((await app.from('shelves').update({ best: 7 }).eq('id', 1)).error).toBeNull();
    expect((await run(here, database.url, ['refresh'])).code).toBe(0);
    // A partition of a past month, which no migration creates.
    const admin = new pg.Client(database.url);
    await admin.connect();
    await admin.query(`set role svc_owner; select svc_meta.make_partitions('readings', 'month', 1, 3, '2024-05-01');
      insert into readings values ('2024-05-10 12:00+00'), (now()); insert into places select generate_series(1, 20);
      insert into seen values (1)`);
    await admin.end();
  });
  afterAll(async () => {
    await svc?.stop();
    for (const item of [database, other, ...spare]) await item?.drop();
    for (const folder of [here, there, target]) rmSync(folder, { recursive: true, force: true });
  });

  test('saves while the app is used, and restores deleted data on another server', async () => {
    // Each write uploads the file before it inserts the row, and deletes the row before the file.
    const over = new AbortController();
    const use = async (): Promise<void> => {
      for (let n = 100; !over.signal.aborted; n++) {
        await app.storage.from('files').upload(`${n}.bin`, fileBytes(n % 9));
        await app.from('notes').insert({ text: `note ${n}`, file: `${n}.bin` });
        if (n % 2 === 0) continue;
        await app.from('notes').delete().eq('file', `${n}.bin`);
        await app.storage.from('files').remove([`${n}.bin`]);
      }
    };
    const using = use();
    const saved = await backup('--json');
    over.abort();
    await using;
    expect(saved.code, saved.output).toBe(0);

    await app.storage.from('files').remove(Array.from({ length: 20 }, (_, n) => `${n}.bin`));
    const admin = new pg.Client(database.url);
    await admin.connect();
    await admin.query('drop table notes cascade');
    await admin.end();

    const restored = await run(there, other.url, ['restore', target]);
    expect(restored.code, restored.output).toBe(0);
    expect(restored.output).toMatch(/Changes after .* are missing/);
    const elsewhere = await serve(there, other.url);
    try {
      const again = clientFor(elsewhere);
      const { error } = await again.auth.signInWithPassword({
        email: 'ann@example.com',
        password: 'correct horse battery',
      });
      expect(error).toBeNull();
      const { data: notes } = await again.from('mine').select('text, file').order('id').limit(1000);
      expect(notes?.slice(0, 20).map(({ text }) => text)).toEqual(
        Array.from({ length: 20 }, (_, n) => `note ${n}`),
      );
      // At every moment each row has its file.
      for (const { file } of notes ?? []) {
        const { data } = await again.storage.from('files').download(String(file));
        const n = Number.parseInt(String(file), 10);
        expect(data && sha256(new Uint8Array(await data.arrayBuffer()))).toBe(
          sha256(fileBytes(n < 100 ? n : n % 9)),
        );
      }
      expect((await again.from('notes').insert({ text: 'afterwards' })).error).toBeNull();
      expect((await again.from('books').select()).data).toEqual([{ id: 7, shelf: 1, state: 'read+' }]);
      expect((await again.from('shelves').select()).data).toEqual([
        { id: 1, name: 'of the step', loud: 'OF THE STEP', best: 7 },
      ]);
      expect((await again.from('shelves').insert({ name: 'next' }).select('id')).data).toEqual([{ id: 2 }]);
      const marks = new pg.Client(other.url);
      await marks.connect();
      const endedSessions = async (): Promise<unknown> =>
        (await marks.query('select count(*)::int as count from auth.ended_sessions')).rows;
      expect(await endedSessions()).toEqual([{ count: 1 }]);
      expect((await again.auth.signOut({ scope: 'local' })).error).toBeNull();
      expect(await endedSessions()).toEqual([{ count: 2 }]);
      const { rows: spread } = await marks.query(
        `select (select count(*)::int from readings_2024_05) as old, (select count(*)::int from readings) as all,
           (select count(*)::int from places) as places, (select count(*)::int from seen) as seen`,
      );
      expect(spread).toEqual([{ old: 1, all: 2, places: 20, seen: 1 }]);
      const { rows } = await marks.query<{ days: number }>(
        `select extract(day from sweep_from - restored_at)::int as days from svc_meta.restore`,
      );
      await marks.end();
      expect(rows).toEqual([{ days: 7 }]);
      const plan = await run(there, other.url, ['migrate', 'plan']);
      expect(plan.output).toContain('nothing to do');
    } finally {
      await elsewhere.stop();
    }
    expect((await run(here, database.url, ['migrate', 'apply'])).code).toBe(0);
  });

  test('a second backup copies only new files, and both are complete', async () => {
    expect((await backup()).code).toBe(0);
    await app.storage.from('files').upload('new.bin', fileBytes(3));
    const saved = await backup('--json');
    expect(JSON.parse(saved.output)).toMatchObject({ data: { copied: 1 } });
    const unchanged = await backup('--json');
    expect(JSON.parse(unchanged.output)).toMatchObject({ data: { copied: 0 } });
    const listed = await run(here, database.url, ['backup', 'list', '--to', target]);
    expect(listed.output.trim().split('\n')).toHaveLength(4);
    const verified = await run(here, database.url, ['backup', 'verify', '--to', target]);
    expect(verified.output).toContain('is complete');
    const rehearsed = await run(here, database.url, ['backup', 'verify', '--restore', '--to', target]);
    expect([rehearsed.code, rehearsed.output]).toEqual([
      0,
      expect.stringMatching(/complete, and was restored/),
    ]);
    const admin = new pg.Client(database.url);
    await admin.connect();
    const { rowCount } = await admin.query(`select from pg_database where datname like 'svc_verify_%'`);
    const { rows } = await admin.query<{ kept: number }>('select count(*)::int as kept from svc_meta.backup');
    await admin.end();
    expect([rowCount, rows[0]?.kept]).toEqual([0, 1]);
  });

  test('restores to a server without svc, without superuser rights, and again after a killed restore', async () => {
    const cluster = await startFreshCluster();
    const admin = new pg.Client(cluster.url);
    await admin.connect();
    await admin.query(`create role keeper login password 'of the keeper' createrole createdb bypassrls`);
    await admin.query('create database app owner keeper');
    const url = new URL(cluster.url);
    url.pathname = '/app';
    [url.username, url.password] = ['keeper', encodeURIComponent('of the keeper')];
    const home = project();
    try {
      // PostgreSQL 15 needs a superuser once to create the roles; the command prints the statements.
      const first = await run(home, url.href, ['restore', target, '--dry-run']);
      expect(first.code, first.output).toBe(0);
      const plain = await run(home, url.href, ['restore', target]);
      const [, statements] = /Run once as a superuser, then start again: (.*)/.exec(plain.output) ?? [];
      if (statements !== undefined) await admin.query(statements);
      else {
        expect(plain.code, plain.output).toBe(0);
        // Repeated for the restore that is killed.
        await admin.query('drop database app with (force)');
        await admin.query('create database app owner keeper');
        rmSync(join(home, '.svc'), { recursive: true });
      }
      const child = spawn(NODE, [LAUNCHER, 'restore', target, '--config', join(home, 'svc.yaml')], {
        env: { ...process.env, ...KEYS, SVC_DATABASE_URL: url.href },
        stdio: 'ignore',
      });
      // All checks are done before files are written.
      await expect.poll(() => existsSync(join(home, '.svc/storage')), { interval: 5 }).toBe(true);
      child.kill('SIGKILL');
      await once(child, 'exit');
      const restored = await run(home, url.href, ['restore', target]);
      expect(restored.code, restored.output).toBe(0);
      const elsewhere = await serve(home, url.href);
      const again = clientFor(elsewhere);
      await again.auth.signInWithPassword({ email: 'ann@example.com', password: 'correct horse battery' });
      const { data } = await again.storage.from('files').download('new.bin');
      expect(data && sha256(new Uint8Array(await data.arrayBuffer()))).toBe(sha256(fileBytes(3)));
      await elsewhere.stop();
    } finally {
      await admin.end();
      await cluster.stop();
      rmSync(home, { recursive: true, force: true });
    }
  });

  test('a killed backup leaves no complete backup, and deletions continue', async () => {
    const before = readdirSync(join(target, 'backups'));
    const child = spawn(
      NODE,
      [LAUNCHER, 'backup', '--to', target, '--engine', engine, '--config', join(here, 'svc.yaml')],
      {
        env: { ...process.env, ...KEYS, SVC_DATABASE_URL: database.url },
        stdio: 'ignore',
      },
    );
    await expect
      .poll(() => readdirSync(join(target, 'backups')).length, { interval: 5 })
      .toBe(before.length + 1);
    child.kill('SIGKILL');
    await once(child, 'exit');
    const listed = await run(here, database.url, ['backup', 'list', '--to', target]);
    expect(listed.output.trim().split('\n')).toHaveLength(4);
    const admin = new pg.Client(database.url);
    await admin.connect();
    const { rows } = await admin.query<{ left: number }>(
      `select coalesce(max(extract(epoch from expires_at - now()))::int, 0) as left from storage.deletion_hold`,
    );
    await admin.end();
    expect(rows[0]?.left).toBeLessThanOrEqual(600);
    expect((await backup()).code).toBe(0);
  });

  test('an invalid restore is rejected before anything is written', async () => {
    const full = await run(there, other.url, ['restore', target]);
    expect([full.code === 0, full.output]).toEqual([false, expect.stringMatching(/not empty/)]);
    const empty = await createDatabase();
    spare.push(empty);
    const wrong = await run(there, empty.url, ['restore', target], {
      SVC_SECRET_KEY: `${KEYS.SVC_SECRET_KEY}x`,
    });
    expect(wrong.output).toMatch(/another one than when the backup was made/);
    const dry = await run(there, empty.url, ['restore', target, '--dry-run']);
    expect([dry.code, dry.output]).toEqual([0, expect.stringMatching(/can be restored/)]);
    const [id = ''] = readdirSync(join(target, 'backups'));
    const part = engine === 'pg_dump' ? 'database.dump' : 'data/0001.copy.gz';
    const dump = join(target, 'backups', id, part);
    const bytes = readFileSync(dump);
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
    writeFileSync(dump, bytes);
    const damaged = await run(there, empty.url, ['restore', `${target}#${id}`]);
    expect(damaged.output).toContain(`${part} is not as it was written`);
    const nothing = await run(there, empty.url, ['restore', `${target}#never`]);
    expect(nothing.output).toMatch(/no backup never/);
    const client = new pg.Client(empty.url);
    await client.connect();
    const { rowCount } = await client.query(
      `select from pg_namespace where nspname in ('auth', 'storage', 'svc_meta')`,
    );
    await client.end();
    expect(rowCount).toBe(0);
  });

  test.runIf(engine === 'copy')(
    'undeclared objects end the backup, unless an option allows them',
    async () => {
      const admin = new pg.Client(database.url);
      await admin.connect();
      await admin.query('create table by_hand (id int)');
      try {
        const refused = await backup();
        expect([refused.code === 0, refused.output]).toEqual([
          false,
          expect.stringMatching(/table public\.by_hand/),
        ]);
        const gone = await backup('--allow-missing');
        expect([gone.code, gone.output]).toEqual([
          0,
          expect.stringMatching(/not saved without pg_dump: table public\.by_hand/),
        ]);
      } finally {
        await admin.query('drop table by_hand');
        await admin.end();
      }
    },
  );

  test('a file with missing bytes ends the backup, unless an option allows it', async () => {
    await app.storage.from('files').upload('lost.bin', fileBytes(2));
    const admin = new pg.Client(database.url);
    await admin.connect();
    const { rows } = await admin.query<{ version: string }>(
      `select version from storage.objects where name = 'lost.bin'`,
    );
    await admin.end();
    const version = rows[0]?.version ?? '';
    const store = join(here, '.svc/storage');
    const found = readdirSync(store, { recursive: true, encoding: 'utf8' }).find((item) =>
      item.endsWith(version),
    );
    rmSync(join(store, found ?? 'nothing'));
    const refused = await backup();
    expect([refused.code === 0, refused.output]).toEqual([false, expect.stringMatching(/files\/lost\.bin/)]);
    const gone = await backup('--skip-missing');
    expect([gone.code, gone.output]).toEqual([0, expect.stringMatching(/bytes missing: files\/lost\.bin/)]);
    expect(existsSync(join(target, 'backups'))).toBe(true);
  });
});

test('the development database is saved and restored in an empty folder', async () => {
  const [here, there, target] = ['here', 'there', 'backups'].map((name) =>
    mkdtempSync(join(tmpdir(), `svc-dev-${name}-`)),
  ) as [string, string, string];
  for (const folder of [here, there]) {
    writeFileSync(join(folder, 'svc.yaml'), YAML);
    writeFileSync(join(folder, 'app.sql'), SQL);
    writeFileSync(
      join(folder, '.env'),
      Object.entries(KEYS)
        .map(([name, value]) => `${name}=${value}\n`)
        .join(''),
    );
  }
  const dev = (folder: string): Promise<SvcProcess> =>
    startSvc({ command: 'dev', config: join(folder, 'svc.yaml') });
  const signIn = { email: 'ann@example.com', password: 'correct horse battery' };
  const clientFor = ({ url, publishableKey }: SvcProcess): SupabaseClient =>
    createClient(url, publishableKey, { auth: { persistSession: false, autoRefreshToken: false } });
  try {
    const first = await dev(here);
    const app = clientFor(first);
    await app.auth.signUp(signIn);
    await app.storage.from('files').upload('a.txt', 'of the laptop', { contentType: 'text/plain' });
    // Restores while the service runs.
    const saved = await runSvc(['backup', '--to', target, '--config', join(here, 'svc.yaml')], {});
    await first.stop();
    expect(saved.code, saved.output).toBe(0);
    const restored = await runSvc(['restore', target, '--config', join(there, 'svc.yaml')], {});
    expect(restored.code, restored.output).toBe(0);
    const second = await dev(there);
    const again = clientFor(second);
    expect((await again.auth.signInWithPassword(signIn)).error).toBeNull();
    const { data } = await again.storage.from('files').download('a.txt');
    expect(await data?.text()).toBe('of the laptop');
    await second.stop();
  } finally {
    for (const folder of [here, there, target]) rmSync(folder, { recursive: true, force: true });
  }
});

test.skipIf(isPossible)('without the programs the command reports which are needed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-no-dump-'));
  writeFileSync(join(folder, 'svc.yaml'), 'version: 1\n');
  const database = await createDatabase();
  const { code, output } = await runSvc(
    ['backup', '--engine', 'pg_dump', '--to', join(folder, 'backups'), '--config', join(folder, 'svc.yaml')],
    { env: { ...KEYS, SVC_DATABASE_URL: database.url } },
  );
  await database.drop();
  rmSync(folder, { recursive: true });
  expect(code).not.toBe(0);
  expect(output).toMatch(/Install the client programs of PostgreSQL \d+/);
});
