// A running backend: the database is prepared, the schema migrated and the port open. This file defines the
// start order.
// The stop order is the reverse: requests end while everything that they use still runs.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { checkPasswordHashing } from '../auth/users/password.ts';
import type { Config } from '../config/config.ts';
import { keysForRestart } from '../config/restart-keys.ts';
import type { Snapshot } from '../http/feature.ts';
import { must } from '../lib/assert.ts';
import type { Degraded } from '../lib/degraded.ts';
import { Lifecycle } from '../lib/lifecycle.ts';
import { newInstanceId } from '../postgres/instances.ts';
import type { App } from './app.ts';
import type { BackendOptions } from './backend-options.ts';
import { adminHosts, openAdmin } from './health/admin.ts';
import type { HealthState } from './health/health.ts';
import type { ServerMetrics } from './health/metrics.ts';
import { RunState } from './run-state.ts';
import { openConnections } from './start/connections.ts';
import { drain } from './start/drain.ts';
import { createHealth, createHttp, createMetrics, followFigures } from './start/http.ts';
import { loadKeys } from './start/identity.ts';
import { countConnections, listenUrl, loopbackUrl, openPort } from './start/port.ts';
import { createServices, type Services, type StartOptions } from './start/services.ts';

export type { BackendOptions } from './backend-options.ts';

export type Backend = {
  /** URL of the server, for example `http://127.0.0.1:8080`. */
  readonly url: string;
  readonly snapshot: () => Snapshot;
  /** Reasons that `/ready` reports as degraded. */
  readonly degraded: Degraded;
  /** Serves a new file. If its migration is rejected, throws the problem and keeps serving the old file. */
  reload(config: Config): Promise<void>;
  /**
   * Keeps the port open for `timeouts.drain_delay` if a balancer polls `/ready`, gives requests
   * `timeouts.shutdown` to end, then stops everything.
   */
  stop(how?: StopOptions): Promise<void>;
  /** Ends the drain delay of `stop`. Returns false if there is none. */
  skipDrainDelay(): boolean;
  readonly port: number;
  /** Undefined without an admin port. */
  readonly adminPort: number | undefined;
  /** Drain delay of `stop` if a balancer polls `/ready`, in milliseconds. */
  drainDelayMs(): number;
  /** Whether `/ready` would respond with 200. */
  isReady(): boolean;
  /** Whether `/ready` was polled in the last 30 s. */
  wasProbed(): boolean;
  /** Number of open client connections. */
  connections(): Promise<number>;
  /**
   * Opens or closes the port, for a process that shares it. While it is closed, responses close their
   * connections.
   */
  listen(open: boolean): Promise<void>;
};

export type StopOptions = {
  /** Another process has replaced this one: the port closes immediately, and `/ready` does not change. */
  readonly replaced?: boolean | undefined;
  /** Ends the drain delay. Default: the delay of the file. */
  readonly until?: Promise<void> | undefined;
};

export async function startBackend(given: BackendOptions): Promise<Backend> {
  checkPasswordHashing();
  const state = new RunState();
  let app: App | undefined;
  const options: StartOptions = {
    ...given,
    instance: given.instance ?? newInstanceId(),
    processes: given.processes ?? 1,
    state,
    loopbackUrl: () => loopbackUrl(must(app, 'the server'), given.port),
  };
  const lifecycle = new Lifecycle();
  /** Set by `stop`, read by the components that it stops. */
  let how: StopOptions = {};
  try {
    const metrics = createMetrics(options);
    await lifecycle.start({ name: 'metrics', stop: () => metrics?.close() });
    const connections = await openConnections(options, metrics);
    await lifecycle.start({ name: 'connections', stop: () => connections.databases.close() });
    const services = await createServices(options, connections);
    const health = createHealth(options, services);
    app = await createHttp(options, { services, health, metrics });
    followFigures(metrics, app, { options, services });
    const admin = await startAdmin(lifecycle, { options, health, metrics });
    await startServices(lifecycle, { options, services, app, how: () => how });
    const stop = async (next: StopOptions = {}): Promise<void> => {
      if (state.stopping.aborted) return;
      how = next;
      state.stop({ replaced: next.replaced === true });
      await lifecycle.stop();
    };
    return toBackend(options, { services, app, admin, stop });
  } catch (error) {
    state.stop({ replaced: false });
    const closed = lifecycle.stop().then(() => app?.server.close());
    await closed.catch((failure: unknown) =>
      given.log.warn({ err: failure }, 'could not end a failed start'),
    );
    throw error;
  }
}

type Admin = Awaited<ReturnType<typeof openAdmin>> | undefined;

async function startAdmin(
  lifecycle: Lifecycle,
  {
    options: { admin: address, env, log },
    health,
    metrics,
  }: { options: StartOptions; health: HealthState; metrics: ServerMetrics | undefined },
): Promise<Admin> {
  if (!metrics || !address) return undefined;
  const admin = await openAdmin({ address, hosts: adminHosts(env), health, metrics });
  await lifecycle.start({ name: 'admin port', stop: () => admin.close() });
  log.info({ host: address.host, port: admin.port }, 'the admin port serves metrics and probes');
  return admin;
}

