// A process that serves the file in production: from its start to its end.
import { readModeVariables } from '../../config/read/env-file.ts';
import type { Config } from '../../config/config.ts';
import type { Source } from '../../config/read/source.ts';
import { fencePolicy } from '../../deploy/deploy-number.ts';
import { createHash } from 'node:crypto';
import { freeStartupMemory } from '../../lib/free-startup-memory.ts';
import { SerialQueue } from '../../lib/serial-queue.ts';
import { packageVersion } from '../../lib/own-files.ts';
import { ErrorReports } from '../../log/error-reports.ts';
import { createLog } from '../../log/log.ts';
import { RecentLines } from '../../log/recent-lines.ts';
import { SERVE_POLICY, type MigrationPolicy } from '../../migrate/apply/policy.ts';
import { CONFIG_CHANNEL } from '../../shared-config/config-rows.ts';
import { SupersededWatch } from '../../migrate/commands/superseded-watch.ts';
import type { ParentLink } from '../../supervisor/parent-link.ts';
import { instanceName, startBackend, type Backend } from '../../server/backend.ts';
import {
  adminAddress,
  databaseWait,
  errorWebhook,
  listenPort,
  publicBaseUrl,
  requireDatabase,
  trustedProxies,
  requireKeys,
  SERVE_WAIT_MS,
  logSettings,
  slowMs,
} from '../environment.ts';
import { EXIT, explain } from '../exit.ts';
import { IN_DATABASE } from '../config/in-database.ts';
import { FollowedRows } from '../config/rows.ts';
import { migrator } from '../migrator.ts';
import { acceptProject, loadProject, type Project, type ReadProject } from '../project.ts';
import { untilStopped } from '../signals.ts';
import { modeOf, type ServeOptions } from './serve-options.ts';
import type { Terminal } from '../terminal.ts';

