// A running backend: database prepared, schema migrated, HTTP open. Start and stop are here, in the order in which
// they must happen; what a start and a reload do with the file is in served-config.ts.
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo, Server } from 'node:net';
import { checkPasswordHashing } from '../auth/users/password.ts';
import type { Config } from '../config/config.ts';
import { keysForRestart } from '../config/restart-keys.ts';
import { ClientReader } from '../http/client.ts';
import type { FeatureContext, Snapshot } from '../http/feature.ts';
import type { ApiKeys } from '../identity/api-key.ts';
import { CredentialReader } from '../identity/credentials.ts';
import { environmentSecrets, Keyring } from '../identity/keyring.ts';
import { KeyAliases } from '../identity/key-aliases.ts';
import { SESSIONS_CHANNEL } from '../identity/session-ends.ts';
import { SIGNING_KEYS_CHANNEL, SigningKeys } from '../identity/signing-keys.ts';
import { TokenVerifier } from '../identity/token.ts';
import { must } from '../lib/assert.ts';
import { Degraded } from '../lib/degraded.ts';
import type { ErrorReports } from '../log/error-reports.ts';
import type { Log } from '../log/log.ts';
import { TimedPartitions } from '../migrate/commands/timed-partitions.ts';
import type { SupersededReport } from '../migrate/commands/superseded-watch.ts';
import { SCHEMA_CHANNEL } from '../migrate/state/applied-state.ts';
import type { DatabaseAddresses } from '../postgres/address/database-addresses.ts';
import { DatabaseClock } from '../postgres/database-clock.ts';
import { listen } from '../postgres/listen.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { StatementCounts } from '../postgres/pool/statement-counts.ts';
import { newInstanceId, sessionName } from '../postgres/presence.ts';
import { IMPORT_CHANNEL } from '../provision/import-state.ts';
import { provision } from '../provision/provision.ts';
import { assertRequestSession } from '../provision/request-session.ts';
import { realtimeFormat } from '../realtime/problem.ts';
import { Realtime, SOCKET_PATH } from '../realtime/realtime.ts';
import { createApp, type App } from './app.ts';
import { portProblem } from './port.ts';
import { Functions } from '../functions/functions.ts';
import { adminHosts, openAdmin } from './health/admin.ts';
import type { AdminAddress } from './health/admin-address.ts';
import { BudgetWatch } from './health/connection-budget.ts';
import type { HealthState } from './health/health.ts';
import { metricsToken, ServerMetrics } from './health/metrics.ts';
import { ReadinessWatch } from './health/readiness.ts';
import { StoredFigures } from './health/stored-figures.ts';
import { ImportWatch } from './import-watch.ts';
import { LameDuck } from './lame-duck.ts';
import { logSample, logsUsers } from './request-path/request-line.ts';
import { createMounts, type DashboardOptions, type Mounts } from './mounts.ts';
import { RetryUntilDone } from './retry-until-done.ts';
import { mostConnections, openDatabases, requestConnections, type Databases } from './databases.ts';
import { ServedConfig } from './served-config.ts';
import { share, shareOfConnections } from './share.ts';

export type BackendOptions = {
  readonly config: Config;
  readonly database: DatabaseAddresses;
  /** How long a start waits for a database that is not there. */
  readonly databaseWaitMs?: number | undefined;
  /** Ends that waiting. */
  readonly signal?: AbortSignal | undefined;
  readonly keys: ApiKeys;
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly log: Log;
  readonly dev: boolean;
  /** For the SVC_* variables that features document. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Where metrics and probes are answered without a key; nowhere when absent. */
  readonly admin?: AdminAddress | undefined;
  /** What sends errors to a collector, for its numbers. */
  readonly errorReports?: ErrorReports | undefined;
  /** Changes of the schema that the file asks for and that are not applied, as far as that is known. */
  readonly pendingChanges?: (() => number | undefined) | undefined;
  /** Used when the file has no `server.trusted_proxies`. */
  readonly trustedProxies?: readonly string[] | undefined;
  /** A request's statement that takes so many milliseconds is told of in the log; undefined: none is. */
  readonly slowMs?: number | undefined;
  /** How often the version of the schema is compared, in milliseconds. */
  readonly compareSchemaEveryMs?: number | undefined;
  /** Eight hexadecimal characters that several processes of one instance share; random when absent. */
  readonly instance?: string | undefined;
  /** Where `svc receive` stands before this process: what its front proves itself with. */
  readonly frontSecret?: string | undefined;
  /** Public base URL, for links that are mailed or registered elsewhere. */
  readonly baseUrl?: string | ((config: Config) => string | undefined) | undefined;
  readonly dashboard?: DashboardOptions | undefined;
  /** Why the database follows another file than this one, if it does. */
  readonly superseded?: (() => SupersededReport | undefined) | undefined;
  /** By channel: called when it is notified, and after each reconnection, which may have missed a notification. */
  readonly alsoListen?: Readonly<Record<string, () => void>> | undefined;
  /** Serves also what is imported and not cut over yet. */
  readonly importPreview?: boolean | undefined;
  /** How many processes of this machine serve the file, and share what is meant for all of them; default 1. */
  readonly processes?: number | undefined;
  /** False where another process listens on the port already: this one does when it is ready. */
  readonly listenEarly?: boolean | undefined;
  /** Makes the database follow the file, or looks what is pending; called at start and at each reload. */
  readonly migrate: (owner: OwnerDatabase, config: Config, signal: AbortSignal) => Promise<void>;
};

