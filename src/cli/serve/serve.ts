// `svc serve`: serves the file in production. Refuses to start without keys, and changes the database only with
// `--migrate`. This file has only the options; the server is loaded when it is needed.
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
import { modeOption } from '../project/mode-option.ts';
import { readProject, type ReadProject } from '../project/project.ts';
import type { Terminal } from '../terminal.ts';
import { serveMode, type ServeOptions } from './serve-options.ts';

/** Default of `database.pool.max`. */
const DEFAULT_POOL = 20;

export function serveCommand(terminal: Terminal): Command {
  return (
    new Command('serve')
      .description('serve svc.yaml in production, on the PostgreSQL of SVC_DATABASE_URL')
      .option(
        '-c, --config <location>',
        'file, https:// or s3:// location of the configuration, or database for the shared configuration',
      )
      .option(
        '--initial-config <file>',
        'with --config database: file to apply if there is no configuration yet',
      )
      .addOption(modeOption('production'))
      .option('-p, --port <port>', 'listen port', parsePort)
      .option('--host <address>', 'listen address', '0.0.0.0')
      .option('--admin <[host:]port>', 'port for metrics and probes (default: SVC_ADMIN_LISTEN)')
      .option('--processes <n>', 'processes that share the port: a number, or auto', parseProcesses)
      .option('--migrate', 'apply pending schema changes before serving')
      .option('--import-preview', 'serve an import before its cut-over, to test an application')
      .option('--strict', 'refuse to start if a table has no rls key')
      .option(
        '--deploy-seq <number>',
        'number of this deployment; a deployment with a lower number than the last does not migrate',
        parseDeploySeq,
      )
      .option('--allow-rollback', 'apply this file although a newer one has replaced it')
      .addOption(
        new Option(
          '--superseded <what>',
          'behavior if a newer file has replaced this one: serve the database unchanged, or refuse to start',
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
      // For `svc receive`, which keeps the pipe open: a release ends with its receiver, and its files outlive
      // it.
      .addOption(new Option('--until-stdin-ends').hideHelp())
      .addOption(new Option('--data-directory <directory>').hideHelp())
      .action(async (options: ServeOptions) => {
        const parent = await ParentLink.join();
        const start = parent ? { parent } : await chooseStart(options, terminal);
        if ('supervised' in start) {
          const { Supervisor } = await import('../../supervisor/supervisor.ts');
          process.exitCode = await new Supervisor(start.supervised).run();
          return;
        }
        const { serveProcess } = await import('./serve-process.ts');
        try {
          await serveProcess(options, terminal, start);
        } finally {
          // Needed after a failed start, too: the channel would keep the process running.
          parent?.close();
        }
      })
  );
}

type AsOneProcess = {
  /** The file, if it was read to count the processes. The process reports its mistakes. */
  readonly read?: ReadProject;
};

async function chooseStart(
  options: ServeOptions,
  terminal: Terminal,
): Promise<AsOneProcess | { readonly supervised: SupervisorOptions }> {
  if (options.config === IN_DATABASE) {
    // The parent has no connection, so only the option and the variable are known.
    const env = readModeVariables(undefined, 'production', process.env);
    const processes = processCount(options.processes, env, DEFAULT_CONFIG);
    return processes === 1 ? {} : { supervised: supervisorOptions(options, env, processes, terminal) };
  }
  const read = await readProject({ ...options, mode: serveMode(options) });
  const { env, loaded } = read;
  const processes = loaded.ok ? processCount(options.processes, env, loaded.config) : 1;
  return processes === 1 ? { read } : { supervised: supervisorOptions(options, env, processes, terminal) };
}

const DEFAULT_CONFIG = { server: { processes: 1 }, database: { pool: { max: DEFAULT_POOL } } } as const;

function supervisorOptions(
  options: ServeOptions,
  env: Environment,
  processes: number,
  terminal: Terminal,
): SupervisorOptions {
  const [, program = '', ...args] = process.argv;
  return {
    processes,
    // Uses the name of the call, which may lead to another version when a worker is replaced.
    program,
    arguments: args,
    env: process.env,
    log: logSettings(env, 'json', terminal),
    untilStdinEnds: options.untilStdinEnds,
  };
}
