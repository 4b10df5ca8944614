// The one PostgreSQL of a test run: made in a temporary folder before the first test, gone after the last.
// SVC_TEST_DATABASE_URL names another server to use instead, to try the product on another version.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { startEmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.ts';
import { silentLog } from '../../src/log/log.ts';
import { dropRunDatabases } from './database.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Superuser's connection string of the server of this test run. */
    postgresUrl: string;
    /** Tells this run's databases from those of another run on the same server. */
    postgresRun: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const run = `t${process.pid.toString(36)}${Date.now().toString(36)}`;
  project.provide('postgresRun', run);
  const given = process.env['SVC_TEST_DATABASE_URL'];
  if (given) {
    project.provide('postgresUrl', given);
    return () => dropRunDatabases(given, run);
  }
  const folder = await mkdtemp(join(tmpdir(), 'svc-test-'));
  try {
    const server = await startEmbeddedPostgres({
      dir: join(folder, '.svc'),
      log: silentLog,
      durability: 'throwaway',
    });
    project.provide('postgresUrl', server.url);
    return async () => {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}
