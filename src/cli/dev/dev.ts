// `svc dev`: the development server. It uses an embedded PostgreSQL unless SVC_DATABASE_URL is set, creates keys in
// `.env`, migrates immediately, and reloads after every change of the file.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import type { Mode } from '../../config/mode.ts';
import { readModeVariables } from '../../config/read/env-file.ts';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../../embedded-postgres/embedded-postgres.ts';
import { freeStartupMemory } from '../../lib/memory/free-startup-memory.ts';
import { createLog, type LogOptions } from '../../log/log.ts';
import { RecentLines } from '../../log/recent-lines.ts';
import { DEV_POLICY } from '../../migrate/apply/policy.ts';
import { databaseAddresses, oneAddress } from '../../postgres/address/database-addresses.ts';
import { instanceName, startBackend, type Backend } from '../../server/backend.ts';
import { readCloneNote } from '../backup/clone-note.ts';
import { banner } from './banner.ts';
import {
  databaseWait,
  listenPort,
  parsePort,
  publicBaseUrl,
  SERVE_WAIT_MS,
  trustedProxies,
  logSettings,
  slowMs,
} from '../environment.ts';
import type { Environment } from '../environment.ts';
import { CommandFailure, EXIT, explain } from '../exit.ts';
import { ensureKeys } from './keys-file.ts';
import { publishRunningServer } from './running-server.ts';
import { migrator } from '../project/migrator.ts';
import { modeOption, type ModeOption } from '../project/mode-option.ts';
import { loadProject, type Project } from '../project/project.ts';
import { watchProject, type ProjectChanges } from './project-changes.ts';
import { untilStopped } from '../signals.ts';
import { describe, seedDatabase } from '../database/seed.ts';
import type { Terminal } from '../terminal.ts';
import { writeTypes } from '../database/types.ts';
import { assertPortFree } from '../../server/port.ts';

type DevOptions = ModeOption & {
  config?: string;
  port?: number;
  host: string;
  strict?: boolean;
  types?: string;
  sendMail?: true | string;
};

export function devCommand(terminal: Terminal): Command {
  return new Command('dev')
    .description('serve svc.yaml on an embedded PostgreSQL, and reload it after every change')
    .option('-c, --config <file>', 'the configuration file')
    .option('-p, --port <port>', 'listen port', parsePort)
    .option('--host <address>', 'listen address', 'localhost')
    .option('--types <file>', 'write TypeScript types to this file, now and after every change')
    .option(
      '--send-mail [recipients]',
      'send mail instead of capturing it; only to these addresses and @domains, if given',
    )
    .option('--strict', 'treat a table without an rls key as an error')
    .addOption(modeOption('development'))
    .action(async (options: DevOptions) => await dev(options, terminal));
}

/** Applies `--send-mail`, which has the same effect as the variable `SVC_DEV_MAIL`. */
function withMail(env: Environment, sends: DevOptions['sendMail'], hasProvider: boolean): Environment {
  if (sends === undefined) return env;
  if (!hasProvider) throw new CommandFailure(EXIT.misuse, 'error: --send-mail needs providers.email');
  return { ...env, SVC_DEV_MAIL: sends === true ? 'send' : `send:${sends}` };
}

