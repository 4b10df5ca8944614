// Imports a Supabase project from one version of PostgreSQL into another, in both directions, by the command
// line.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { generateApiKeys } from '../../src/identity/api-key.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { startFreshCluster, type FreshCluster } from '../support/peers/fresh-cluster.ts';
import { runSvc, startSvc } from '../support/svc-process.ts';
import { createCommunity, PASSWORD, serveFiles, userId, type FileApi } from '../import/community-project.ts';
import { addUser, type SupabaseProject } from '../import/supabase-project.ts';
import { scaled } from '../support/run/scaled.ts';

/** The server of the run has another version only if SVC_TEST_POSTGRES is set, as in the projects of other versions. */
const given = process.env['SVC_TEST_POSTGRES'];
const reason =
  given === undefined
    ? 'SVC_TEST_POSTGRES is not set, so both sides would have the same version'
    : existsSync(given)
      ? undefined
      : 'the folder that SVC_TEST_POSTGRES names is not there';

let embedded: FreshCluster;
let api: FileApi;

beforeAll(async () => {
  if (reason !== undefined) return;
  embedded = await startFreshCluster({ binaries: 'embedded' });
  api = await serveFiles();
});
afterAll(async () => {
  api?.close();
  await embedded?.stop();
});

const DIRECTIONS = [
  ['the given version', 'the embedded one', () => [inject('postgresUrl'), embedded.url]],
  ['the embedded version', 'the given one', () => [embedded.url, inject('postgresUrl')]],
] as const;

describe.each(DIRECTIONS)('from %s to %s', (_from, _to, servers) => {
  test(
    'schema, users, rows and files arrive, are verified and are served',
    async (context) => {
      context.skip(reason !== undefined, reason);
      const [from, to] = servers();
      const directory = mkdtempSync(join(tmpdir(), 'svc-import-'));
      let project: SupabaseProject | undefined;
      let target: TestDatabase | undefined;
      try {
        project = await createCommunity(from);
        target = await createDatabase({ server: to });
        const version = async (url: string | undefined): Promise<number> => await readMajorVersion(url ?? '');
        expect(await version(project.url)).not.toBe(await version(target.url));
        const keys = generateApiKeys();
        const env = {
          SVC_DATABASE_URL: target.url,
          SVC_IMPORT_SOURCE_URL: project.url,
          SVC_IMPORT_API_KEY: api.key,
          SVC_SECRET_KEY: keys.secret,
          SVC_PUBLISHABLE_KEY: keys.publishable,
        };
        const svc = async (...args: string[]): Promise<string> => {
          const { code, output } = await runSvc(args, { cwd: directory, env: { ...process.env, ...env } });
          expect(output, args.join(' ')).not.toContain('  at ');
          expect(code === 0 ? '' : output, args.join(' ')).toBe('');
          return output;
        };
        await svc('import', 'supabase', 'prepare', '--out', 'svc.yaml');
        await svc('migrate', 'apply');
        expect(await svc('import', 'supabase', 'copy')).toContain('users: 24 added');
        expect(await svc('import', 'supabase', 'files', '--api', api.url)).toMatch(/files: \d\d copied/);
        expect(await svc('import', 'supabase', 'verify')).toBe('Both sides are equal.\n');
        // Both versions print and hash values alike. Otherwise everything would be copied again.
        expect(await svc('import', 'supabase', 'copy')).not.toMatch(/: [1-9]\d* added|[1-9]\d* changed/);
        await addUser(project, { id: userId(99), email: 'user99@example.com' });
        await project.query(
          `update public.posts set rating = 1.50, meta = '{"a": [1.0, null]}' where id = 5`,
        );
        const second = await svc('import', 'supabase', 'copy');
        expect(second).toContain('users: 1 added, 0 changed, 0 removed');
        expect(second).toContain('public.posts: 0 added, 1 changed, 0 removed');
        await svc('import', 'supabase', 'cut-over', '--yes');
        const served = await startSvc({ command: 'serve', config: join(directory, 'svc.yaml'), env });
        try {
          const client = createClient(served.url, keys.publishable, { auth: { persistSession: false } });
          const { error } = await client.auth.signInWithPassword({
            email: 'user5@example.com',
            password: PASSWORD,
          });
          expect(error).toBeNull();
          expect((await client.from('members').select('team_id,user_id')).data?.length).toBeGreaterThan(0);
          expect((await client.storage.from('papers').download(`${userId(5)}/letter.txt`)).error).toBeNull();
          expect(
            (await client.storage.from('papers').download(`${userId(6)}/letter.txt`)).error,
          ).not.toBeNull();
          await client.auth.stopAutoRefresh();
        } finally {
          await served.stop();
        }
        expect(await svc('import', 'supabase', 'changes')).toContain(
          'auth.users: 0 inserted, 1 updated, 0 deleted',
        );
      } finally {
        await project?.drop();
        await target?.drop();
        rmSync(directory, { recursive: true, force: true });
      }
    },
    scaled(240_000),
  );
});

async function readMajorVersion(url: string): Promise<number> {
  const { Client } = (await import('pg')).default;
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(`select current_setting('server_version_num')::int / 10000 as major`);
  await client.end();
  return (rows[0] as { major: number }).major;
}
