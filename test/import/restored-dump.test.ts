// A dump of a project is restored by the commands of docs/from-supabase.md, and imported like the project itself.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { openBoxes } from '../../src/auth/auth-context.ts';
import { findTool } from '../../src/postgres/pg-tools.ts';
import { Keyring } from '../../src/identity/keyring.ts';
import { copy } from '../../src/import/copy.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';
import { raw } from '../../src/postgres/sql.ts';
import { canDump } from '../backup/can-dump.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { provisionAt } from '../support/provision.ts';
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
const RESTORE_BEGINS = 'psql "$SVC_DATABASE_URL" --set=ON_ERROR_STOP=1';
const [RESTORE = ''] = PAGE.slice(PAGE.indexOf(RESTORE_BEGINS)).split('```');
/** Roles belong to the whole server. */
const READER = `dump_reader_${process.pid}`;

describe.runIf(await canDump())('a dump', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-dump-'));
  let project: SupabaseProject;
  let world: BackendWorld;
  let restored: URL;
  /** Of a version that fits the server. */
  let tools: string;

  beforeAll(async () => {
    project = await createTypicalProject();
    await project.query('grant select on public.forgotten to anon');
    const { rows } = await project.query(
      `select current_setting('server_version_num')::int / 10000 as major`,
    );
    const { path } = await findTool('pg_dump', Number(rows[0]?.major), process.env);
    tools = dirname(path);
    world = await startBackendWorld(FILE);
    restored = new URL(project.url);
    restored.username = READER;
    restored.password = 'choose-one';
    restored.pathname = `/${inject('postgresRun')}_from_dump`;
  });
  afterAll(async () => {
    await world?.close();
    await onServer(`drop database if exists ${restored.pathname.slice(1)}`);
    await onServer(`drop role if exists ${READER}`);
    await project?.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function onServer(text: string, url = inject('postgresUrl')): Promise<unknown[]> {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(text)).rows;
    } finally {
      await client.end();
    }
  }

  function shell(script: string): string {
    const { status, stdout, stderr } = spawnSync('sh', ['-ec', script], {
      cwd: folder,
      encoding: 'utf8',
      env: {
        PATH: `${tools}:${process.env['PATH']}`,
        SVC_DATABASE_URL: inject('postgresUrl'),
        SVC_IMPORT_SOURCE_URL: project.url,
      },
    });
    expect(`${stdout}${stderr}`).not.toMatch(/error|warning/i);
    expect(status).toBe(0);
    return stdout;
  }

  test('is restored as the page says, by a role without more rights, and imported', async () => {
    expect(PAGE).toContain(DUMP);
    shell(DUMP);
    shell(
      RESTORE.replaceAll('dump_reader', READER)
        .replaceAll('from_dump', restored.pathname.slice(1))
        .replaceAll('127.0.0.1:5432', restored.host),
    );
    const facts = `select rolsuper as super, has_table_privilege('anon', 'public.forgotten', 'select') as granted
      from pg_roles where rolname = current_user`;
    expect(await onServer(facts, restored.href)).toEqual([{ super: false, granted: true }]);
    const { ownerUrl } = await provisionAt(world.databaseUrl);
    const keyring = await Keyring.open(world.owner, { current: world.keys.secret, previous: [] });
    const changes = await copy({
      source: parseAddress(restored.href),
      target: parseAddress(ownerUrl),
      secrets: { sourceKeys: new Map(), boxes: openBoxes(keyring) },
    });
    expect(changes).toContainEqual({ kind: 'user', added: 3, changed: 0, removed: 0 });
    expect(changes).toContainEqual({ kind: 'public.visits', added: 1000, changed: 0, removed: 0 });
    for (const query of [
      'select id, email from auth.users order by id',
      'select page, at::text from public.visits order by at',
    ])
      expect(await world.owner.query(raw(query))).toEqual((await project.query(query)).rows);
  });
});