export type Backend = {
  /** Where it listens, for example `http://127.0.0.1:8080`. */
  readonly url: string;
  readonly snapshot: () => Snapshot;
  /** What `/ready` shows as degraded. */
  readonly degraded: Degraded;
  /** Takes a new file. When its migration is refused, the old one is served on and the refusal thrown. */
  reload(config: Config): Promise<void>;
  /**
   * Waits `timeouts.drain_delay` with the port open where a balancer asks for `/ready`, ends in-flight requests within
   * `timeouts.shutdown`, then everything.
   */
  stop(how?: StopOptions): Promise<void>;
  /** Ends the waiting of `stop`; false when it does not wait. */
  hurry(): boolean;
  readonly port: number;
  /** Undefined where none was asked for. */
  readonly adminPort: number | undefined;
  /** How long `stop` waits where somebody asks for `/ready`. */
  drainDelayMs(): number;
  /** What `/ready` would say. */
  isReady(): boolean;
  /** Somebody has asked for `/ready` in the last 30 s. */
  wasProbed(): boolean;
  /** Open ones. */
  connections(): Promise<number>;
  /** Opens or closes the port, for a process that shares it. Closed, answers end their connections. */
  listen(open: boolean): Promise<void>;
};

export type StopOptions = {
  /** Another process has taken the place of this one: its port closes at once, and `/ready` does not change. */
  readonly replaced?: boolean | undefined;
  /** Somebody else says when the delay is over. */
  readonly until?: Promise<void> | undefined;
};

