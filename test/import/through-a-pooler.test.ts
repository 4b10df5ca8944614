// The pooler that a hosted project shows first, in transaction mode, as the source: each command reads in one transaction, so
// that nothing of a session is asked of it.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { startPgBouncer, withoutPgBouncer, type PgBouncer } from '../support/peers/pgbouncer.ts';
import { runSvc } from '../support/svc-process.ts';
import { createTypicalProject, type SupabaseProject } from './supabase-project.ts';

const FILE = `
version: 1
tables:
  notes:
    fields: [{ name: id, type: bigint, primary_key: true }, { name: text, type: text }]
    rls: []
`;

describe.skipIf(withoutPgBouncer !== undefined)('a transaction pooler before the source', () => {
  let project: SupabaseProject;
  let pooler: PgBouncer;
  let world: BackendWorld;
  beforeAll(async () => {
    project = await createTypicalProject();
    await project.query(`create table public.notes (id bigint primary key, text text);
      insert into public.notes select n, 'note ' || n from generate_series(1, 5000) n`);
    pooler = await startPgBouncer({ mode: 'transaction', users: [project.url], poolSize: 2 });
    world = await startBackendWorld(FILE);
  });
  afterAll(async () => {
    await world?.close();
    await pooler?.stop();
    await project?.drop();
  });

  const svc = async (...args: string[]) =>
    await runSvc(['import', 'supabase', ...args], {
      env: {
        SVC_DATABASE_URL: world.databaseUrl,
        SVC_IMPORT_SOURCE_URL: pooler.through(project.url),
        SVC_SECRET_KEY: world.keys.secret,
        SVC_PUBLISHABLE_KEY: world.keys.publishable,
      },
    });

  test('report, copy, verify and cut-over', async () => {
    expect(await svc('report')).toMatchObject({ code: 0, output: expect.stringContaining('3 users') });
    const { code, output } = await svc('copy');
    expect(output).toContain('public.notes: 5000 added, 0 changed, 0 removed');
    expect(code).toBe(0);
    expect(await svc('verify')).toMatchObject({ code: 0, output: 'Both sides are equal.\n' });
    expect(await svc('cut-over', '--yes')).toMatchObject({ code: 0 });
  });
});
