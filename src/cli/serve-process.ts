// A process that serves the file in production: from its start to its end.
import { readModeVariables } from '../config/read/env-file.ts';
import type { Source } from '../config/read/source.ts';
import { fencePolicy } from '../deploy/deploy-number.ts';
import { freeStartupMemory } from '../lib/free-startup-memory.ts';
import { SerialQueue } from '../lib/serial-queue.ts';
import { createLog } from '../log/log.ts';
import { RecentLines } from '../log/recent-lines.ts';
import { SERVE_POLICY, type MigrationPolicy } from '../migrate/apply/policy.ts';
import { SupersededWatch } from '../migrate/commands/superseded-watch.ts';
import { instanceName, startBackend, type Backend } from '../server/backend.ts';
import {
  databaseWait,
  listenPort,
  publicBaseUrl,
  requireDatabase,
  trustedProxies,
  requireKeys,
  SERVE_WAIT_MS,
} from './environment.ts';
import { explain } from './exit.ts';
import { migrator } from './migrator.ts';
import { loadProject, type Project } from './project.ts';
import { untilStopped } from './signals.ts';
import type { ServeOptions } from './serve.ts';
import type { Terminal } from './terminal.ts';

export async function serveProcess(options: ServeOptions, terminal: Terminal): Promise<void> {
  let running: Backend | undefined;
  const stopped = untilStopped(['SIGINT', 'SIGTERM'], {
    stdin: options.untilStdinEnds ?? false,
    again: () => running?.hurry() ?? false,
  });
  const load = (): Promise<Project> => loadProject({ ...options, mode: 'production' }, terminal);
  const project = await load();
  const { env, config } = project;
  const keys = requireKeys(env);
  const database = requireDatabase(env);
  const { deploySeq, allowRollback } = options;
  const fence = (source: Source): Partial<MigrationPolicy> => ({
    ...SERVE_POLICY,
    ...fencePolicy(source, { deploySeq, allowRollback, env }),
  });
  const watch = new SupersededWatch();
  const reloads = new SerialQueue();
  // One at a time: a slow read must not bring an older file back.
  const reload = (): Promise<void> =>
    reloads.run(async () => {
      const next = await load();
      await running?.reload(next.config);
      log.info({ config: next.source }, 'reloaded');
    });
  const dashboard =
    options.dashboard === 'off'
      ? undefined
      : {
          mode: options.dashboard,
          recentLines: new RecentLines(),
          superseded: () => watch.report,
          following: {
            variables: () => readModeVariables(config.source.directory, 'production', process.env),
            strict: options.strict,
            policy: fence,
            reload,
          },
        };
  const log = createLog({ level: env['SVC_LOG_LEVEL'], recentLines: dashboard?.recentLines });
  // Ends a start that waits for its database.
  const givenUp = new AbortController();
  void stopped.then(() => givenUp.abort());
  const backend = await startBackend({
    config,
    database,
    databaseWaitMs: databaseWait(env, SERVE_WAIT_MS),
    signal: givenUp.signal,
    keys,
    host: options.host,
    port: listenPort(options.port, env, config),
    log,
    dev: false,
    env,
    baseUrl: publicBaseUrl(env),
    trustedProxies: trustedProxies(env, options.strict ?? false),
    frontSecret: env['SVC_FRONT_SECRET'] || undefined,
    dashboard,
    migrate: migrator({
      mode: options.migrate ? 'apply' : 'check',
      instance: instanceName(),
      fence,
      watch,
      superseded: options.superseded,
      log,
      terminal,
    }),
    superseded: () => watch.report,
  });
  log.info({ url: backend.url, config: project.source, dashboard: options.dashboard }, 'serving');
  freeStartupMemory();
  running = backend;
  process.on('SIGHUP', () => void reload().catch(reportRefusal));
  const signal = await stopped;
  log.info({ signal }, 'stopping');
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
