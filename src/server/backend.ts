// A running backend: database prepared, schema migrated, HTTP open. Start, reload and stop are here, in the
// order in which they must happen; what each does is next door.
import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { checkPasswordHashing } from '../auth/users/password.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { introspect } from '../catalog/introspect.ts';
import type { Config } from '../config/config.ts';
import { keysForRestart } from '../config/restart-keys.ts';
import type { FeatureContext, Snapshot } from '../http/feature.ts';
import type { ApiKeys } from '../identity/api-key.ts';
import { CredentialReader } from '../identity/credentials.ts';
import { Keyring, keyringSecrets } from '../identity/keyring.ts';
import { SIGNING_KEYS_CHANNEL, SigningKeys } from '../identity/signing-keys.ts';
import { TokenVerifier } from '../identity/token.ts';
import { must } from '../lib/assert.ts';
import { SerialQueue } from '../lib/serial-queue.ts';
import type { Log } from '../log/log.ts';
import { SCHEMA_CHANNEL } from '../migrate/state/state.ts';
import { CallerPool } from '../postgres/pool/caller-pool.ts';
import { DatabaseClock } from '../postgres/database-clock.ts';
import { listen, LISTENER_NAME, type Listener } from '../postgres/listen.ts';
import { OwnerDatabase, type OwnerSettings } from '../postgres/owner-database.ts';
import { maxReading } from '../postgres/reading.ts';
import { provision } from '../provision/provision.ts';
import { assertRequestSession } from '../provision/request-session.ts';
import { syncBuckets } from '../storage/objects/bucket.ts';
import { createApp, type App } from './app.ts';
import { portProblem } from './port.ts';
import { Functions } from '../functions/functions.ts';
import { createMounts, type DashboardOptions } from './mounts.ts';
import { Persistent } from './persistent.ts';
import { PROBE_TIMEOUT_MS, readiness } from './readiness.ts';

/**
 * Connections of the product's own statements, beside `database.pool.max` for callers. What waits for a lock in one
 * part of the product must not stop the others.
 */
const OWNER_CONNECTIONS = 5;
const STORAGE_CONNECTIONS = 3;
/** The product's own statements are short. Whoever needs longer is stuck, and says so while somebody still waits. */
const OWNER_DEADLINES = { statementTimeoutMs: 15_000, lockTimeoutMs: 5_000 };
/** Reading the catalog of a large database takes its time. */
const CATALOG_TIMEOUT_MS = 60_000;

export type BackendOptions = {
  readonly config: Config;
  readonly databaseUrl: string;
  readonly keys: ApiKeys;
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly log: Log;
  readonly dev: boolean;
  /** For the SVC_* variables that features document. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Public base URL, for links that are mailed or registered elsewhere. */
  readonly baseUrl?: string | ((config: Config) => string | undefined) | undefined;
  readonly dashboard?: DashboardOptions | undefined;
  /** Makes the database follow the file, or looks what is pending; called at start and at each reload. */
  readonly migrate: (owner: OwnerDatabase, config: Config, signal: AbortSignal) => Promise<void>;
};

export type Backend = {
  /** Where it listens, for example `http://127.0.0.1:8080`. */
  readonly url: string;
  readonly snapshot: () => Snapshot;
  /** Takes a new file. When its migration is refused, the old one is served on and the refusal thrown. */
  reload(config: Config): Promise<void>;
  /** Ends in-flight requests within `timeouts.shutdown`, then everything. */
  stop(): Promise<void>;
};

