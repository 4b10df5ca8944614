// Starts a storage API for a test file: a database, a server on a loopback port, users and clients. Policies are
// created from the buckets' `rls` like in the migration engine.
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AddressInfo } from 'node:net';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import type { Bucket, Config, Policy } from '../../../src/config/config.ts';
import type { FeatureContext } from '../../../src/http/feature.ts';
import { generateApiKeys, type ApiKeys } from '../../../src/identity/api-key.ts';
import { CredentialReader } from '../../../src/identity/credentials.ts';
import { SigningKeys } from '../../../src/identity/signing-keys.ts';
import { signToken, TokenVerifier } from '../../../src/identity/token.ts';
import { Keyring } from '../../../src/identity/keyring.ts';
import { silentLog, type Log } from '../../../src/log/log.ts';
import { CallerPool } from '../../../src/postgres/pool/caller-pool.ts';
import { OwnerDatabase } from '../../../src/postgres/owner-database.ts';
import { ident, join as joinSql, literal, raw, sql, type Sql } from '../../../src/postgres/sql.ts';
import { provisionAt } from '../../support/provision.ts';
import { createApp, type App } from '../../../src/server/app.ts';
import type { Backend } from '../../../src/storage/backend/backend.ts';
import { syncBuckets } from '../../../src/storage/objects/bucket.ts';
import {
  createBackend,
  createStorage,
  type StorageFeature,
  type StorageOptions,
} from '../../../src/storage/storage.ts';
import { deriveUrlKey } from '../../../src/storage/objects/url-token.ts';
import { aConfig } from '../../support/config.ts';
import { createDatabase, templateDatabase } from '../../support/database.ts';
import { parseAddress } from '../../../src/postgres/address/parse-address.ts';

const POSITION = { line: 1, column: 1 };

export type User = { readonly id: string; readonly token: string; readonly headers: Record<string, string> };

export type WorldOptions = {
  readonly buckets: readonly Bucket[];
  readonly storage?: Partial<StorageOptions> | undefined;
  readonly provider?: Config['providers']['storage'] | undefined;
  readonly corsOrigins?: readonly string[] | undefined;
  readonly uploadMs?: number | undefined;
  readonly bodyIdleMs?: number | undefined;
  readonly requestMs?: number | undefined;
  readonly maxBodyBytes?: number | undefined;
  readonly baseUrl?: string | undefined;
  readonly log?: Log | undefined;
  readonly now?: (() => Date) | undefined;
};

export type World = {
  /** Base URL of the API, for example `http://127.0.0.1:4000/storage/v1`. */
  readonly url: string;
  readonly origin: string;
  readonly databaseUrl: string;
  readonly directory: string;
  readonly keys: ApiKeys;
  readonly owner: OwnerDatabase;
  readonly callers: CallerPool;
  readonly storage: StorageFeature;
  /** The backend itself, for states that only a crash can leave. */
  readonly backend: () => Backend;
  readonly config: Config;
  readonly alice: User;
  readonly bob: User;
  readonly anonymous: Record<string, string>;
  readonly service: Record<string, string>;
  user(options?: { anonymous?: boolean }): Promise<User>;
  client(user?: User | 'service'): SupabaseClient;
  /** Deletes the blobs in the outbox immediately. */
  sweep(): Promise<number>;
  stop(): Promise<void>;
};

export function aBucket(name: string, settings: Partial<Bucket> = {}): Bucket {
  return {
    name,
    public: false,
    maxSizeBytes: 50 * 1024 * 1024,
    types: [],
    rls: [],
    position: POSITION,
    ...settings,
  };
}

export function aPolicy(policy: Partial<Policy> & Pick<Policy, 'operations'>): Policy {
  return {
    name: undefined,
    type: 'permissive',
    using: undefined,
    withCheck: undefined,
    check: undefined,
    position: POSITION,
    ...policy,
  };
}

export const OWN: Policy = aPolicy({
  operations: ['select', 'insert', 'update', 'delete'],
  check: 'owner_id = auth.uid()::text',
});

/** Policies of 'per bucket' as statements. Restrictive ones must not affect rows of other buckets. */
export function policyStatements(buckets: readonly Bucket[]): Sql[] {
  return buckets.flatMap((bucket) =>
    bucket.rls.flatMap((policy, index) =>
      policy.operations.map((operation) => {
        const name = `svc_${bucket.name}_${index}_${operation}`;
        const restrictive = policy.type === 'restrictive';
        const scoped = (expression: string): Sql =>
          restrictive
            ? sql`(bucket_id <> ${literal(bucket.name)} or (${raw(`\n${expression}\n`)}))`
            : sql`(bucket_id = ${literal(bucket.name)} and (${raw(`\n${expression}\n`)}))`;
        const using = policy.using ?? policy.check;
        const check = policy.withCheck ?? policy.check ?? policy.using;
        const clauses = [
          ...(operation !== 'insert' ? [sql`using ${scoped(using ?? 'false')}`] : []),
          ...(operation === 'insert' || operation === 'update'
            ? [sql`with check ${scoped(check ?? 'false')}`]
            : []),
        ];
        return sql`create policy ${ident(name)} on storage.objects as ${raw(policy.type)} for ${raw(operation)}
          to anon, authenticated ${joinSql(clauses, ' ')}`;
      }),
    ),
  );
}