export async function startBackend(options: BackendOptions): Promise<Backend> {
  const { log, config, instance = newInstanceId(), processes = 1, alsoListen: heard = {} } = options;
  checkPasswordHashing();
  const token = metricsToken(options.env);
  const sample = logSample(options.env);
  const logUsers = logsUsers(options.env);
  const metrics = countsFor(options, token);
  const provisioned = await provision(options.database, {
    log,
    waitMs: options.databaseWaitMs ?? 0,
    signal: options.signal,
  });
  const requests = requestConnections(provisioned, config, instance, log);
  await assertRequestSession(requests);
  if (provisioned.applied.length > 0) log.info({ steps: provisioned.applied }, 'provisioned the database');
  const statementCounts = options.dashboard && new StatementCounts();
  const databases = await openDatabases(
    provisioned,
    requests,
    shareOfConnections(config, processes),
    instance,
    log,
    processes,
    { slowMs: options.slowMs, metrics: metrics?.database, statementCounts },
  );
  const { owner, callers, reads } = databases;
  const { clock, keyring, signingKeys, keyAliases, verifier, keysReload } = await openIdentity(
    databases,
    options,
    () => realtime.signingKeysChanged(),
  );

  let phase: 'starting' | 'serving' | 'draining' = 'starting';
  let app: App | undefined;
  let mounts: Mounts | undefined;
  const imports = options.importPreview === true ? undefined : new ImportWatch(owner, log);
  const stopping = new AbortController();
  const degraded = new Degraded();
  const functions = new Functions({
    publishableKey: options.keys.publishable,
    loopbackUrl: () => loopbackUrl(must(app, 'the server'), options.port),
    mode: options.dev ? 'development' : 'production',
    processes,
  });
  const realtime = new Realtime({
    direct: { address: provisioned.owner.direct, applicationName: sessionName(instance, 'realtime') },
    processes,
  });
  const served = new ServedConfig({
    databases,
    functions,
    log,
    verifyStorage: (next) => must(mounts, 'the mounts').verifyStorage(next),
    compareEveryMs: options.compareSchemaEveryMs,
    migrate: (next) => options.migrate(databases.migration, next, stopping.signal),
    listen: () =>
      listen(
        { address: provisioned.owner.direct, applicationName: sessionName(instance, 'listen') },
        [SCHEMA_CHANNEL, SIGNING_KEYS_CHANNEL, IMPORT_CHANNEL, SESSIONS_CHANNEL, ...Object.keys(heard)],
        {
          onNotification: (channel) => {
            if (channel === SCHEMA_CHANNEL) served.schemaChanged();
            else if (channel === SIGNING_KEYS_CHANNEL) keysReload.ask();
            else if (channel === IMPORT_CHANNEL) imports?.heard();
            else if (channel === SESSIONS_CHANNEL) realtime.sessionsEnded();
            else heard[channel]?.();
          },
          onReconnect: () => {
            for (const ask of Object.values(heard)) ask();
            served.schemaChanged();
            keysReload.ask();
            imports?.heard();
            realtime.sessionsEnded();
          },
        },
        log,
      ),
  });
  degraded.watch(
    'catalog_old',
    () =>
      served.catalogFault &&
      `requests are answered from an older catalog, because the database's cannot be read: ${served.catalogFault}`,
  );
  const current = (): Config => served.config ?? config;
  const fallbackProxies = options.trustedProxies ?? [];
  const clients = new ClientReader({
    trusted: () => current().server.trustedProxies ?? fallbackProxies,
    frontSecret: options.frontSecret,
    dev: options.dev,
    log,
  });
  const lameDuck = new LameDuck();
  if (reads) degraded.watch('replica_missing', () => reads.trouble);
  const readiness = new ReadinessWatch({
    phase: () => phase,
    refusal: () => imports?.refusal,
    primary: databases.probe,
    data: callers,
    owners: { auth: owner, storage: databases.storage },
    failoverWaitMs: config.database.failoverWaitMs,
    functionsHealthy: () => functions.healthy(),
    degraded,
  });
  // In front of a release `svc receive` decides where requests go.
  const drainDelay = (): number =>
    options.dev || options.frontSecret !== undefined ? 0 : current().server.timeouts.drainDelayMs;
  const jobs: Array<() => void> = [];
  const context: FeatureContext = {
    snapshot: () => served.snapshot,
    snapshotAfter: (version) => served.after(version),
    callers,
    reads,
    owner,
    credentials: new CredentialReader(options.keys, verifier, keyAliases),
    signingKeys,
    keyring,
    env: options.env,
    log,
    now: clock.now,
    baseUrl: () => (typeof options.baseUrl === 'function' ? options.baseUrl(current()) : options.baseUrl),
    whenServing: (work) => void (phase === 'serving' ? work() : jobs.push(work)),
    dev: options.dev,
    instance,
    degraded,
  };

  const budget = new BudgetWatch({
    db: databases.catalog,
    each: mostConnections(shareOfConnections(config, processes), databases, processes),
    isPooled: () => databases.link.state?.verdict !== 'direct',
    log,
  });
  degraded.watch('connections_short', () => budget.budget?.shortage);

  const partitions = new TimedPartitions({ owner, config: current, log });

  metrics?.follow({
    isReady: () => readiness.current.isReady,
    inFlight: () => app?.inFlight.size ?? 0,
    configHash: () => served.config && hashOf(served.config),
    pendingChanges: () => options.pendingChanges?.(),
    catalogAgeMs: () => served.catalogAgeMs,
    isListening: () => served.isListening,
    stored: new StoredFigures(owner),
    errorReports: options.errorReports,
    more: [(all) => functions.measure(all), (all) => realtime.measure(all)],
  });
  const health: HealthState = {
    phase: () => phase,
    refusal: () => imports?.refusal,
    asked: () => lameDuck.asked(),
    readiness: () => readiness.current,
    isInsider: ({ raw }) => clients.isInsider(raw) || isSecret(context.credentials, raw),
    details: () => ({ instance, link: databases.link.description, connections: budget.budget }),
    superseded: () => options.superseded?.() !== undefined,
    realtime: () => realtime.state,
  };
  let admin: Awaited<ReturnType<typeof openAdmin>> | undefined;

  /** It takes no more connections, although the service does not shut down. */
  let isClosed = false;
  const stop = async ({ replaced = false, until }: StopOptions = {}): Promise<void> => {
    if (stopping.signal.aborted) return;
    const wasServing = phase === 'serving';
    if (!replaced) phase = 'draining';
    isClosed = true;
    // Index builds in the background end here, and the next start continues them.
    stopping.abort();
    if (wasServing) await (until ?? lameDuck.wait(drainDelay(), log));
    readiness.close();
    budget.close();
    clock.close();
    await partitions.close();
    keysReload.close();
    imports?.close();
    await served.close();
    const windowMs = served.config?.server.timeouts.shutdownMs ?? 0;
    if (app) await drain(app, { functions, realtime, windowMs, replaced, dev: options.dev, log });
    await realtime.close();
    // Whatever still runs a statement now is past the shutdown window.
    await databases.close();
    await admin?.close();
    metrics?.close();
  };

  try {
    mounts = createMounts({
      ...options,
      statementCounts,
      functions,
      realtime,
      storageOwner: databases.storage,
      sessions: databases.migration,
    });
    app = await createApp({
      log,
      logSample: sample,
      logUsers,
      context,
      mounts: mounts.mounts,
      health,
      sockets: {
        path: `/realtime/v1${SOCKET_PATH}`,
        accept: async (...upgrade) => await realtime.upgrade(...upgrade),
        format: realtimeFormat,
      },
      cors: () => ({ origins: current().server.cors.origins, allowLoopback: options.dev }),
      timeouts: () => current().server.timeouts,
      clients,
      requestMetrics: metrics?.requests,
      also: (server) => {
        if (token === undefined && !options.dev) return;
        metrics?.registerGuarded(server, token, ({ raw }) => options.dev && clients.isInsider(raw));
      },
      endsConnections: () => phase === 'draining' || isClosed,
      maxInFlight: () => share(current().server.maxInFlight, processes, 1),
      responseBudget: () => {
        const { responseBudgetBytes, maxResponseBytes } = current().server;
        return share(responseBudgetBytes, processes, Math.min(responseBudgetBytes, maxResponseBytes));
      },
    });
    // Open before the migration: a platform that waits for `/live` must not kill a long one. A port that the system
    // chooses is known only once it is open.
    const opensEarly = options.listenEarly ?? (config.server.listenEarly || options.port === 0);
    if (metrics && options.admin) {
      admin = await openAdmin({ address: options.admin, hosts: adminHosts(options.env), health, metrics });
      log.info({ host: options.admin.host, port: admin.port }, 'metrics and probes have a port of their own');
    }
    if (opensEarly) await openPort(app, options.host, options.port);
    await clock.start();
    await served.follow(config);
    // After the listener of `follow` is there: a change right after this reading is then heard of.
    await signingKeys.load();
    await keyAliases.load();
    await imports?.look();
    phase = 'serving';
    readiness.start();
    budget.start();
    if (!opensEarly) await openPort(app, options.host, options.port);
    for (const begin of jobs.splice(0)) begin();
    partitions.start();
    callers.warm().catch((error: unknown) => log.warn({ err: error }, 'could not open connections ahead'));
  } catch (error) {
    await stop();
    throw error;
  }

  const listener = app.server.server;
  const { port } = listener.address() as AddressInfo;
  return {
    url: listenUrl(app, options.host),
    snapshot: () => served.snapshot,
    degraded,
    async reload(next) {
      await served.follow(next);
      const keys = keysForRestart(config, next).filter(
        // A port that was given otherwise has nothing to do with the file.
        (key) => key !== 'server.port' || options.port === config.server.port,
      );
      if (keys.length > 0) log.warn({ keys }, 'these keys of the file have changed and wait for a restart');
    },
    stop,
    hurry: () => lameDuck.end(),
    port,
    adminPort: admin?.port,
    drainDelayMs: drainDelay,
    isReady: () => readiness.current.isReady,
    wasProbed: () => lameDuck.wasAsked,
    connections: () => countConnections(listener),
    async listen(open) {
      isClosed = !open;
      if (open === listener.listening || stopping.signal.aborted) return;
      if (!open) listener.close();
      else await once(listener.listen({ host: options.host, port }), 'listening');
    },
  };
}

