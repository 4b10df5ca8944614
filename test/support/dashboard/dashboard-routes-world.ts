// Routes of the dashboard's API with their own database and the APIs they describe, without sessions and modes: those
// are in dashboard-world.ts.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { auth } from '../../../src/auth/auth.ts';
import { introspect } from '../../../src/catalog/introspect.ts';
import { loadConfig, type Loaded } from '../../../src/config/load.ts';
import { readSource } from '../../../src/config/read/source.ts';
import type { DashboardContext } from '../../../src/dashboard-api/dashboard-context.ts';
import { addRoutes, type DashboardRoutes } from '../../../src/dashboard-api/routes/route.ts';
import { Functions } from '../../../src/functions/functions.ts';
import type { Snapshot } from '../../../src/http/feature.ts';
import { generateApiKeys, type ApiKeys } from '../../../src/identity/api-key.ts';
import { CredentialReader } from '../../../src/identity/credentials.ts';
import { Keyring } from '../../../src/identity/keyring.ts';
import { SigningKeys } from '../../../src/identity/signing-keys.ts';
import { TokenVerifier } from '../../../src/identity/token.ts';
import { silentLog } from '../../../src/log/log.ts';
import { RecentLines } from '../../../src/log/recent-lines.ts';
import { migrate } from '../../../src/migrate/migrate.ts';
import { CallerPool } from '../../../src/postgres/pool/caller-pool.ts';
import { OwnerDatabase } from '../../../src/postgres/owner-database.ts';
import { aConfig } from '../config.ts';
import { provisionAt } from '../provision.ts';
import { Realtime } from '../../../src/realtime/realtime.ts';
import { rest } from '../../../src/rest/rest.ts';
import { createApp } from '../../../src/server/app.ts';
import { createDatabase, templateDatabase } from '../database.ts';
import { parseAddress } from '../../../src/postgres/address/parse-address.ts';

export type RoutesWorld = {
  readonly url: string;
  readonly directory: string;
  readonly file: string;
  readonly keys: ApiKeys;
  readonly superuserUrl: string;
  readonly owner: OwnerDatabase;
  readonly callers: CallerPool;
  readonly context: DashboardContext;
  call(method: string, path: string, body?: unknown): Promise<RoutesReply>;
  /** Reloads the file into the database and the snapshot. */
  reload(): Promise<void>;
  close(): Promise<void>;
};

export type RoutesReply = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly json: any;
};

export type RoutesWorldOptions = {
  readonly yaml: string;
  readonly routes: readonly DashboardRoutes[];
  readonly env?: Readonly<Record<string, string>>;
  /** Further files next to svc.yaml. */
  readonly files?: Readonly<Record<string, string>>;
  /** Run as the owner before, and after, the first migration. */
  readonly before?: string;
  readonly after?: string;
  readonly dev?: boolean;
  readonly context?: (world: () => RoutesWorld) => Partial<DashboardContext>;
};