export async function applyPolicies(owner: OwnerDatabase, buckets: readonly Bucket[]): Promise<void> {
  for (const statement of policyStatements(buckets)) await owner.query(statement);
}

export async function createWorld(options: WorldOptions): Promise<World> {
  const template = await templateDatabase('provisioned', async (url) => {
    await provisionAt(url);
  });
  const database = await createDatabase({ template });
  const roles = await provisionAt(database.url);
  const directory = await mkdtemp(join(tmpdir(), 'svc-storage-'));
  const config = aConfig({
    server: {
      maxBodyBytes: options.maxBodyBytes,
      cors: options.corsOrigins && { origins: options.corsOrigins },
      timeouts: {
        requestMs: options.requestMs,
        uploadMs: options.uploadMs,
        bodyIdleMs: options.bodyIdleMs,
      },
    },
    providers: { storage: options.provider ?? { type: 'local', path: 'blobs' } },
    storage: options.buckets,
    source: { name: 'svc.yaml', directory, text: '' },
  });
  const keys = generateApiKeys();
  const owner = new OwnerDatabase({
    address: parseAddress(roles.ownerUrl),
    applicationName: 'test-owner',
    max: 8,
    idleTimeoutMs: 10_000,
  });
  const callers = new CallerPool({
    address: parseAddress(roles.authenticatorUrl),
    applicationName: 'test-callers',
    max: 10,
    minIdle: 0,
    idleTimeoutMs: 10_000,
    statementTimeoutMs: 10_000,
  });
  const keyring = await Keyring.open(owner, { current: keys.secret, previous: [] }, 'refuse');
  const signingKeys = new SigningKeys(owner, keyring.box('signing keys'));
  await signingKeys.load();
  await syncBuckets(owner, config);
  await applyPolicies(owner, options.buckets);

  let origin = '';
  const context: FeatureContext = {
    snapshot: () => ({
      config,
      catalog: {
        schemas: ['public'],
        relations: new Map(),
        routines: new Map(),
        serverVersion: 180_000,
        hasExtensions: false,
        usedSettings: new Set(),
      },
      version: 1,
    }),
    callers,
    owner,
    credentials: new CredentialReader(keys, new TokenVerifier(signingKeys)),
    signingKeys,
    keyring,
    env: {},
    log: options.log ?? silentLog,
    now: options.now ?? (() => new Date()),
    baseUrl: () => options.baseUrl ?? origin,
    dev: false,
  };
  const storage = createStorage({
    urlKey: deriveUrlKey(keys.secret),
    cleanup: { graceMs: 0, pollMs: 60_000 },
    ...options.storage,
  });
  const app: App = await createApp({
    log: options.log ?? silentLog,
    context,
    mounts: [{ prefix: '/storage/v1', feature: storage.feature }],
    health: { phase: () => 'serving' },
    cors: () => ({ origins: config.server.cors.origins, allowLoopback: false }),
    timeouts: () => config.server.timeouts,
  });
  await app.server.listen({ host: '127.0.0.1', port: 0 });
  origin = `http://127.0.0.1:${(app.server.server.address() as AddressInfo).port}`;

  const user = async ({ anonymous = false }: { anonymous?: boolean } = {}): Promise<User> => {
    const id = randomUUID();
    const role = anonymous ? 'anon' : 'authenticated';
    const exp = Math.floor(Date.now() / 1000) + 3600;
    const token = await signToken({ sub: id, role, is_anonymous: anonymous, exp }, signingKeys.signing);
    return { id, token, headers: { apikey: keys.publishable, authorization: `Bearer ${token}` } };
  };
  return {
    url: `${origin}/storage/v1`,
    origin,
    databaseUrl: database.url,
    directory: join(directory, 'blobs'),
    keys,
    owner,
    callers,
    storage,
    backend: () => createBackend(config),
    config,
    alice: await user(),
    bob: await user(),
    anonymous: { apikey: keys.publishable },
    service: { apikey: keys.secret, authorization: `Bearer ${keys.secret}` },
    user,
    client(who) {
      const key = who === 'service' ? keys.secret : keys.publishable;
      return createClient(origin, key, {
        auth: { persistSession: false, autoRefreshToken: false },
        ...(who && who !== 'service'
          ? { global: { headers: { authorization: `Bearer ${who.token}` } } }
          : {}),
      });
    },
    sweep: () => storage.sweep(),
    async stop() {
      app.server.server.closeAllConnections();
      await app.server.close();
      await callers.close();
      await owner.close();
      await database.drop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