/** Processes that share a port would answer in turns, each with its own numbers. */
function countsFor(
  { log, dev, admin, processes = 1 }: BackendOptions,
  token: string | undefined,
): ServerMetrics | undefined {
  if (token === undefined && admin === undefined && !dev) return undefined;
  if (processes === 1) return new ServerMetrics();
  log.warn('there are no metrics and no admin port: they are only served with server.processes: 1');
  return undefined;
}

/** Tells two files apart. */
function hashOf({ source }: Config): string {
  return createHash('sha256').update(source.text).digest('hex').slice(0, 8);
}

type Identity = {
  readonly clock: DatabaseClock;
  readonly keyring: Keyring;
  readonly signingKeys: SigningKeys;
  readonly keyAliases: KeyAliases;
  readonly verifier: TokenVerifier;
  readonly keysReload: RetryUntilDone;
};

/** What tells who calls. The keys are not loaded yet. */
async function openIdentity(
  databases: Databases,
  options: BackendOptions,
  onSigningKeys: () => void,
): Promise<Identity> {
  const { log } = options;
  const keyring = await openKeyring(databases, options);
  const clock = new DatabaseClock(databases.owner, log);
  const signingKeys: SigningKeys = new SigningKeys(databases.owner, keyring.box('signing keys'), () => {
    verifier.forget();
    onSigningKeys();
  });
  const verifier: TokenVerifier = new TokenVerifier(signingKeys, () =>
    Math.floor(clock.now().getTime() / 1000),
  );
  const keyAliases = new KeyAliases(databases.owner, {
    now: () => clock.now().getTime(),
    onChange: () => verifier.forget(),
  });
  const keysReload = new RetryUntilDone(
    async () => {
      await signingKeys.reload();
      await keyAliases.load();
    },
    (error) =>
      log.error(
        { err: error, job: 'signing keys' },
        'could not read the signing keys again; trying until it succeeds',
      ),
  );
  return { clock, keyring, signingKeys, keyAliases, verifier, keysReload };
}