export async function startBackend(options: BackendOptions): Promise<Backend> {
  const { log, config } = options;
  checkPasswordHashing();
  const database = await provision(options.databaseUrl, log);
  await assertRequestSession(database.authenticatorUrl, config.server.timeouts.dbQueryMs);
  if (database.applied.length > 0) log.info({ steps: database.applied }, 'provisioned the database');

  const { pool } = config.database;
  const openOwner = (
    applicationName: string,
    max: number,
    deadlines: Pick<OwnerSettings, 'statementTimeoutMs' | 'lockTimeoutMs'>,
  ): OwnerDatabase =>
    new OwnerDatabase({
      url: database.ownerUrl,
      applicationName,
      max,
      idleTimeoutMs: pool.idleTimeoutMs,
      ...deadlines,
    });
  const owner = openOwner('svc', OWNER_CONNECTIONS, OWNER_DEADLINES);
  const storageOwner = openOwner('svc-storage', STORAGE_CONNECTIONS, OWNER_DEADLINES);
  const catalogOwner = openOwner('svc-catalog', 1, { statementTimeoutMs: CATALOG_TIMEOUT_MS });
  const probe = openOwner('svc-probe', 1, { statementTimeoutMs: PROBE_TIMEOUT_MS });
  // Migrations bound their waits themselves, and some of their work takes as long as it takes.
  const migrationOwner = openOwner('svc-migrate', OWNER_CONNECTIONS, {});
  const owners = [owner, storageOwner, catalogOwner, probe, migrationOwner];
  const callers = new CallerPool({
    url: database.authenticatorUrl,
    applicationName: 'svc-request',
    max: pool.max,
    maxReading: await maxReading(owner),
    minIdle: pool.min,
    idleTimeoutMs: pool.idleTimeoutMs,
    statementTimeoutMs: config.server.timeouts.dbQueryMs,
  });
  const keyring = await openKeyring(owner, owners, options);
  const signingKeys: SigningKeys = new SigningKeys(owner, keyring.box('signing keys'), () =>
    verifier.forget(),
  );
  const clock = new DatabaseClock(owner, log);
  const verifier: TokenVerifier = new TokenVerifier(signingKeys, () =>
    Math.floor(clock.now().getTime() / 1000),
  );

  let phase: 'starting' | 'serving' | 'draining' = 'starting';
  let snapshot: Snapshot | undefined;
  const jobs: Array<() => void> = [];
  const context: FeatureContext = {
    snapshot: () => must(snapshot, 'the snapshot'),
    callers,
    owner,
    credentials: new CredentialReader(options.keys, verifier),
    signingKeys,
    keyring,
    env: options.env,
    log,
    now: clock.now,
    baseUrl: () =>
      typeof options.baseUrl === 'function' ? options.baseUrl(snapshot?.config ?? config) : options.baseUrl,
    whenServing: (work) => void (phase === 'serving' ? work() : jobs.push(work)),
    dev: options.dev,
  };
  let app: App | undefined;
  const functions = new Functions({
    publishableKey: options.keys.publishable,
    loopbackUrl: () => loopbackUrl(must(app, 'the listening server')),
    mode: options.dev ? 'development' : 'production',
  });
  let listener: Listener | undefined;
  const stopping = new AbortController();

  const swap = (next: Config, catalog: Catalog): void => {
    snapshot = { config: next, catalog, version: (snapshot?.version ?? 0) + 1 };
  };
  const readCatalog = (next: Config): Promise<Catalog> => introspect(catalogOwner, exposedSchemas(next));

  // One at a time: a reload must not overtake another, nor a catalog refresh put an older file back.
  const queue = new SerialQueue();
  // Whoever heard of a change, or may have missed one, must see it in the end: a database that has just come back may
  // fail the first who asks.
  const catalogRefresh = new Persistent(
    () =>
      queue.run(async () => {
        const { config: current } = must(snapshot, 'the snapshot');
        swap(current, await readCatalog(current));
      }),
    (error) =>
      log.error({ err: error, job: 'catalog' }, 'could not read the catalog again; trying until it succeeds'),
  );
  const keysReload = new Persistent(
    () => signingKeys.reload(),
    (error) =>
      log.error(
        { err: error, job: 'signing keys' },
        'could not read the signing keys again; trying until it succeeds',
      ),
  );

  const stop = async (): Promise<void> => {
    if (phase === 'draining') return;
    phase = 'draining';
    // Index builds in the background end here, and the next start continues them.
    stopping.abort();
    clock.close();
    catalogRefresh.close();
    keysReload.close();
    await listener?.close();
    if (app) await drain(app, functions, snapshot?.config.server.timeouts.shutdownMs ?? 0, log);
    // Whatever still runs a statement now is past the shutdown window.
    callers.destroy();
    await Promise.all(owners.map((one) => one.close()));
  };

  try {
    app = await createApp({
      log,
      context,
      mounts: createMounts({ ...options, functions, storageOwner }),
      health: {
        phase: () => phase,
        database: readiness({ probe, owners: [owner, storageOwner], callers }),
        functionsWell: () => functions.well(),
      },
      cors: () => ({
        origins: (snapshot?.config ?? config).server.cors.origins,
        allowLoopback: options.dev,
      }),
      timeouts: () => (snapshot?.config ?? config).server.timeouts,
    });
    // Open before the migration: a platform that waits for `/live` must not kill a long one.
    await openPort(app, options.host, options.port);
    await clock.start();
    await queue.run(async () => {
      await functions.check(config);
      await options.migrate(migrationOwner, config, stopping.signal);
      await syncBuckets(owner, config);
      await functions.reload(config);
      // Before the keys and the catalog are read: a change right after the reading is then heard of.
      listener = await listen(
        { url: database.ownerUrl, applicationName: LISTENER_NAME },
        [SCHEMA_CHANNEL, SIGNING_KEYS_CHANNEL],
        {
          onNotification: (channel) => (channel === SIGNING_KEYS_CHANNEL ? keysReload : catalogRefresh).ask(),
          onReconnect: () => {
            catalogRefresh.ask();
            keysReload.ask();
          },
        },
        log,
      );
      await signingKeys.load();
      swap(config, await readCatalog(config));
    });
    phase = 'serving';
    for (const begin of jobs.splice(0)) begin();
    callers.warm().catch((error: unknown) => log.warn({ err: error }, 'could not open connections ahead'));
  } catch (error) {
    await stop();
    throw error;
  }

  return {
    url: listenUrl(app, options.host),
    snapshot: () => must(snapshot, 'the snapshot'),
    reload: (next) =>
      queue.run(async () => {
        await functions.check(next);
        await options.migrate(migrationOwner, next, stopping.signal);
        await syncBuckets(owner, next);
        await functions.reload(next);
        swap(next, await readCatalog(next));
        const keys = keysForRestart(config, next).filter(
          // A port that was given otherwise has nothing to do with the file.
          (key) => key !== 'server.port' || options.port === config.server.port,
        );
        if (keys.length > 0) log.warn({ keys }, 'these keys of the file have changed and wait for a restart');
      }),
    stop,
  };
}

