// `svc doctor`: each planted fault is reported with a repair, and no secret is printed.
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { LAUNCHER, NODE, runSvc } from '../support/svc-process.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};
const YAML = `version: 1
tables: { notes: { fields: [{ name: id, type: bigserial, primary_key: true }], rls: [] } }
storage: { files: { rls: [] } }
`;

type Finding = { id: string; level: 'ok' | 'warning' | 'error'; message: string; repair?: string };

describe('svc doctor', () => {
  let folder: string;
  let database: TestDatabase;
  const run = (args: readonly string[], env: Record<string, string>) =>
    runSvc([...args, '--config', join(folder, 'svc.yaml')], {
      env: { ...KEYS, SVC_DATABASE_URL: database.url, ...env },
    });
  const findings = async (env: Record<string, string> = {}): Promise<Map<string, Finding>> => {
    const { code, output } = await run(['doctor', '--json'], env);
    const { ok, data } = JSON.parse(output) as { ok: boolean; data: { findings: Finding[] } };
    expect(code).toBe(ok ? 0 : 1);
    return new Map(data.findings.map((finding) => [finding.id, finding]));
  };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'svc-doctor-test-'));
    database = await createDatabase();
    writeFileSync(join(folder, 'svc.yaml'), YAML);
    expect((await run(['migrate', 'apply'], {})).code).toBe(0);
  });
  beforeEach(() => {
    writeFileSync(join(folder, 'svc.yaml'), YAML);
    rmSync(join(folder, '.production.env'), { force: true });
  });
  afterAll(async () => {
    await database.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('finds nothing wrong where nothing is, and changes nothing', async () => {
    const admin = new pg.Client(database.url);
    await admin.connect();
    const written = async (): Promise<unknown> =>
      (
        await admin.query(
          `select (select count(*) from svc_meta.run) as runs, (select json_agg(s) from storage.settings s) as s`,
        )
      ).rows;
    const before = await written();
    const found = await findings();
    expect(await written()).toEqual(before);
    await admin.end();
    expect([...found.values()].filter(({ level }) => level === 'error')).toEqual([]);
    for (const id of ['file', 'keys', 'requests', 'migrations', 'storage'])
      expect(found.get(id), id).toMatchObject({ level: 'ok' });
  });

  test('prints one line per finding, with the remedy below', async () => {
    const { output } = await run(['doctor'], { SVC_SECRET_KEY: '' });
    expect(output).toMatch(/✗ keys +SVC_SECRET_KEY is not set\n +→ Create a pair with `svc keys`/);
    // A busy machine is far away.
    expect(output).toMatch(/[✓!] database +.*PostgreSQL \d+/);
    expect(output).toMatch(/1 error, \d+ warnings?/);
  });

  test('checks the database despite a mistake in the file', async () => {
    writeFileSync(join(folder, 'svc.yaml'), YAML.replace('primary_key', 'primary_kei'));
    const found = await findings();
    expect(found.get('file')).toMatchObject({
      level: 'error',
      message: expect.stringContaining('primary_kei'),
    });
    expect(found.get('requests')).toMatchObject({ level: 'ok' });
  });

  test('changes that are not applied yet', async () => {
    writeFileSync(
      join(folder, 'svc.yaml'),
      YAML.replace(
        'tables: {',
        'tables: { more: { fields: [{ name: id, type: bigserial, primary_key: true }], rls: [] },',
      ),
    );
    expect((await findings()).get('migrations')).toMatchObject({
      level: 'warning',
      repair: 'svc migrate apply',
    });
  });

  test('functions that write and are open to every role', async () => {
    expect((await findings()).get('public-functions')).toMatchObject({ level: 'ok' });
    const admin = new pg.Client(database.url);
    await admin.connect();
    try {
      await admin.query('grant execute on function lo_create(oid), lo_unlink(oid) to public');
      const found = (await findings()).get('public-functions');
      expect(found).toMatchObject({
        level: 'warning',
        message: 'every role may execute lo_create, lo_unlink',
      });
      await admin.query(found?.repair?.replace('as a superuser, once: ', '') ?? '');
      expect((await findings()).get('public-functions')).toMatchObject({ level: 'ok' });
    } finally {
      await admin.end();
    }
  });

  test('secrets that others can read', async () => {
    const file = join(folder, '.production.env');
    writeFileSync(file, 'A=1\n');
    chmodSync(file, 0o644);
    expect((await findings()).get('secret-files')).toMatchObject({
      level: 'warning',
      repair: 'chmod 600 .production.env',
    });
  });

  test('reports what git would commit; --fix changes only modes and .gitignore', async () => {
    const git = (...args: string[]): string => execFileSync('git', args, { cwd: folder, encoding: 'utf8' });
    const file = join(folder, '.production.env');
    const ignore = join(folder, '.gitignore');
    expect((await findings()).get('git')).toMatchObject({ level: 'ok', message: 'not in a git repository' });
    git('init', '--quiet');
    try {
      writeFileSync(ignore, 'node_modules');
      writeFileSync(file, 'A=1\n');
      chmodSync(file, 0o644);
      expect((await findings()).get('git')).toEqual({
        id: 'git',
        level: 'warning',
        message: 'git would commit .production.env, .svc/',
        repair: 'add .production.env, .svc/ to .gitignore',
      });
      expect(readFileSync(ignore, 'utf8')).toBe('node_modules');
      const { output } = await run(['doctor', '--fix', '--json'], {});
      const { data } = JSON.parse(output) as { data: { findings: Finding[] } };
      const of = (id: string): Finding | undefined => data.findings.find((finding) => finding.id === id);
      expect(of('git')).toMatchObject({
        level: 'ok',
        message: expect.stringContaining('repaired: git would commit'),
      });
      expect(of('secret-files')).toMatchObject({ level: 'ok', message: expect.stringContaining('repaired') });
      expect(readFileSync(ignore, 'utf8')).toBe('node_modules\n.production.env\n.svc/\n');
      expect(statSync(file).mode & 0o777).toBe(0o600);
      expect(git('status', '--porcelain').split('\n').filter(Boolean).sort()).toEqual([
        '?? .gitignore',
        '?? svc.yaml',
      ]);
    } finally {
      rmSync(join(folder, '.git'), { recursive: true });
      rmSync(ignore);
    }
  });

  test('reports changes outside of migrations', async () => {
    const admin = new pg.Client(database.url);
    await admin.connect();
    try {
      expect((await findings()).get('drift')).toMatchObject({ level: 'ok' });
      await admin.query(
        'alter table notes disable row level security; create policy open on notes using (true)',
      );
      expect((await findings()).get('drift')).toMatchObject({
        level: 'warning',
        message: '1 object was changed outside of migrations, 1 policy is in no file',
        repair: 'svc migrate drift lists them',
      });
    } finally {
      await admin.query('alter table notes enable row level security; drop policy open on notes');
      await admin.end();
    }
  });

  test('secrets in files are read, and a file that others can read is reported', async () => {
    const url = join(folder, 'database-url');
    const key = join(folder, 'secret-key');
    writeFileSync(url, `${database.url}\n`);
    writeFileSync(key, `${KEYS.SVC_SECRET_KEY}\n`, { mode: 0o600 });
    chmodSync(url, 0o644);
    const found = await findings({
      SVC_DATABASE_URL: '',
      SVC_SECRET_KEY: '',
      SVC_DATABASE_URL_FILE: url,
      SVC_SECRET_KEY_FILE: key,
    });
    for (const id of ['keys', 'requests']) expect(found.get(id), id).toMatchObject({ level: 'ok' });
    const mounted = found.get('mounted-secrets');
    expect(mounted).toMatchObject({
      level: 'warning',
      message: expect.stringContaining('SVC_DATABASE_URL_FILE'),
    });
    expect(mounted?.message).not.toContain('SVC_SECRET_KEY_FILE');
    const both = await run(['doctor'], { SVC_DATABASE_URL_FILE: url });
    expect(both).toMatchObject({ code: 78, output: expect.stringContaining('are both set') });
  });

  test('an unreachable database and a refused password are reported without secrets', async () => {
    const away = await findings({ SVC_DATABASE_URL: 'postgres://app:hunter-two@127.0.0.1:1/app' });
    expect(away.get('database')).toMatchObject({ level: 'error' });
    expect(JSON.stringify([...away.values()])).not.toContain('hunter-two');
  });

  test('a database that svc has never prepared is not changed', async () => {
    const fresh = await createDatabase();
    try {
      const found = await findings({ SVC_DATABASE_URL: fresh.url });
      expect(found.get('migrations')).toMatchObject({ level: 'warning', repair: 'svc serve --migrate' });
      const client = new pg.Client(fresh.url);
      await client.connect();
      const { rows } = await client.query(`select from pg_namespace where nspname = 'svc_meta'`);
      await client.end();
      expect(rows).toEqual([]);
    } finally {
      await fresh.drop();
    }
  });

  test('reports an unusable store, an unreachable mail server and a wrong base URL', async () => {
    writeFileSync(join(folder, 'taken'), '');
    writeFileSync(
      join(folder, 'svc.yaml'),
      `${YAML}providers:
  storage: { type: local, local: { path: ./taken/files } }
  email: { type: smtp, url: 'smtp://me:pass-word@127.0.0.1:1', default_from_email: 'a@example.com' }
`,
    );
    const found = await findings({ SVC_BASE_URL: 'http://127.0.0.1:1' });
    expect(found.get('storage')).toMatchObject({
      level: 'error',
      message: expect.stringContaining('cannot be used'),
    });
    expect(found.get('mail')).toMatchObject({ level: 'error', message: '127.0.0.1:1 cannot be reached' });
    expect(found.get('base-url')).toMatchObject({ level: 'warning' });
    expect(JSON.stringify([...found.values()])).not.toContain('pass-word');
  });

  test('a function whose file is missing', async () => {
    writeFileSync(
      join(folder, 'svc.yaml'),
      `${YAML}functions: { hello: { runtime: node, file: hello.js } }\n`,
    );
    const found = await findings();
    expect([found.get('file')?.level, found.get('functions')?.level]).toContain('error');
  });

  /** Facts about the process of svc, which must be set before its first line runs. */
  const where = (statement: string): Record<string, string> => ({
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(statement)}`,
  });

  test('which Node it is, little memory, a clock that differs from that of the database', async () => {
    const found = await findings(
      where(`process.constrainedMemory = () => 256 * 1024 ** 2;
        const now = Date.now; Date.now = () => now() - 60_000`),
    );
    expect(found.get('node')).toEqual({
      id: 'node',
      level: 'ok',
      message: expect.stringMatching(/^svc \d\S* on Node \d+\.\d+\.\d+, \w+ \w+$/),
    });
    expect(found.get('memory')).toMatchObject({
      level: 'warning',
      message: expect.stringMatching(/^256\S* ?M/),
      repair: expect.stringContaining('512 MB'),
    });
    expect(found.get('database')).toMatchObject({
      level: 'warning',
      message: expect.stringMatching(/its clock differs by \d\d s$/),
      repair: 'run a time service on both machines',
    });
  });

  test.skipIf(process.platform !== 'linux')('few open files', () => {
    const line = `ulimit -n 1024; exec '${NODE}' '${LAUNCHER}' doctor --json --config '${join(folder, 'svc.yaml')}'`;
    const output = execFileSync('sh', ['-c', line], {
      encoding: 'utf8',
      env: { ...process.env, ...KEYS, SVC_DATABASE_URL: database.url },
    });
    const { data } = JSON.parse(output) as { data: { findings: Finding[] } };
    expect(data.findings.find(({ id }) => id === 'open-files')).toMatchObject({
      level: 'warning',
      message: 'at most 1024 open files; each connection needs one',
      repair: expect.stringContaining('LimitNOFILE'),
    });
  });

  /** The administrator's sessions find this function before the one that PostgreSQL has under its name. */
  async function withFunction(definition: string, work: () => Promise<void>): Promise<void> {
    const admin = new pg.Client(database.url);
    await admin.connect();
    const set = `alter role current_user in database ${admin.escapeIdentifier(database.name)}`;
    try {
      await admin.query(`create schema planted; create function planted.${definition};
        ${set} set search_path = planted, pg_catalog, public`);
      await work();
    } finally {
      await admin.query(`${set} reset search_path; drop schema planted cascade`);
      await admin.end();
    }
  }

  test('a database on another machine, without TLS', async () => {
    await withFunction("inet_client_addr() returns inet return '192.0.2.1'::inet", async () => {
      expect((await findings()).get('database')).toMatchObject({
        level: 'warning',
        message: expect.stringMatching(/, without encryption$/),
        repair: expect.stringContaining('sslmode=require'),
      });
    });
  });

  test('reports indexes with another collation version', async () => {
    const admin = new pg.Client(database.url);
    await admin.connect();
    const record = (version: string | null): Promise<unknown> =>
      admin.query('update pg_database set datcollversion = $1 where datname = $2', [version, database.name]);
    const { rows } = await admin.query<{ version: string | null }>(
      'select datcollversion as version from pg_database where datname = $1',
      [database.name],
    );
    try {
      await record('0.1');
      // Not every locale that PostgreSQL was made with has versions.
      const actual = "pg_database_collation_actual_version(oid) returns text return '0.2'";
      await withFunction(actual, async () => {
        expect((await findings()).get('database')).toMatchObject({
          level: 'warning',
          message: expect.stringContaining('its collation version differs'),
          repair: expect.stringContaining('REFRESH COLLATION VERSION'),
        });
      });
    } finally {
      await record(rows[0]?.version ?? null);
      await admin.end();
    }
  });

  test('reports a missing file', async () => {
    rmSync(join(folder, 'svc.yaml'));
    expect((await findings()).get('file')).toMatchObject({ level: 'error' });
  });
});
