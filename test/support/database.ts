// A database for one test file, cloned from a template that is built once per run.
//
//   const template = await templateDatabase('provisioned', (url) => provision(url));
//   const database = await createDatabase({ template });
//   afterAll(() => database.drop());
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';
import { scaled } from './run/scaled.ts';

export type TestDatabase = {
  /** Superuser's connection string of this database. */
  readonly url: string;
  readonly name: string;
  drop(): Promise<void>;
};

/** Only `templateDatabase` creates one, so it is complete and has no connections. */
export type Template = { readonly name: string };

/** `server`: another than that of the run, by its superuser's connection string. */
export async function createDatabase(
  options: { template?: Template | undefined; server?: string | undefined } = {},
): Promise<TestDatabase> {
  const server = options.server ?? inject('postgresUrl');
  const name = `${inject('postgresRun')}_${randomBytes(5).toString('hex')}`;
  await onServer(server, (client) => create(client, name, options.template?.name ?? 'template0'));
  return {
    name,
    url: databaseUrl(server, name),
    drop: () => onServer(server, (client) => drop(client, name)),
  };
}

/** The template of this name, built by the first caller; callers in any process wait for it. */
export async function templateDatabase(
  name: string,
  build: (url: string) => Promise<void>,
): Promise<Template> {
  const server = inject('postgresUrl');
  const template = `${inject('postgresRun')}_template_${name}`;
  await onServer(server, async (client) => {
    await client.query(`select pg_advisory_lock(hashtextextended($1, 0))`, [template]);
    const { rowCount } = await client.query(`select from pg_database where datname = $1`, [template]);
    if (rowCount === 1) return;
    // Built under another name, so that a failed build is never used as the template.
    const draft = `${template}_draft`;
    await drop(client, draft);
    await create(client, draft, 'template0');
    await build(databaseUrl(server, draft));
    await closeToAll(client, draft);
    await client.query(
      `alter database ${pg.escapeIdentifier(draft)} rename to ${pg.escapeIdentifier(template)}`,
    );
  });
  return { name: template };
}

/** Cleans up after a run on a server that outlives it. */
export async function dropRunDatabases(server: string, run: string): Promise<void> {
  await onServer(server, async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      `select datname from pg_database where starts_with(datname, $1)`,
      [`${run}_`],
    );
    for (const { datname } of rows) await drop(client, datname);
  });
}

async function create(client: pg.Client, name: string, template: string): Promise<void> {
  // FILE_COPY is faster than WAL_LOG here: templates are small, and durability does not matter.
  await client.query(
    `create database ${pg.escapeIdentifier(name)} template ${pg.escapeIdentifier(template)} strategy file_copy`,
  );
}

/**
 * Time for a WAL sender of a killed process to end. It can wait for transactions of other databases, and `force` does
 * not end it.
 */
const SLOT_ENDS_WITHIN_MS = 30_000;

async function drop(client: pg.Client, name: string): Promise<void> {
  const deadline = performance.now() + scaled(SLOT_ENDS_WITHIN_MS);
  for (;;) {
    try {
      await client.query(`drop database if exists ${pg.escapeIdentifier(name)} with (force)`);
      return;
    } catch (error) {
      const isInUse = error instanceof pg.DatabaseError && error.code === '55006';
      if (!isInUse || performance.now() > deadline) throw error;
      await client.query(
        `select pg_terminate_backend(active_pid) from pg_replication_slots where database = $1`,
        [name],
      );
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** A template with open connections cannot be cloned, and the builder's may still be closing. */
async function closeToAll(client: pg.Client, name: string): Promise<void> {
  await client.query(`alter database ${pg.escapeIdentifier(name)} with allow_connections false`);
  await client.query(`select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1`, [
    name,
  ]);
}

async function onServer<T>(server: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: server });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

function databaseUrl(server: string, database: string): string {
  const url = new URL(server);
  url.pathname = `/${database}`;
  return url.href;
}
