// The data API with its own database: provisioned, filled by the given SQL, and with everything in it declared.
import { SignJWT } from 'jose';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import pg from 'pg';
import { introspect } from '../../src/catalog/introspect.ts';
import type { Config, SqlFunction, Table } from '../../src/config/config.ts';
import type { Catalog } from '../../src/catalog/catalog.ts';
import type { FeatureContext, Snapshot } from '../../src/http/feature.ts';
import { CredentialReader } from '../../src/identity/credentials.ts';
import { SigningKeys } from '../../src/identity/signing-keys.ts';
import { TokenVerifier } from '../../src/identity/token.ts';
import { Keyring } from '../../src/identity/keyring.ts';
import { silentLog, type Log } from '../../src/log/log.ts';
import { CallerPool } from '../../src/postgres/pool/caller-pool.ts';
import { OwnerDatabase } from '../../src/postgres/owner-database.ts';
import { maxReading } from '../../src/postgres/read-parallelism.ts';
import { provisionAt } from './provision.ts';
import { rest } from '../../src/rest/rest.ts';
import { createApp } from '../../src/server/app.ts';
import { aConfig } from './config.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';

export const KEYS = {
  publishable: 'svc_publishable_0123456789012345678901234567',
  secret: 'svc_secret_0123456789012345678901234567890123',
} as const;

export const JWT_SECRET: string = 'a-secret-that-only-tests-know-and-is-long-enough';

export type RestWorldOptions = {
  /** Superuser's connection string of an empty database. */
  readonly url: string;
  /** Run as the owner of `public`. */
  readonly sql: string;
  /** Existing relations that are not declared. */
  readonly undeclared?: readonly string[] | undefined;
  /** Existing columns that are not declared, as `table.column`. */
  readonly retired?: readonly string[] | undefined;
  /** Existing relations under `expose:` instead of declared. */
  readonly exposed?: readonly string[] | undefined;
  readonly authRequired?: readonly string[] | undefined;
  readonly dev?: boolean | undefined;
  readonly maxBodyBytes?: number | undefined;
  readonly maxResponseBytes?: number | undefined;
  readonly poolSize?: number | undefined;
  readonly acquireTimeoutMs?: number | undefined;
  readonly statementTimeoutMs?: number | undefined;
  readonly requestMs?: number | undefined;
  readonly responseIdleMs?: number | undefined;
  readonly log?: Log | undefined;
};

export type RestWorld = {
  /** URL of the server, for client libraries. */
  readonly url: string;
  readonly restUrl: string;
  readonly authenticatorUrl: string;
  readonly databaseUrl: string;
  readonly owner: OwnerDatabase;
  readonly callers: CallerPool;
  snapshot(): Snapshot;
  /** Reloads after a change of the database. */
  refresh(): Promise<void>;
  /** A token as the auth API would issue it. */
  token(claims?: Record<string, unknown>): Promise<string>;
  send(path: string, init?: Sent): Promise<Answer>;
  /** Number of client connections to the server. */
  connections(): Promise<number>;
  close(): Promise<void>;
};

export type Sent = {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  readonly token?: string;
  readonly apikey?: string | null;
};

export type Answer = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Parsed when it is JSON, else undefined. */
  readonly json: unknown;
};

export async function createRestWorld(options: RestWorldOptions): Promise<RestWorld> {
  const { ownerUrl, authenticatorUrl } = await provisionAt(options.url);
  await runAs(ownerUrl, options.sql);
  const owner = new OwnerDatabase({
    address: parseAddress(ownerUrl),
    applicationName: 'svc',
    max: 2,
    idleTimeoutMs: 10_000,
  });
  const callers = new CallerPool({
    address: parseAddress(authenticatorUrl),
    applicationName: 'svc-request',
    max: options.poolSize ?? 4,
    maxReading: await maxReading(owner),
    minIdle: 0,
    idleTimeoutMs: 10_000,
    acquireTimeoutMs: options.acquireTimeoutMs,
    statementTimeoutMs: options.statementTimeoutMs ?? 10_000,
  });
  const secret = new TextEncoder().encode(JWT_SECRET);
  const verifier = new TokenVerifier({
    findKey: () => Promise.resolve({ alg: 'HS256', key: secret }),
  });
  const keyring = await Keyring.open(owner, { current: KEYS.secret, previous: [] }, 'refuse');
  let snapshot = await readSnapshot(owner, options, 1);
  const context: FeatureContext = {
    snapshot: () => snapshot,
    callers,
    owner,
    credentials: new CredentialReader(KEYS, verifier),
    signingKeys: new SigningKeys(owner, keyring.box('signing keys')),
    keyring,
    env: {},
    log: options.log ?? silentLog,
    now: () => new Date(),
    baseUrl: () => undefined,
    dev: options.dev ?? false,
  };
  const { requestMs = 30_000, responseIdleMs = 10_000 } = options;
  const timeouts = { ...aConfig().server.timeouts, requestMs, responseIdleMs };
  const app = await createApp({
    log: options.log ?? silentLog,
    context,
    mounts: [{ prefix: '/rest/v1', feature: rest }],
    health: { phase: () => 'serving' },
    cors: () => ({ origins: ['*'], allowLoopback: true }),
    timeouts: () => timeouts,
  });
  await app.server.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const restUrl = `${url}/rest/v1`;
  return {
    url,
    restUrl,
    authenticatorUrl,
    databaseUrl: ownerUrl,
    owner,
    callers,
    snapshot: () => snapshot,
    async refresh() {
      snapshot = await readSnapshot(owner, options, snapshot.version + 1);
    },
    token: (claims = {}) =>
      new SignJWT({ role: 'authenticated', ...claims })
        .setProtectedHeader({ alg: 'HS256' })
        .setIssuedAt()
        .sign(secret),
    send: (path, init) => send(`${restUrl}${path}`, init),
    connections: () => promisify(app.server.server.getConnections.bind(app.server.server))(),
    async close() {
      await app.server.close();
      callers.destroy();
      await owner.close();
    },
  };
}