/** In development a lost secret costs test accounts; in production it must not sign everybody out unasked. */
async function openKeyring(
  owner: OwnerDatabase,
  owners: readonly OwnerDatabase[],
  { keys, env, dev }: BackendOptions,
): Promise<Keyring> {
  try {
    const secrets = keyringSecrets({
      secretKey: keys.secret,
      previousSecretKey: env['SVC_SECRET_KEY_PREVIOUS'],
      encryptionKey: env['SVC_AUTH_ENCRYPTION_KEY'],
      previousEncryptionKey: env['SVC_AUTH_ENCRYPTION_KEY_PREVIOUS'],
    });
    return await Keyring.open(owner, secrets, dev ? 'replace' : 'refuse');
  } catch (error) {
    await Promise.all(owners.map((one) => one.close()));
    throw error;
  }
}

/** A name for this process in locks and history. */
export function instanceName(): string {
  return `${process.pid}-${randomUUID().slice(0, 8)}`;
}

function exposedSchemas(config: Config): string[] {
  const { relations, routines } = config.expose;
  const others = new Set([...config.tables, ...relations, ...routines].map((one) => one.schema));
  others.delete('public');
  return ['public', ...[...others].sort()];
}

async function openPort(app: App, host: string, port: number): Promise<void> {
  try {
    await app.server.listen({ host, port });
  } catch (cause) {
    throw portProblem(cause, port) ?? cause;
  }
}

function listenUrl(app: App, host: string): string {
  const address = app.server.server.address() as AddressInfo;
  const shown = host === '0.0.0.0' || host === '::' ? 'localhost' : host;
  return `http://${shown.includes(':') ? `[${shown}]` : shown}:${address.port}`;
}

/** How code functions reach this server from the same machine. */
function loopbackUrl(app: App): string {
  const { port } = app.server.server.address() as AddressInfo;
  return `http://localhost:${port}`;
}

async function drain(app: App, functions: Functions, windowMs: number, log: Log): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      log.warn({ requests: app.inFlight.size }, 'the shutdown window is over; cutting off what is left');
      for (const scope of app.inFlight) scope.abort('shutdown');
      app.server.server.closeAllConnections();
      resolve();
    }, windowMs);
  });
  // Connections that were busy when the close began become idle one by one.
  const sweep = setInterval(() => app.server.server.closeIdleConnections(), 50);
  await Promise.race([functions.drain().then(() => app.server.close()), deadline]);
  await functions.stop();
  clearInterval(sweep);
  clearTimeout(timer);
}
