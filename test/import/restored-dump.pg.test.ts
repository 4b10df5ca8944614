// A dump of a project is restored next to the target, as in docs/from-supabase.md, and imported like the project
// itself.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { findTool } from '../../src/postgres/pg-tools.ts';
import { raw } from '../../src/postgres/sql.ts';
import { canDump } from '../backup/can-dump.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { runSvc } from '../support/svc-process.ts';
import { createTypicalProject, type SupabaseProject } from './supabase-project.ts';

const FILE = `
version: 1
tables:
  visits:
    fields: [{ name: page, type: text }, { name: at, type: timestamptz }]
    rls: []
`;
const PAGE = readFileSync(new URL('../../docs/from-supabase.md', import.meta.url), 'utf8');
const DUMP = 'pg_dump --format=custom --file=project.dump "$SVC_IMPORT_SOURCE_URL"';
const REPORT = 'svc import supabase report --from project.dump';
const FORGET = 'svc import supabase forget project.dump';
/** Roles belong to the whole server. */
const ADMINISTRATOR = `svc_test_dump_${process.pid}`;

describe.runIf(await canDump())('a dump', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-dump-'));
  let project: SupabaseProject;
  let world: BackendWorld;
  /** Version of the programs for this server. */
  let tools: string;

  beforeAll(async () => {
    project = await createTypicalProject();
    await project.query('grant select on public.forgotten to anon');
    const [row] = await onServer(`select current_setting('server_version_num')::int / 10000 as major`);
    const { path } = await findTool('pg_dump', Number(row?.['major']), process.env);
    tools = dirname(path);
    world = await startBackendWorld(FILE);
    shell(DUMP);
  });
  afterAll(async () => {
    await svc('forget', join(folder, 'project.dump'));
    await world?.close();
    await onServer(`drop role if exists ${ADMINISTRATOR}`);
    await project?.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function onServer(
    text: string,
    url = inject('postgresUrl'),
  ): Promise<Array<Record<string, unknown>>> {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(text)).rows;
    } finally {
      await client.end();
    }
  }

  function shell(script: string): void {
    const { status, stderr } = spawnSync('sh', ['-ec', script], {
      cwd: folder,
      encoding: 'utf8',
      env: { PATH: `${tools}:${process.env['PATH']}`, SVC_IMPORT_SOURCE_URL: project.url },
    });
    expect(status, stderr).toBe(0);
  }

  const svc = async (...args: string[]): Promise<{ code: number | null; output: string }> =>
    await as(world.databaseUrl, ...args);

  const as = async (url: string, ...args: string[]): Promise<{ code: number | null; output: string }> =>
    await runSvc(['import', 'supabase', ...args], {
      cwd: folder,
      env: {
        SVC_DATABASE_URL: url,
        SVC_SECRET_KEY: world.keys.secret,
        SVC_PUBLISHABLE_KEY: world.keys.publishable,
      },
    });

  const splitWords = (command: string): string[] => command.split(' ').slice(3);

  /** Returns databases and roles left by dumps. */
  const left = async (): Promise<unknown[]> =>
    await onServer(`select oid, datname as name from pg_database where datname like 'svc_dump_%'
      union all select 0, rolname from pg_roles where rolname like 'svc_dump_%' order by 1 desc`);

  test('is restored once, by a role without more rights, and imported', async () => {
    expect(PAGE).toContain(DUMP);
    expect(PAGE).toContain(REPORT);
    expect(PAGE).toContain(FORGET);
    const first = await svc(...splitWords(REPORT), '--json');
    expect(first.code, first.output).toBe(0);
    expect(first.output).toContain('"users"');
    const made = await left();
    expect(made).toHaveLength(2);
    const [{ name = '' } = {}] = made as Array<{ name?: string }>;
    expect(
      await onServer(
        `select rolsuper, rolcreaterole, rolcreatedb, rolbypassrls from pg_roles where rolname = '${name}'`,
      ),
    ).toEqual([{ rolsuper: false, rolcreaterole: false, rolcreatedb: false, rolbypassrls: false }]);
    const restored = new URL(inject('postgresUrl'));
    restored.pathname = `/${name}`;
    expect(
      await onServer(
        `select pg_get_userbyid(relowner) as owner, has_table_privilege('anon', oid, 'select') as granted
          from pg_class where relname = 'forgotten'`,
        restored.href,
      ),
    ).toEqual([{ owner: name, granted: true }]);
    expect(first.output).not.toContain('refused');
    const copied = await svc('copy', '--from', 'project.dump');
    expect(copied.code, copied.output).toBe(0);
    expect(copied.output).toContain('users: 3 added, 0 changed, 0 removed');
    expect(copied.output).toContain('public.visits: 1000 added, 0 changed, 0 removed');
    expect(await left()).toEqual(made);
    for (const query of [
      'select id, email from auth.users order by id',
      'select page, at::text from public.visits order by at',
    ])
      expect(await world.owner.query(raw(query))).toEqual((await project.query(query)).rows);
  });

  test('that was restored only partly is restored again', async () => {
    const [before] = (await left()) as Array<{ oid: number; name: string }>;
    await onServer(`comment on database ${before?.name} is null`);
    expect((await svc('report', '--from', 'project.dump')).code).toBe(0);
    const [after] = (await left()) as Array<{ oid: number; name: string }>;
    expect(after?.name).toBe(before?.name);
    expect(after?.oid).not.toBe(before?.oid);
  });

  test('with objects that the server rejects is restored without them, with a note', async () => {
    const role = `svc_test_gone_${process.pid}`;
    await project.query(`create role ${role}; grant select on public.visits to ${role}`);
    shell('pg_dump --format=custom --file=granted.dump "$SVC_IMPORT_SOURCE_URL"');
    await project.query(`drop owned by ${role}; drop role ${role}`);
    const { code, output } = await svc('report', '--from', 'granted.dump');
    expect(code, output).toBe(0);
    expect(output).toContain('note: the server rejected 1 statements of granted.dump.');
    expect(output).toContain(
      `GRANT SELECT ON TABLE public.visits TO ${role};\n    role "${role}" does not exist`,
    );
    expect(output).toContain('3 users');
    expect((await svc('report', '--from', 'granted.dump')).output).not.toContain('note: ');
    await svc('forget', 'granted.dump');
  });

  test('is forgotten, with its role', async () => {
    expect(await svc(...splitWords(FORGET))).toMatchObject({
      code: 0,
      output: expect.stringContaining('is deleted'),
    });
    expect(await left()).toEqual([]);
    expect(await svc(...splitWords(FORGET))).toMatchObject({
      code: 0,
      output: expect.stringContaining('no database'),
    });
  });

  test('is restored only with the rights to create databases and roles', async () => {
    await onServer(`create role ${ADMINISTRATOR} login createrole password 'secret-of-administrator'`);
    const url = new URL(world.databaseUrl);
    url.username = ADMINISTRATOR;
    url.password = 'secret-of-administrator';
    const refused = await as(url.href, 'report', '--from', 'project.dump');
    expect(refused.code).toBe(78);
    expect(refused.output).toContain(
      'A dump cannot be restored on this server: permission denied to create database',
    );
    expect(refused.output).toContain('createdb createrole');
    await onServer(`alter role ${ADMINISTRATOR} createdb`);
    // The findings about the target do not matter: that database belongs to another role.
    await as(url.href, 'report', '--from', 'project.dump');
    expect(await left()).toHaveLength(2);
    const { output } = await as(url.href, 'forget', 'project.dump');
    expect(output).toContain('is deleted');
    expect(output).not.toContain('secret-of-administrator');
    expect(await left()).toEqual([]);
  });

  test('without users, in plain SQL, or cut off is rejected, and leaves no database', async () => {
    shell(`pg_dump --format=custom --schema=public --file=public.dump "$SVC_IMPORT_SOURCE_URL"
      pg_dump --format=plain --file=plain.sql "$SVC_IMPORT_SOURCE_URL"
      pg_dump --format=directory --file=folder "$SVC_IMPORT_SOURCE_URL"
      head -c 20000 project.dump > short.dump`);
    const part = await svc('report', '--from', 'public.dump');
    expect(part.code).toBe(78);
    expect(part.output).toContain(
      'public.dump is not a dump of a whole Supabase project: it has no auth.users',
    );
    expect(part.output).toContain(DUMP);
    const plain = await svc('report', '--from', 'plain.sql');
    expect(plain.output).toContain('plain.sql is not a dump that pg_restore can read');
    const short = await svc('report', '--from', 'short.dump');
    expect(short.code).toBe(78);
    expect(short.output).toMatch(/short\.dump (?:could not be restored|is not a dump)/);
    expect((await left()).filter((item) => (item as { oid: number }).oid !== 0)).toEqual([]);
    for (const item of ['public.dump', 'short.dump']) await svc('forget', item);
    expect((await svc('report', '--from', 'folder')).code).toBe(0);
    await svc('forget', 'folder');
    expect(await left()).toEqual([]);
  });
});