type Started = {
  readonly options: StartOptions;
  readonly services: Services;
  readonly app: App;
  readonly how: () => StopOptions;
};

async function startServices(lifecycle: Lifecycle, { options, services, app, how }: Started): Promise<void> {
  const { config, host, log, port, state } = options;
  const { databases, deliveries, drainDelay, ended, functions, identity, imports, realtime, served } =
    services;
  // Opens before the migration, so that a platform that polls `/live` does not kill a long migration. A port that the
  // system chooses is known only after it is open.
  const opensEarly = options.listenEarly ?? (config.server.listenEarly || port === 0);
  const windowMs = (): number => served.config?.server.timeouts.shutdownMs ?? 0;
  await lifecycle.start({ name: 'deliveries', stop: () => deliveries.close() });
  await lifecycle.start({ name: 'realtime', stop: () => realtime.close() });
  await lifecycle.start({
    name: 'requests',
    start: async () => opensEarly && (await openPort(app, host, port)),
    stop: () =>
      drain(app, {
        functions,
        realtime,
        windowMs: windowMs(),
        replaced: how().replaced === true,
        dev: options.dev,
        log,
      }),
  });
  await lifecycle.start({
    name: 'clock',
    start: () => identity.clock.start(),
    stop: () => identity.clock.close(),
  });
  await lifecycle.start({
    name: 'configuration',
    start: () => served.follow(config),
    stop: () => served.close(),
  });
  // Starts after the listener of `follow`, so that later changes are announced.
  await lifecycle.start({
    name: 'keys',
    start: () => loadKeys(identity),
    stop: () => identity.keysReload.close(),
  });
  await lifecycle.start({
    name: 'ended sessions',
    start: () => ended.start(),
    stop: () => ended.close(),
  });
  await lifecycle.start({
    name: 'import state',
    start: () => imports?.read(),
    stop: () => imports?.close(),
  });
  state.serve();
  await startWatches(lifecycle, services);
  if (!opensEarly) await openPort(app, host, port);
  state.runWaiting();
  services.partitions.start();
  await lifecycle.start({ name: 'partitions', stop: () => services.partitions.close() });
  await lifecycle.start({
    name: 'claims of deliveries',
    // The preview of an import serves the database of another project.
    start: async () => options.importPreview !== true && (await deliveries.start()),
    stop: () => deliveries.stop(),
  });
  await lifecycle.start({
    name: 'drain delay',
    stop: () => how().until ?? drainDelay.wait(drainDelayMs(options, services), log),
  });
  databases.callers
    .warm()
    .catch((error: unknown) => log.warn({ err: error }, 'could not open connections ahead'));
}

async function startWatches(lifecycle: Lifecycle, { readiness, budget }: Services): Promise<void> {
  await lifecycle.start({ name: 'readiness', start: () => readiness.start(), stop: () => readiness.close() });
  await lifecycle.start({
    name: 'connection budget',
    start: () => budget.start(),
    stop: () => budget.close(),
  });
}

/** Returns the drain delay. Zero behind `svc receive`, which decides which process gets requests. */
function drainDelayMs({ dev, frontSecret }: StartOptions, { current }: Services): number {
  return dev || frontSecret !== undefined ? 0 : current().server.timeouts.drainDelayMs;
}

type Running = {
  readonly services: Services;
  readonly app: App;
  readonly admin: Admin;
  readonly stop: Backend['stop'];
};

function toBackend(options: StartOptions, { services, app, admin, stop }: Running): Backend {
  const { config, host, log, state } = options;
  const { drainDelay, readiness, served } = services;
  const listener = app.server.server;
  const { port } = listener.address() as AddressInfo;
  return {
    url: listenUrl(app, host),
    snapshot: () => served.snapshot,
    degraded: services.degraded,
    async reload(next) {
      await served.follow(next);
      const keys = keysForRestart(config, next).filter(
        // `--port` takes precedence over the file.
        (key) => key !== 'server.port' || options.port === config.server.port,
      );
      if (keys.length > 0)
        log.warn({ keys }, 'these keys of the file have changed; restart the service to apply them');
    },
    stop,
    skipDrainDelay: () => drainDelay.skip(),
    port,
    adminPort: admin?.port,
    drainDelayMs: () => drainDelayMs(options, services),
    isReady: () => readiness.current.isReady,
    wasProbed: () => drainDelay.wasProbed,
    connections: () => countConnections(listener),
    async listen(open) {
      state.isClosed = !open;
      if (open === listener.listening || state.stopping.aborted) return;
      if (!open) listener.close();
      else await once(listener.listen({ host, port }), 'listening');
    },
  };
}

/** Returns a name for this process in locks and in the history. */
export function instanceName(): string {
  return `${process.pid}-${randomUUID().slice(0, 8)}`;
}