export type ServeStart = {
  /** Where this is one of several processes. */
  readonly parent?: ParentLink;
  /** The file, where it was read already. */
  readonly read?: ReadProject;
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
        again: () => running?.hurry() ?? false,
      });
  // Ends a start that waits for its database.
  const givenUp = new AbortController();
  void stopped.then(() => givenUp.abort());
  const name = instanceName();
  const mode = modeOf(options);
  const rows =
    options.config === IN_DATABASE ? await openRows(options, name, givenUp.signal, terminal) : undefined;
  const load = (quiet = false): Promise<Project> => {
    const heard = quiet ? { ...terminal, printError: () => {} } : terminal;
    return rows ? rows.project(heard) : loadProject({ ...options, mode, mayBeKept: true }, heard);
  };
  const project = read ? acceptProject(read, { mode }, terminal) : await load(parent?.quiet);
  const { env, config } = project;
  const keys = requireKeys(env);
  const database = requireDatabase(env);
  const { deploySeq, allowRollback } = options;
  const fence = (source: Source): Partial<MigrationPolicy> => ({
    ...SERVE_POLICY,
    // A row is its own number. What this instance served last says nothing: the row was applied by whoever wrote it.
    ...(rows
      ? { deploySeq: rows.sequence, replaces: null }
      : fencePolicy(source, { deploySeq, allowRollback, env })),
  });
  const watch = new SupersededWatch();
  let pendingChanges: number | undefined;
  const reloads = new SerialQueue();
  // One at a time: a slow read must not bring an older file back.
  const reload = (quiet?: boolean): Promise<void> =>
    reloads.run(async () => {
      if (rows) return await rows.takeNewest();
      const next = await load(quiet);
      await running?.reload(next.config);
      log.info({ config: next.source, overlay: next.overlay }, 'reloaded');
      next.keep();
    });
  const recentLines = parent ?? new RecentLines();
  const dashboard =
    options.dashboard === 'off'
      ? undefined
      : {
          mode: options.dashboard,
          recentLines,
          processes: parent && (() => parent.figures()),
          superseded: () => watch.report,
          following: {
            variables: () => readModeVariables(config.source.directory, mode, process.env),
            strict: options.strict,
            policy: fence,
            reload: async () => {
              await reload();
              await parent?.reloadOthers();
            },
            reloadOthers: parent && (() => parent.reloadOthers()),
            shared: rows,
          },
        };
  const webhook = errorWebhook(env);
  const errorReports =
    webhook === undefined ? undefined : new ErrorReports({ url: webhook, release: packageVersion() });
  const log = createLog({
    ...logSettings(env, 'json', terminal),
    sinks: [...(dashboard ? [recentLines] : []), ...(errorReports ? [errorReports] : [])],
    process: parent?.process,
  });
  // Nothing is known of the state that is left: it is told of, and the process ends.
  process.once('uncaughtException', (error) => {
    log.fatal({ err: error }, 'an error that nobody has caught ends the process');
    void Promise.resolve(errorReports?.settled()).finally(() => process.exit(EXIT.fault));
  });
  const backend = await startBackend({
    config,
    database,
    databaseWaitMs: databaseWait(env, SERVE_WAIT_MS),
    signal: givenUp.signal,
    keys,
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
    dashboard,
    migrate: migrator({
      mode: options.migrate ? 'apply' : 'check',
      instance: name,
      fence,
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
    alsoListen: rows && { [CONFIG_CHANNEL]: () => rows.ask() },
  });
  log.info(
    { url: backend.url, config: project.source, overlay: project.overlay, dashboard: options.dashboard },
    'serving',
  );
  // Of several processes, one.
  if (parent?.first !== false) project.keep();
  freeStartupMemory();
  running = backend;
  rows?.follow(
    (next) => backend.reload(next),
    log,
    (reason) =>
      reason === undefined
        ? backend.degraded.clear('config_not_taken')
        : backend.degraded.report('config_not_taken', reason),
  );
  if (parent) {
    parent.serve({
      port: backend.port,
      served: () => ({
        config: hashOf(backend.snapshot().config),
        drainDelayMs: backend.drainDelayMs(),
      }),
      report: async () => ({
        ready: backend.isReady(),
        probed: backend.wasProbed(),
        memoryBytes: process.memoryUsage.rss(),
        connections: await backend.connections(),
      }),
      reload: async (quiet) => {
        await reload(quiet).catch((error: unknown) => {
          reportRefusal(error);
          throw error;
        });
      },
      listen: (open) => backend.listen(open),
    });
    const leave = await parent.left;
    await rows?.close();
    return await backend.stop(leave);
  }
  process.on('SIGHUP', () => void reload().catch(reportRefusal));
  // Unheard, it would end the process.
  process.on('SIGUSR2', () =>
    log.warn('SIGUSR2 replaces one of several processes; start this one again instead'),
  );
  const signal = await stopped;
  log.info({ signal }, 'stopping');
  await rows?.close();
  await backend.stop();
  log.info('stopped');

  /** SIGHUP reads the file again; a bad one is reported and changes nothing. */
  function reportRefusal(error: unknown): void {
    log.error(
      { report: explain(error).report },
      'the new configuration was refused; the last good one is still being served',
    );
  }
}

async function openRows(
  options: ServeOptions,
  instance: string,
  signal: AbortSignal,
  terminal: Terminal,
): Promise<FollowedRows> {
  const { initialConfig, strict } = options;
  const env = readModeVariables(undefined, 'production', process.env);
  const waitMs = databaseWait(env, SERVE_WAIT_MS);
  return await FollowedRows.open(
    {
      database: requireDatabase(env),
      waitMs,
      signal,
      initialConfig,
      strict,
      instance,
      mode: modeOf(options),
    },
    terminal,
  );
}

/** Equal for two processes that serve the same. */
function hashOf(config: Config): string {
  return createHash('sha256').update(JSON.stringify(config)).digest('hex');
}