export async function send(url: string, init: Sent = {}): Promise<Answer> {
  const headers = new Headers(init.headers);
  if (init.apikey !== null) headers.set('apikey', init.apikey ?? KEYS.publishable);
  if (init.token !== undefined) headers.set('authorization', `Bearer ${init.token}`);
  const hasBody = init.body !== undefined;
  if (hasBody && !headers.has('content-type')) headers.set('content-type', 'application/json');
  const response = await fetch(url, {
    method: init.method ?? 'GET',
    headers,
    ...(hasBody ? { body: init.body } : {}),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, json: parse(text) };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // CSV, plans and empty bodies.
    return undefined;
  }
}

async function runAs(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

async function readSnapshot(
  owner: OwnerDatabase,
  options: RestWorldOptions,
  version: number,
): Promise<Snapshot> {
  const catalog = await introspect(owner, ['public', 'other']);
  return { config: buildConfig(catalog, options), catalog, version };
}

const POSITION = { line: 1, column: 1 };

/** A configuration that declares everything in the database. */
function buildConfig(catalog: Catalog, options: RestWorldOptions): Config {
  const undeclared = new Set([...(options.undeclared ?? []), ...(options.exposed ?? [])]);
  const retired = new Set(options.retired);
  const tables: Table[] = [...catalog.relations.values()]
    .filter((relation) => !undeclared.has(relation.name))
    .map((relation) => ({
      schema: relation.schema,
      name: relation.name,
      renamedFrom: undefined,
      protect: false,
      constraints: [],
      fields: relation.columns
        .filter((column) => !retired.has(`${relation.name}.${column.name}`))
        .map((column) => ({
          name: column.name,
          type: column.type,
          primaryKey: relation.primaryKey.includes(column.name),
          required: column.notNull,
          unique: false,
          default: undefined,
          enum: undefined,
          pattern: undefined,
          min: undefined,
          max: undefined,
          check: undefined,
          foreignKey: undefined,
          ref: undefined,
          renamedFrom: undefined,
          backfill: undefined,
          using: undefined,
          onUpdate: undefined,
          position: POSITION,
        })),
      primaryKey: relation.primaryKey,
      indexes: [],
      onNewUser: undefined,
      triggers: [],
      unlogged: false,
      with: undefined,
      partitionBy: undefined,
      partitions: undefined,
      rls: 'absent',
      position: POSITION,
    }));
  const rpc: SqlFunction[] = [...catalog.routines.values()]
    .flat()
    .filter((routine) => routine.schema === 'public' && !undeclared.has(routine.name))
    .map((routine) => ({
      schema: 'public',
      key: routine.name,
      name: routine.name,
      renamedFrom: undefined,
      expose: true,
      description: routine.comment ?? undefined,
      authRequired: options.authRequired?.includes(routine.name) ?? false,
      language: 'sql',
      volatility: routine.volatility,
      security: 'invoker',
      args: [],
      returns: 'void',
      body: '',
      position: POSITION,
    }));
  return aConfig({
    expose: {
      relations: (options.exposed ?? []).map((name) => ({ schema: 'public', name })),
      routines: [],
    },
    server: {
      maxBodyBytes: options.maxBodyBytes ?? 1_000_000,
      maxResponseBytes: options.maxResponseBytes ?? 100_000_000,
      cors: { origins: ['*'] },
      timeouts: { uploadMs: 30_000 },
    },
    tables,
    rpc,
  });
}
