// A process that serves the file in production: its start, its reloads and its end.
import { createHash } from 'node:crypto';
import type { Config } from '../../config/config.ts';
import { readModeVariables } from '../../config/read/env-file.ts';
import { freeStartupMemory } from '../../lib/memory/free-startup-memory.ts';
import { SupersededWatch } from '../../migrate/commands/superseded-watch.ts';
import { instanceName, startBackend, type Backend } from '../../server/backend.ts';
import type { DashboardOptions } from '../../server/mounts.ts';
import { CONFIG_CHANNEL } from '../../shared-config/config-rows.ts';
import type { ParentLink } from '../../supervisor/parent-link.ts';
import {
  adminAddress,
  databaseWait,
  listenPort,
  publicBaseUrl,
  requireDatabase,
  requireKeys,
  SERVE_WAIT_MS,
  slowMs,
  trustedProxies,
} from '../environment.ts';
import { explain } from '../exit.ts';
import { migrator } from '../project/migrator.ts';
import { acceptProject, type Project, type ReadProject } from '../project/project.ts';
import { untilStopped } from '../signals.ts';
import type { Terminal } from '../terminal.ts';
import { ServedConfiguration } from './configuration.ts';
import { createServeLog, exitOnUncaughtException, type ServeLog } from './serve-log.ts';
import { serveMode, type ServeOptions } from './serve-options.ts';

export type ServeStart = {
  /** Connects this process with its supervisor, if it is one of several. */
  readonly parent?: ParentLink;
  /** The file, if it was read already. */
  readonly read?: ReadProject;
};

/** State that the steps below share. */
type Serving = {
  readonly options: ServeOptions;
  readonly terminal: Terminal;
  readonly parent: ParentLink | undefined;
  /** Name of this process in locks and in the history. */
  readonly instance: string;
  readonly configuration: ServedConfiguration;
  readonly project: Project;
  readonly log: ServeLog;
  readonly watch: SupersededWatch;
  /** Reads the configuration again and serves it. Throws if it is refused. */
  readonly reload: (quiet?: boolean) => Promise<void>;
};

export async function serveProcess(
  options: ServeOptions,
  terminal: Terminal,
  { parent, read }: ServeStart,
): Promise<void> {
  let running: Backend | undefined;
  const stopped = parent
    ? parent.left
    : untilStopped(['SIGINT', 'SIGTERM'], {
        stdin: options.untilStdinEnds ?? false,
        again: () => running?.skipDrainDelay() ?? false,
      });
  // Ends a start that waits for its database.
  const abandoned = new AbortController();
  void stopped.then(() => abandoned.abort());
  const instance = instanceName();
  const configuration = await ServedConfiguration.open({
    options,
    terminal,
    instance,
    signal: abandoned.signal,
  });
  const project = read
    ? acceptProject(read, { mode: serveMode(options) }, terminal)
    : await configuration.load(parent?.quiet);
  const hasDashboard = options.dashboard !== 'off';
  const log = createServeLog({ env: project.env, terminal, parent, hasDashboard });
  exitOnUncaughtException(log);
  const reload = (quiet?: boolean): Promise<void> => configuration.reload(running, { log: log.log, quiet });
  const watch = new SupersededWatch();
  const serving = { options, terminal, parent, instance, configuration, project, log, watch, reload };
  running = await start(serving, abandoned.signal);
  if (parent) await runAsWorker(serving, running, parent);
  else await runAlone(serving, running, stopped);
}