/** In development a lost secret costs test accounts; in production it must not sign everybody out unasked. */
async function openKeyring(databases: Databases, { keys, env, dev }: BackendOptions): Promise<Keyring> {
  try {
    const secrets = environmentSecrets(keys.secret, env);
    return await Keyring.open(databases.owner, secrets, dev ? 'replace' : 'refuse');
  } catch (error) {
    await databases.close();
    throw error;
  }
}

/** A name for this process in locks and history. */
export function instanceName(): string {
  return `${process.pid}-${randomUUID().slice(0, 8)}`;
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
function loopbackUrl(app: App, port: number): string {
  const address = app.server.server.address() as AddressInfo | null;
  return `http://localhost:${address?.port ?? port}`;
}

type DrainOptions = {
  readonly functions: Functions;
  readonly realtime: Realtime;
  readonly windowMs: number;
  readonly replaced: boolean;
  readonly dev: boolean;
  readonly log: Log;
};

/** Sockets are closed over some seconds, so that their clients do not all come back in one. */
const CLOSE_SOCKETS_WITHIN_MS = 10_000;

async function drain(
  app: App,
  { functions, realtime, windowMs, replaced, dev, log }: DrainOptions,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      log.warn({ requests: app.inFlight.size }, 'the shutdown window is over; cutting off what is left');
      for (const scope of app.inFlight) scope.abort('shutdown');
      app.server.server.closeAllConnections();
      resolve();
    }, windowMs);
  });
  const sockets = realtime.drain(dev ? 0 : Math.min(CLOSE_SOCKETS_WITHIN_MS, windowMs / 2));
  let sweep: NodeJS.Timeout | undefined;
  const close = async (): Promise<void> => {
    // Connections that were busy when the close began become idle one by one. Not before: while the port is open, a new
    // connection counts as idle until its request is read.
    sweep = setInterval(() => app.server.server.closeIdleConnections(), 50);
    await app.server.close();
  };
  // Handlers of code functions may call this server while they end; of several, another one answers.
  const ended = replaced ? close().then(() => functions.drain()) : functions.drain().then(close);
  await Promise.race([Promise.all([ended, sockets]), deadline]);
  await functions.stop();
  clearInterval(sweep);
  clearTimeout(timer);
}

function countConnections(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  });
}

/** A secret key in either of the headers. */
function isSecret(credentials: CredentialReader, { headers }: IncomingMessage): boolean {
  const { apikey, authorization } = headers;
  const presented = credentials.readKnown({ apikey, authorization });
  return presented?.apikey.kind === 'secret' || presented?.bearer.kind === 'secret';
}
