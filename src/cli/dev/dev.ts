// `svc dev`: the development server. An embedded PostgreSQL unless SVC_DATABASE_URL names
// another, keys made and kept in `.env`, migrations at once, and a reload at every change of the file.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import type { Mode } from '../../config/mode.ts';
import { readModeVariables } from '../../config/read/env-file.ts';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../../embedded-postgres/embedded-postgres.ts';
import { freeStartupMemory } from '../../lib/free-startup-memory.ts';
import { createLog } from '../../log/log.ts';
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
import { explain } from '../exit.ts';
import { ensureKeys } from './keys-file.ts';
import { migrator } from '../migrator.ts';
import { modeOption, type ModeOption } from '../mode-option.ts';
import { loadProject, type Project } from '../project.ts';
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
};

export function devCommand(terminal: Terminal): Command {
  return new Command('dev')
    .description('serve svc.yaml on an embedded PostgreSQL, and reload it at every change')
    .option('-c, --config <file>', 'the configuration file')
    .option('-p, --port <port>', 'listen port', parsePort)
    .option('--host <address>', 'listen address', 'localhost')
    .option('--types <file>', 'write TypeScript types there, now and after every change')
    .option('--strict', 'an open table (no rls key) is an error, not a warning')
    .addOption(modeOption('development'))
    .action(async (options: DevOptions) => await dev(options, terminal));
}

async function dev(options: DevOptions, terminal: Terminal): Promise<void> {
  const stopped = untilStopped();
  const startedAt = performance.now();
  const { mode = 'development' } = options;
  const load = (): Promise<Project> => loadProject({ ...options, mode, mayBeKept: true }, terminal);
  const project = await load();
  const { env } = project;
  const port = listenPort(options.port, env, project.config);
  await assertPortFree(options.host, port);
  const keys = ensureKeys(join(project.directory, '.env'), env, terminal);
  const recentLines = new RecentLines();
  const log = createLog({
    ...logSettings(env, process.stdout.isTTY ? 'pretty' : 'json', terminal),
    sinks: [recentLines],
  });

  const stateDirectory = join(project.directory, '.svc');
  const own = databaseAddresses(env);
  // Before the start, so that what changes meanwhile is applied once the service is up.
  const changes = watchProject(project);
  let postgres: EmbeddedPostgres | undefined;
  let backend: Backend | undefined;
  try {
    if (!own && !existsSync(join(stateDirectory, 'postgres'))) {
      terminal.print('making a database in .svc: once, it takes a few seconds');
    }
    postgres = own ? undefined : await startEmbeddedPostgres({ dir: stateDirectory, log });
    // Ends a start that waits for its database.
    const givenUp = new AbortController();
    void stopped.then(() => givenUp.abort());
    backend = await startBackend({
      config: project.config,
      database: own ?? oneAddress(postgres?.url ?? ''),
      databaseWaitMs: databaseWait(env, own ? SERVE_WAIT_MS : 0),
      signal: givenUp.signal,
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
        // No `reload`: the watcher below picks up what the dashboard writes.
        following: {
          variables: () => readModeVariables(project.config.source.directory, mode, process.env),
          strict: options.strict,
          policy: () => DEV_POLICY,
        },
      },
      migrate: migrator({ mode: 'dev', instance: instanceName(), log, terminal }),
    });
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
    project.keep();
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
    await changes.close();
    await backend?.stop();
    await postgres?.stop();
  }
}

/** The service is up whatever becomes of it. */
async function seedOwnDatabase(project: Project, mode: Mode, terminal: Terminal): Promise<void> {
  if (project.config.seed.length === 0) return;
  try {
    for (const result of await seedDatabase(project, { mode })) terminal.print(describe(result));
  } catch (error) {
    terminal.printError(explain(error).report);
  }
}

/** A bad file is reported, and the last good one stays. */
function followChanges(
  changes: ProjectChanges,
  backend: Backend,
  {
    load,
    onLoaded,
  }: { load: () => Promise<Project>; onLoaded: (backend: Backend, project: Project) => Promise<void> },
  terminal: Terminal,
): void {
  changes.take(async () => {
    try {
      const next = await load();
      await backend.reload(next.config);
      await onLoaded(backend, next);
      changes.add(next.watched);
      // A change is told from an older text just as well.
      if (next.isReadWhole) next.keep();
      terminal.print(`${terminal.style('green', '✓')} ${next.source} reloaded`);
    } catch (error) {
      terminal.printError(explain(error).report);
      terminal.printError('The last good configuration is still being served.');
    }
  });
}
