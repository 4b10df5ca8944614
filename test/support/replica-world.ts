// A primary, a streaming replica of it, and instances of the backend that read from the replica.
import pg from 'pg';
import { loadConfig } from '../../src/config/load.ts';
import { generateApiKeys, type ApiKeys } from '../../src/identity/api-key.ts';
import type { Log } from '../../src/log/log.ts';
import { migrate } from '../../src/migrate/migrate.ts';
import { databaseAddresses } from '../../src/postgres/address/database-addresses.ts';
import { startBackend, type Backend } from '../../src/server/backend.ts';
import { startFreshCluster, type FreshCluster } from './peers/fresh-cluster.ts';
import { startStandby, type Standby } from './peers/standby.ts';
import { watchJobs } from './watch-jobs.ts';
import { scaled } from './run/scaled.ts';

export type InstanceOptions = {
  /** Keys of `database` in svc.yaml, in addition to the pool. */
  readonly database?: string;
  /** Replaces the address of the primary. */
  readonly through?: (url: string) => string;
  /** Replaces the address of the replica; null for none. */
  readonly readUrl?: string | null;
  readonly log?: Log;
};

export type Instance = { readonly url: string; readonly backend: Backend };

export type ReplicaWorld = {
  readonly primary: FreshCluster;
  readonly standby: Standby;
  readonly keys: ApiKeys;
  /** The superuser's address of the database that instances use. */
  readonly databaseUrl: string;
  /** The same on the standby. */
  readonly replicaUrl: string;
  /** Runs statements on the primary as the superuser. */
  query(text: string): Promise<Array<Record<string, string>>>;
  /** Waits until the standby has all that the primary has. */
  caughtUp(): Promise<void>;
  instance(options?: InstanceOptions): Promise<Instance>;
  stopInstances(): Promise<void>;
  close(): Promise<void>;
};

const DATABASE = 'replicated';

/** `tables`: of svc.yaml. */
export async function startReplicaWorld(tables: string): Promise<ReplicaWorld> {
  const primary = await startFreshCluster();
  const standby = await startStandby(primary.url);
  const databaseUrl = at(primary.url);
  await onServer(primary.url, `create database ${DATABASE}`);
  // Test servers do not wait for their disk, so data that was not flushed counts as unacknowledged.
  await onServer(primary.url, `alter database ${DATABASE} set synchronous_commit = on`);
  const keys = generateApiKeys();
  const jobs = watchJobs();
  const instances: Backend[] = [];
  const query = (text: string): Promise<Array<Record<string, string>>> => onServer(databaseUrl, text);
  const stopInstances = async (): Promise<void> => {
    await Promise.all(
      instances.splice(0).map(async (backend) => {
        const stopped = backend.stop();
        backend.skipDrainDelay();
        await stopped;
      }),
    );
  };
  return {
    primary,
    standby,
    keys,
    databaseUrl,
    replicaUrl: at(standby.url),
    query,
    async caughtUp() {
      const [row] = await query('select pg_current_wal_flush_lsn() as lsn');
      const deadline = Date.now() + scaled(60_000);
      for (;;) {
        const [now] = await standby.query(
          `select pg_last_wal_replay_lsn() >= '${row?.['lsn'] ?? ''}' as yes`,
        );
        if (String(now?.['yes']) === 'true') return;
        if (Date.now() > deadline) throw new Error('the standby does not catch up');
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    },
    async instance({
      database = '',
      through = (url) => url,
      readUrl = at(standby.url),
      log = jobs.log,
    }: InstanceOptions = {}) {
      const text = `version: 1
project: { name: replicas }
database: { pool: { max: 8, min: 1 }${database === '' ? '' : `, ${database}`} }
server: { timeouts: { db_query: 5s } }
${tables}`;
      const loaded = loadConfig({ name: 'svc.yaml', directory: '/tmp', text }, { variables: {} });
      if (!loaded.ok) throw new Error(loaded.mistakes.map((mistake) => mistake.message).join('\n'));
      const addresses = databaseAddresses({
        SVC_DATABASE_URL: through(databaseUrl),
        ...(readUrl === null ? {} : { SVC_DATABASE_READ_URL: readUrl }),
      });
      if (addresses === undefined) throw new Error('no address');
      const backend = await startBackend({
        config: loaded.config,
        database: addresses,
        keys,
        env: {},
        host: '127.0.0.1',
        port: 0,
        log,
        dev: false,
        migrate: async (owner, config) => {
          const outcome = await migrate({ owner, config, log });
          if (outcome.kind === 'refused')
            throw new Error(outcome.problems.map((problem) => problem.message).join('\n'));
        },
      });
      instances.push(backend);
      return { url: backend.url, backend };
    },
    stopInstances,
    async close() {
      await stopInstances();
      await standby.stop();
      await primary.stop();
    },
  };
}

function at(server: string): string {
  const url = new URL(server);
  url.pathname = `/${DATABASE}`;
  return url.href;
}

async function onServer(url: string, text: string): Promise<Array<Record<string, string>>> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query<Record<string, string>>(text)).rows;
  } finally {
    await client.end();
  }
}
