// Creates the parts of a backend that follow the file and the database, and the context of features.
import type { Config } from '../../config/config.ts';
import { Deliveries } from '../../deliveries/deliveries.ts';
import { Functions } from '../../functions/functions.ts';
import { ClientReader } from '../../http/client.ts';
import type { FeatureContext } from '../../http/feature.ts';
import { CredentialReader } from '../../identity/credentials.ts';
import { EndedSessions } from '../../identity/ended-sessions.ts';
import { Degraded } from '../../lib/degraded.ts';
import { TimedPartitions } from '../../migrate/commands/timed-partitions.ts';
import { listen, type Listener } from '../../postgres/listen.ts';
import { sessionName } from '../../postgres/instances.ts';
import type { Provisioned } from '../../provision/provision.ts';
import { Realtime } from '../../realtime/realtime.ts';
import type { BackendOptions } from '../backend-options.ts';
import { maxConnections, type Databases } from '../database/databases.ts';
import { DrainDelay } from '../drain-delay.ts';
import { BudgetWatch } from '../health/connection-budget.ts';
import { ReadinessWatch } from '../health/readiness.ts';
import { ImportState } from '../import-state.ts';
import { createMounts, type Mounts } from '../mounts.ts';
import { connectionsPerProcess } from '../per-process.ts';
import type { RunState } from '../run-state.ts';
import { ServedConfig } from '../served-config.ts';
import type { Connections } from './connections.ts';
import { openIdentity, type Identity } from './identity.ts';
import { handlers, subscriptions } from './notifications.ts';

/** Options with the defaults of this process. */
export type StartOptions = BackendOptions & {
  readonly instance: string;
  readonly processes: number;
  readonly state: RunState;
  /** URL of the server for processes of this machine. Known once the server is created. */
  readonly loopbackUrl: () => string;
};

export type Services = {
  readonly databases: Databases;
  readonly identity: Identity;
  readonly functions: Functions;
  readonly deliveries: Deliveries;
  readonly realtime: Realtime;
  readonly mounts: Mounts;
  readonly served: ServedConfig;
  readonly imports: ImportState | undefined;
  readonly ended: EndedSessions;
  readonly clients: ClientReader;
  readonly drainDelay: DrainDelay;
  readonly readiness: ReadinessWatch;
  readonly budget: BudgetWatch;
  readonly partitions: TimedPartitions;
  readonly degraded: Degraded;
  readonly context: FeatureContext;
  /** Returns the served configuration, or the configuration of the start before there is one. */
  readonly current: () => Config;
};

/** Creates the services. They do not run yet. */
export async function createServices(
  options: StartOptions,
  { provisioned, databases, statementCounts }: Connections,
): Promise<Services> {
  const { config, instance, log, processes, state } = options;
  const { owner } = databases;
  const realtime = new Realtime({
    direct: { address: provisioned.owner.direct, applicationName: sessionName(instance, 'realtime') },
    processes,
  });
  const identity = await openIdentity(owner, options, () => realtime.signingKeysChanged());
  const functions = createFunctions(options);
  const mounts = createMounts({
    ...options,
    statementCounts,
    functions,
    realtime,
    storageOwner: databases.storage,
    sessions: databases.migration,
  });
  const imports = options.importPreview === true ? undefined : new ImportState(owner, log);
  const ended = new EndedSessions({
    db: owner,
    log,
    isListening: () => served.isListening,
    isEnabled: () => current().auth.sessions.revocation === 'immediate',
  });
  const deliveries = createDeliveries(options, { databases, functions, imports });
  const served: ServedConfig = new ServedConfig({
    databases,
    functions,
    deliveries,
    log,
    verifyStorage: mounts.verifyStorage,
    compareEveryMs: options.compareSchemaEveryMs,
    migrate: (next) => options.migrate(databases.migration, next, state.stopping),
    listen: async () => {
      const { keysReload } = identity;
      const notified = { served, keysReload, imports, ended, realtime, deliveries };
      return await listenTo(options, provisioned, subscriptions(notified, options.extraListeners ?? {}));
    },
  });
  const current = (): Config => served.config ?? config;
  const degraded = new Degraded();
  const credentials = new CredentialReader(options.keys, identity.verifier, {
    aliases: identity.keyAliases,
    ended,
  });
  const parts = { databases, identity, functions, served, credentials, degraded, current };
  const services = {
    databases,
    identity,
    functions,
    deliveries,
    realtime,
    mounts,
    served,
    imports,
    ended,
    clients: createClientReader(options, current),
    drainDelay: new DrainDelay(),
    partitions: new TimedPartitions({ owner, config: current, log }),
    degraded,
    context: createContext(options, parts),
    current,
  };
  return { ...services, ...createWatches(options, services) };
}