async function dev(options: DevOptions, standard: Terminal): Promise<void> {
  const stopped = untilStopped();
  const startedAt = performance.now();
  const { mode = 'development' } = options;
  const load = (): Promise<Project> => loadProject({ ...options, mode }, standard);
  const project = await load();
  const env = withMail(project.env, options.sendMail, project.config.providers.email !== undefined);
  const port = listenPort(options.port, env, project.config);
  await assertPortFree(options.host, port);
  const settings = logSettings(env, 'pretty', standard);
  const terminal = terminalForLog(standard, settings);
  const keys = ensureKeys(join(project.directory, '.env'), env, terminal);
  const recentLines = new RecentLines();
  const log = createLog({
    ...settings,
    sinks: [recentLines],
  });

  const stateDirectory = join(project.directory, '.svc');
  const own = databaseAddresses(env);
  // Starts before the backend, so that changes during the start are applied afterwards.
  const changes = watchProject(project);
  let postgres: EmbeddedPostgres | undefined;
  let backend: Backend | undefined;
  let withdraw: (() => void) | undefined;
  try {
    if (!own && !existsSync(join(stateDirectory, 'postgres'))) {
      terminal.print('creating a database in .svc; this takes a few seconds, once');
    }
    postgres = own ? undefined : await startEmbeddedPostgres({ dir: stateDirectory, log });
    // Ends a start that waits for its database.
    const abandoned = new AbortController();
    void stopped.then(() => abandoned.abort());
    backend = await startBackend({
      config: project.config,
      database: own ?? oneAddress(postgres?.url ?? ''),
      databaseWaitMs: databaseWait(env, own ? SERVE_WAIT_MS : 0),
      signal: abandoned.signal,
      keys,
      host: options.host,
      port,
      log,
      dev: true,
      env,
      slowMs: slowMs(env, 100),
      baseUrl: publicBaseUrl(env),
      trustedProxies: trustedProxies(env, options.strict ?? false),
      dashboard: {
        mode: 'readwrite',
        recentLines,
        // There is no `reload`: the watcher below detects what the dashboard writes.
        following: {
          variables: () => readModeVariables(project.config.source.directory, mode, process.env),
          strict: options.strict,
          policy: () => DEV_POLICY,
        },
      },
      migrate: migrator({ mode: 'dev', instance: instanceName(), log, terminal }),
    });
    withdraw = publishRunningServer(project.directory, backend.url);
    terminal.print(
      banner({
        project,
        keys,
        url: backend.url,
        postgresVersion: postgres?.version,
        clone: own ? undefined : await readCloneNote(join(project.directory, '.svc')),
        readyInMs: performance.now() - startedAt,
        terminal,
      }),
    );
    freeStartupMemory();
    const onLoaded = async ({ snapshot }: Backend, loaded: Project): Promise<void> => {
      if (options.types) await writeTypes(options.types, snapshot().config, snapshot().catalog);
      if (!own) await seedOwnDatabase(loaded, mode, terminal);
    };
    await onLoaded(backend, project);
    followChanges(changes, backend, { load, onLoaded }, terminal);
    await stopped;
    terminal.print('\nstopping');
  } finally {
    withdraw?.();
    await changes.close();
    await backend?.stop();
    await postgres?.stop();
  }
}

/** Prints messages to stderr if the log on stdout is JSON, so that each stream has one format. */
function terminalForLog(terminal: Terminal, { pretty }: Pick<LogOptions, 'pretty'>): Terminal {
  return pretty === undefined ? { ...terminal, print: terminal.printError } : terminal;
}

/** Seeds the database. Reports a failure and lets the service run. */
async function seedOwnDatabase(project: Project, mode: Mode, terminal: Terminal): Promise<void> {
  if (project.config.seed.length === 0) return;
  try {
    for (const result of await seedDatabase(project, { mode })) terminal.print(describe(result));
  } catch (error) {
    terminal.printError(explain(error).report);
  }
}

/** Reloads after each change. Reports an invalid file and keeps serving the last valid one. */
function followChanges(
  changes: ProjectChanges,
  backend: Backend,
  {
    load,
    onLoaded,
  }: { load: () => Promise<Project>; onLoaded: (backend: Backend, project: Project) => Promise<void> },
  terminal: Terminal,
): void {
  changes.handle(async () => {
    try {
      const next = await load();
      await backend.reload(next.config);
      await onLoaded(backend, next);
      changes.add(next.watched);
      terminal.print(`${terminal.style('green', '✓')} ${next.source} reloaded`);
    } catch (error) {
      terminal.printError(explain(error).report);
      terminal.printError('The last valid configuration is still being served.');
    }
  });
}
