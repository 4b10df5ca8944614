// `svc serve`: the same file in production. Refuses to start without keys; changes the database only with
// `--migrate`. Only the options are here: what serves is loaded when it is needed.
import { Command, Option } from 'commander';
import { ParentLink } from '../../supervisor/parent-link.ts';
import type { SupervisorOptions } from '../../supervisor/supervisor.ts';
import { readModeVariables } from '../../config/read/env-file.ts';
import { IN_DATABASE } from '../config/in-database.ts';
import {
  logSettings,
  parseDeploySeq,
  parsePort,
  parseProcesses,
  processCount,
  type Environment,
} from '../environment.ts';
import { modeOption } from '../mode-option.ts';
import { readProject, type ReadProject } from '../project.ts';
import type { Terminal } from '../terminal.ts';
import { modeOf, type ServeOptions } from './serve-options.ts';

/** `database.pool.max` where nobody has written it. */
const DEFAULT_POOL = 20;

export function serveCommand(terminal: Terminal): Command {
  return (
    new Command('serve')
      .description('serve svc.yaml in production, on the PostgreSQL of SVC_DATABASE_URL')
      .option(
        '-c, --config <location>',
        'file, https:// or s3:// location of the configuration; database: the one that instances share there',
      )
      .option(
        '--initial-config <file>',
        'with --config database: the first configuration, while there is none',
      )
      .addOption(modeOption('production'))
      .option('-p, --port <port>', 'listen port', parsePort)
      .option('--host <address>', 'listen address', '0.0.0.0')
      .option('--admin <[host:]port>', 'a port for metrics and probes; SVC_ADMIN_LISTEN')
      .option('--processes <n>', 'processes that share the port: a number, or auto', parseProcesses)
      .option('--migrate', 'apply pending schema changes before serving')
      .option('--import-preview', 'serve an import before its cut-over, to try an application with it')
      .option('--strict', 'refuse to start with an open table (no rls key)')
      .option(
        '--deploy-seq <number>',
        'number of this deployment; one that is lower than the last does not migrate',
        parseDeploySeq,
      )
      .option('--allow-rollback', 'apply this file even if a newer one has replaced it')
      .addOption(
        new Option(
          '--superseded <what>',
          'when a newer file has replaced this one: serve the database as it is, or refuse to start',
        )
          .choices(['serve', 'refuse'])
          .default('serve'),
      )
      .addOption(
        new Option(
          '--dashboard <mode>',
          'serve the dashboard at /dashboard: read and write, read-only, or not at all',
        )
          .choices(['readwrite', 'readonly', 'off'])
          .default('readonly'),
      )
      // For `svc receive`, which holds the other end: a release ends with its receiver, and its files outlive it.
      .addOption(new Option('--until-stdin-ends').hideHelp())
      .addOption(new Option('--data-directory <directory>').hideHelp())
      .action(async (options: ServeOptions) => {
        const parent = await ParentLink.join();
        const start = parent ? { parent } : await howToStart(options, terminal);
        if ('supervised' in start) {
          const { Supervisor } = await import('../../supervisor/supervisor.ts');
          process.exitCode = await new Supervisor(start.supervised).run();
          return;
        }
        const { serveProcess } = await import('./serve-process.ts');
        try {
          await serveProcess(options, terminal, start);
        } finally {
          // Also after a start that was refused or given up: the channel would keep the process running.
          parent?.close();
        }
      })
  );
}

type AsOneProcess = {
  /** The file, where it was read to find that out. With mistakes, the process tells them. */
  readonly read?: ReadProject;
};

async function howToStart(
  options: ServeOptions,
  terminal: Terminal,
): Promise<AsOneProcess | { readonly supervised: SupervisorOptions }> {
  if (options.config === IN_DATABASE) {
    // The parent has no connection, so only the option and the variable count.
    const env = readModeVariables(undefined, 'production', process.env);
    const processes = processCount(options.processes, env, NOTHING_WRITTEN);
    return processes === 1 ? {} : { supervised: toSupervise(options, env, processes, terminal) };
  }
  const read = await readProject({ ...options, mode: modeOf(options), mayBeKept: true });
  const { env, loaded } = read;
  const processes = loaded.ok ? processCount(options.processes, env, loaded.config) : 1;
  return processes === 1 ? { read } : { supervised: toSupervise(options, env, processes, terminal) };
}

const NOTHING_WRITTEN = { server: { processes: 1 }, database: { pool: { max: DEFAULT_POOL } } } as const;

function toSupervise(
  options: ServeOptions,
  env: Environment,
  processes: number,
  terminal: Terminal,
): SupervisorOptions {
  const [, program = '', ...args] = process.argv;
  return {
    processes,
    // By the name it was called by, which may lead to another version when a worker is replaced.
    program,
    arguments: args,
    env: process.env,
    log: logSettings(env, 'json', terminal),
    untilStdinEnds: options.untilStdinEnds,
  };
}