function createFunctions(options: StartOptions): Functions {
  return new Functions({
    publishableKey: options.keys.publishable,
    loopbackUrl: options.loopbackUrl,
    mode: options.dev ? 'development' : 'production',
    processes: options.processes,
  });
}

function createDeliveries(
  { config, instance, log, processes }: StartOptions,
  { databases, functions, imports }: Pick<Services, 'databases' | 'functions' | 'imports'>,
): Deliveries {
  return new Deliveries({
    owner: databases.owner,
    callers: databases.callers,
    callFunction: (name, call) => functions.callForEvent(name, call),
    instance,
    connections: connectionsPerProcess(config, processes).database.pool.max,
    canRun: () => imports?.refusal === undefined,
    log,
  });
}

function createClientReader(options: StartOptions, current: () => Config): ClientReader {
  // One array, because the reader parses the list again when it gets a different array.
  const fallback = options.trustedProxies ?? [];
  return new ClientReader({
    trusted: () => current().server.trustedProxies ?? fallback,
    frontSecret: options.frontSecret,
    dev: options.dev,
    log: options.log,
  });
}

async function listenTo(
  { instance, log }: StartOptions,
  { owner }: Provisioned,
  table: ReturnType<typeof subscriptions>,
): Promise<Listener> {
  const settings = { address: owner.direct, applicationName: sessionName(instance, 'listen') };
  return await listen(settings, Object.keys(table), handlers(table), log);
}

type ContextParts = Pick<
  Services,
  'databases' | 'identity' | 'functions' | 'served' | 'degraded' | 'current'
> & {
  readonly credentials: CredentialReader;
};

function createContext(
  options: StartOptions,
  { databases, identity, functions, served, degraded, current, credentials }: ContextParts,
): FeatureContext {
  const { callers, reads, owner } = databases;
  const { baseUrl, dev, env, instance, log, state } = options;
  return {
    snapshot: () => served.snapshot,
    snapshotAfter: (version) => served.after(version),
    callers,
    reads,
    owner,
    credentials,
    signingKeys: identity.signingKeys,
    keyring: identity.keyring,
    env,
    log,
    now: identity.clock.now,
    baseUrl: () => (typeof baseUrl === 'function' ? baseUrl(current()) : baseUrl),
    whenServing: (work) => state.whenServing(work),
    dev,
    instance,
    degraded,
    callFunction: (call) => functions.call(call),
  };
}

type Watched = Pick<Services, 'databases' | 'functions' | 'served' | 'imports' | 'degraded'>;

/** Creates the watches of the database, and registers the reasons for a degraded service. */
function createWatches(
  { config, log, processes, state }: StartOptions,
  { databases, functions, served, imports, degraded }: Watched,
): Pick<Services, 'readiness' | 'budget'> {
  const { reads } = databases;
  const budget = new BudgetWatch({
    db: databases.catalog,
    each: maxConnections(connectionsPerProcess(config, processes), databases, processes),
    isPooled: () => databases.link.state?.verdict !== 'direct',
    log,
  });
  degraded.watch(
    'catalog_old',
    () =>
      served.catalogFault &&
      `requests are answered from an older catalog, because the database's cannot be read: ${served.catalogFault}`,
  );
  if (reads) degraded.watch('replica_missing', () => reads.trouble);
  degraded.watch('connections_short', () => budget.budget?.shortage);
  const readiness = new ReadinessWatch({
    phase: () => state.phase,
    refusal: () => imports?.refusal,
    primary: databases.probe,
    data: databases.callers,
    owners: { auth: databases.owner, storage: databases.storage },
    failoverWaitMs: config.database.failoverWaitMs,
    functionsHealthy: () => functions.healthy(),
    degraded,
  });
  return { budget, readiness };
}
