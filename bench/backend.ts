// Starts a durable PostgreSQL and svc in separate processes, so that their costs can be measured separately.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../src/embedded-postgres/embedded-postgres.ts';
import { generateApiKeys, type ApiKeys } from '../src/identity/api-key.ts';
import { freePort } from '../src/lib/free-port.ts';
import { silentLog } from '../src/log/log.ts';

export type Server = {
  readonly url: string;
  readonly pid: number;
  readonly keys: ApiKeys;
  readonly databaseUrl: string;
  stop(): Promise<void>;
};

type ServerOptions = {
  /** Name of its database, which is kept when the server stops. */
  readonly name: string;
  readonly config: string;
  /** Directory of another checkout of svc. */
  readonly checkout?: string | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
};

export type Bench = {
  readonly postgres: EmbeddedPostgres;
  readonly startServer: (options: ServerOptions) => Promise<Server>;
};

/** A table in which users see and receive only their own rows. */
export const OWN_ENTRIES = `version: 1
project: { name: bench }
server: { timeouts: { shutdown: 1s } }
tables:
  entries:
    realtime: true
    rls:
      - { operations: [select], to: anon, using: owner = auth.uid() }
    fields:
      - { name: id, type: bigint, primary_key: true, identity: by_default }
      - { name: owner, type: uuid }
      - { name: text, type: text }
`;

const CHECKOUT = fileURLToPath(new URL('../', import.meta.url));
const START_TIMEOUT_MS = 60_000;

/** Stops all remaining processes when `work` ends. */
export async function withBench(work: (bench: Bench) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));
  const postgres = await startEmbeddedPostgres({
    dir: join(folder, '.svc'),
    log: silentLog,
    durability: 'durable',
  });
  const running = new Set<Server>();
  const keys = generateApiKeys();
  try {
    await work({
      postgres,
      startServer: async ({ name, config, checkout = CHECKOUT, env }) => {
        const databaseUrl = await createNamedDatabase(postgres.url, name);
        const file = join(folder, `${name}.yaml`);
        writeFileSync(file, config);
        const started = await serve({ checkout, file, databaseUrl, keys, env });
        const server: Server = {
          ...started,
          stop: async () => {
            running.delete(server);
            await started.stop();
          },
        };
        running.add(server);
        return server;
      },
    });
  } finally {
    await Promise.all([...running].map(async (server) => await server.stop()));
    await postgres.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

type Serve = {
  readonly checkout: string;
  readonly file: string;
  readonly databaseUrl: string;
  readonly keys: ApiKeys;
  readonly env?: Readonly<Record<string, string>> | undefined;
};

async function serve({ checkout, file, databaseUrl, keys, env }: Serve): Promise<Server> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const child = spawn(
    process.execPath,
    [join(checkout, 'bin/svc.js'), 'serve', '--migrate', '--config', file],
    {
      env: {
        ...process.env,
        SVC_DATABASE_URL: databaseUrl,
        SVC_PUBLISHABLE_KEY: keys.publishable,
        SVC_SECRET_KEY: keys.secret,
        SVC_PORT: String(port),
        SVC_PUBLIC_URL: url,
        ...env,
      },
      stdio: ['ignore', 'ignore', 'inherit'],
    },
  );
  const ended = once(child, 'exit');
  await until(
    async () => (await fetch(`${url}/ready`).catch(() => undefined))?.ok === true,
    START_TIMEOUT_MS,
  );
  return {
    url,
    pid: child.pid ?? 0,
    keys,
    databaseUrl,
    stop: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

async function createNamedDatabase(serverUrl: string, name: string): Promise<string> {
  const client = new pg.Client({ connectionString: serverUrl });
  await client.connect();
  const { rowCount } = await client.query('select from pg_database where datname = $1', [name]);
  if (rowCount === 0) await client.query(`create database ${client.escapeIdentifier(name)}`);
  await client.end();
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

/** Creates an anonymous user and returns its token and id. */
export async function anonymous({ url, keys }: Server): Promise<{ id: string; token: string }> {
  const answer = await fetch(`${url}/auth/v1/signup`, {
    method: 'POST',
    headers: { apikey: keys.publishable, 'content-type': 'application/json' },
    body: '{}',
  });
  const body = (await answer.json()) as { access_token: string; user: { id: string } };
  if (!answer.ok) throw new Error(`signing in was answered ${answer.status}: ${JSON.stringify(body)}`);
  return { id: body.user.id, token: body.access_token };
}

export async function until(condition: () => boolean | Promise<boolean>, withinMs = 60_000): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error('waited in vain');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