async function start(serving: Serving, signal: AbortSignal): Promise<Backend> {
  const { options, terminal, parent, instance, configuration, project, watch } = serving;
  const { env, config } = project;
  const { log, errorReports } = serving.log;
  const { rows } = configuration;
  let pendingChanges: number | undefined;
  const backend = await startBackend({
    config,
    keys: requireKeys(env),
    database: requireDatabase(env),
    databaseWaitMs: databaseWait(env, SERVE_WAIT_MS),
    signal,
    host: options.host,
    admin: adminAddress(options.admin, env),
    pendingChanges: () => pendingChanges,
    errorReports,
    port: parent?.port ?? listenPort(options.port, env, config),
    instance: parent?.instance,
    processes: parent?.processes,
    ...(parent?.first === false && { listenEarly: false }),
    log,
    dev: false,
    env,
    slowMs: slowMs(env, 500),
    baseUrl: publicBaseUrl(env),
    trustedProxies: trustedProxies(env, options.strict ?? false),
    frontSecret: env['SVC_FRONT_SECRET'] || undefined,
    dashboard: dashboardOptions(serving),
    migrate: migrator({
      mode: options.migrate ? 'apply' : 'check',
      instance,
      fence: (source) => configuration.fence(source, env),
      watch,
      onPending: (changes) => {
        pendingChanges = changes;
      },
      superseded: options.superseded,
      log,
      terminal,
    }),
    superseded: () => watch.report,
    importPreview: options.importPreview,
    extraListeners: rows && { [CONFIG_CHANNEL]: () => rows.ask() },
  });
  log.info(
    { url: backend.url, config: project.source, overlay: project.overlay, dashboard: options.dashboard },
    'serving',
  );
  freeStartupMemory();
  configuration.follow(backend, log);
  return backend;
}

function dashboardOptions({
  options,
  parent,
  configuration,
  project,
  log,
  watch,
  reload,
}: Serving): DashboardOptions | undefined {
  if (options.dashboard === 'off') return undefined;
  const { env, config } = project;
  return {
    mode: options.dashboard,
    recentLines: log.recentLines,
    processes: parent && (() => parent.figures()),
    superseded: () => watch.report,
    following: {
      variables: () => readModeVariables(config.source.directory, serveMode(options), process.env),
      strict: options.strict,
      policy: (source) => configuration.fence(source, env),
      async reload() {
        await reload();
        await parent?.reloadOthers();
      },
      reloadOthers: parent && (() => parent.reloadOthers()),
      shared: configuration.rows,
    },
  };
}

/** Serves as one of several processes, until the supervisor ends this one. */
async function runAsWorker(serving: Serving, backend: Backend, parent: ParentLink): Promise<void> {
  parent.serve({
    port: backend.port,
    served: () => ({
      config: hash(backend.snapshot().config),
      drainDelayMs: backend.drainDelayMs(),
    }),
    report: async () => ({
      ready: backend.isReady(),
      probed: backend.wasProbed(),
      memoryBytes: process.memoryUsage.rss(),
      connections: await backend.connections(),
    }),
    async reload(quiet) {
      try {
        await serving.reload(quiet);
      } catch (error) {
        logRefusal(serving.log, error);
        throw error;
      }
    },
    listen: (open) => backend.listen(open),
  });
  const leave = await parent.left;
  await serving.configuration.close();
  await backend.stop(leave);
}

/** Serves as the only process, until a signal ends it. */
async function runAlone(serving: Serving, backend: Backend, stopped: Promise<unknown>): Promise<void> {
  const { log } = serving.log;
  process.on('SIGHUP', () => {
    serving.reload().catch((error: unknown) => logRefusal(serving.log, error));
  });
  // Without a listener, the signal would end the process.
  process.on('SIGUSR2', () => log.warn('SIGUSR2 needs several processes; restart this process instead'));
  const signal = await stopped;
  log.info({ signal }, 'stopping');
  await serving.configuration.close();
  await backend.stop();
  log.info('stopped');
}

function logRefusal({ log }: ServeLog, error: unknown): void {
  log.error(
    { report: explain(error).report },
    'the new configuration was refused; the last valid one is still being served',
  );
}

/** Returns a value that is equal for processes with the same configuration. */
function hash(config: Config): string {
  return createHash('sha256').update(JSON.stringify(config)).digest('hex');
}
