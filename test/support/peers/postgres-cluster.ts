// The PostgreSQL server of a test run: created in a temporary folder before the first test, removed after the last.
// SVC_TEST_DATABASE_URL names another server to use instead, SVC_TEST_POSTGRES other binaries.
import type { TestProject } from 'vitest/node';
import { dropRunDatabases } from '../database.ts';
import { startFreshCluster } from './fresh-cluster.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Superuser's connection string of the server of this test run. */
    postgresUrl: string;
    /** Distinguishes this run's databases from those of another run on the same server. */
    postgresRun: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const run = `t${process.pid.toString(36)}${Date.now().toString(36)}`;
  project.provide('postgresRun', run);
  const given = process.env['SVC_TEST_DATABASE_URL'];
  // `env` of a project is set in its workers only.
  const binaries = project.config.env?.['SVC_TEST_POSTGRES'] ?? process.env['SVC_TEST_POSTGRES'];
  if (given) {
    project.provide('postgresUrl', given);
    return () => dropRunDatabases(given, run);
  }
  const server = await startFreshCluster({ binaries });
  project.provide('postgresUrl', server.url);
  return () => server.stop();
}