export async function startRoutesWorld(options: RoutesWorldOptions): Promise<RoutesWorld> {
  const directory = mkdtempSync(join(tmpdir(), 'svc-dashboard-'));
  const file = join(directory, 'svc.yaml');
  for (const [name, text] of Object.entries({ 'svc.yaml': options.yaml, ...options.files })) {
    mkdirSync(dirname(join(directory, name)), { recursive: true });
    writeFileSync(join(directory, name), text);
  }
  const env = options.env ?? {};
  const read = async (): Promise<Loaded> => {
    const source = await readSource('svc.yaml', directory);
    return loadConfig({ ...source, mode: 'development' }, { variables: env });
  };
  const loaded = await read();
  if (!loaded.ok) throw new Error(loaded.mistakes.map(({ message }) => message).join('\n'));

  const template = await templateDatabase('provisioned', async (url) => void (await provisionAt(url)));
  const database = await createDatabase({ template });
  const { ownerUrl, authenticatorUrl } = await provisionAt(database.url);
  const owner = new OwnerDatabase({
    address: parseAddress(ownerUrl),
    applicationName: 'svc',
    max: 8,
    idleTimeoutMs: 10_000,
  });
  const callers = new CallerPool({
    address: parseAddress(authenticatorUrl),
    applicationName: 'svc-request',
    max: 4,
    minIdle: 0,
    idleTimeoutMs: 10_000,
    statementTimeoutMs: 10_000,
  });
  const keys = generateApiKeys();
  const keyring = await Keyring.open(owner, { current: keys.secret, previous: [] });
  const signingKeys = new SigningKeys(owner, keyring.box('signing keys'));
  await signingKeys.load();

  let snapshot: Snapshot | undefined;
  const load = async (config: Snapshot['config']): Promise<void> => {
    const outcome = await migrate({ owner, config, log: silentLog });
    if (outcome.kind === 'refused')
      throw new Error(outcome.problems.map(({ message }) => message).join('\n'));
    const schemas = ['public', ...config.expose.relations.map(({ schema }) => schema)];
    const catalog = await introspect(owner, [...new Set(schemas)]);
    snapshot = { config, catalog, version: (snapshot?.version ?? 0) + 1 };
  };
  if (options.before) await runScript(ownerUrl, options.before);
  await load(loaded.config);
  if (options.after) {
    await runScript(ownerUrl, options.after);
    await load(loaded.config);
  }

  const base: DashboardContext = {
    snapshot: () => {
      if (!snapshot) throw new Error('nothing is loaded');
      return snapshot;
    },
    callers,
    owner,
    credentials: new CredentialReader(keys, new TokenVerifier(signingKeys)),
    signingKeys,
    keyring,
    env,
    log: silentLog,
    now: () => new Date(),
    baseUrl: () => undefined,
    dev: options.dev ?? true,
    mode: 'readwrite',
    recentLines: new RecentLines(),
    keys,
    functions: new Functions({
      publishableKey: keys.publishable,
      loopbackUrl: () => 'http://localhost:1',
      mode: 'development',
    }),
    // Not mounted here.
    realtime: new Realtime({
      direct: { address: parseAddress(ownerUrl), applicationName: 'routes' },
      processes: 1,
    }),
  };
  let world: RoutesWorld | undefined;
  const context: DashboardContext = {
    ...base,
    ...options.context?.(() => {
      if (!world) throw new Error('the world is not there yet');
      return world;
    }),
  };
  const app = await createApp({
    log: silentLog,
    context,
    mounts: [
      { prefix: '/rest/v1', feature: rest },
      { prefix: '/auth/v1', feature: auth },
      {
        prefix: '/dashboard/api',
        feature: () => async (mounted) => {
          for (const routes of options.routes) addRoutes(mounted, routes(context, mounted));
          await Promise.resolve();
        },
      },
    ],
    health: { phase: () => 'serving' },
    cors: () => ({ origins: [], allowLoopback: true }),
    timeouts: () => aConfig().server.timeouts,
  });
  await app.server.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  world = {
    url,
    directory,
    file,
    keys,
    superuserUrl: database.url,
    owner,
    callers,
    context,
    async call(method, path, body) {
      const response = await fetch(`${url}/dashboard/api${path}`, {
        method,
        ...(body === undefined
          ? {}
          : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
      });
      const text = await response.text();
      const isJson = response.headers.get('content-type')?.includes('json') ?? false;
      return {
        status: response.status,
        headers: response.headers,
        text,
        json: isJson ? JSON.parse(text) : undefined,
      };
    },
    async reload() {
      const next = await read();
      if (!next.ok) throw new Error(next.mistakes.map(({ message }) => message).join('\n'));
      await load(next.config);
    },
    async close() {
      await app.server.close();
      callers.destroy();
      await owner.close();
      await database.drop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
  return world;
}

async function runScript(url: string, script: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(script);
  } finally {
    await client.end();
  }
}
