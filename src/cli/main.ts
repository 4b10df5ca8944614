// The command line. Only this file reads process.argv and decides the exit code.
import { Command, CommanderError } from 'commander';
import { packageVersion } from '../lib/own-files.ts';
import { readVariables } from '../config/read/env-file.ts';
import { takeSecretFiles, type SecretFile } from '../config/read/secret-files.ts';
import { EXIT, explain } from './exit.ts';
import { processTerminal, type Terminal } from './terminal.ts';

type Load = (out: Terminal) => Promise<Command>;

const variables = (): NodeJS.ProcessEnv =>
  readVariables(process.cwd(), ['.env', '.development.env', '.production.env'], process.env);

/** By name, in the order of the help. A command loads only what it needs: the parent of several processes stays small. */
const COMMANDS: Readonly<Record<string, Load>> = {
  init: async (out) => (await import('./init.ts')).initCommand(out),
  validate: async (out) => (await import('./validate.ts')).validateCommand(out),
  dev: async (out) => (await import('./dev/dev.ts')).devCommand(out),
  serve: async (out) => (await import('./serve/serve.ts')).serveCommand(out),
  migrate: async (out) => (await import('./migrate/migrate.ts')).migrateCommand(out),
  db: async (out) => (await import('./database/db.ts')).dbCommand(out),
  sql: async (out) => (await import('./database/sql.ts')).sqlCommand(out),
  psql: async (out) => (await import('./database/psql.ts')).psqlCommand(out),
  refresh: async (out) => (await import('./database/refresh.ts')).refreshCommand(out),
  seed: async (out) => (await import('./database/seed.ts')).seedCommand(out),
  config: async (out) => (await import('./config/commands.ts')).configCommand(out),
  types: async (out) => (await import('./database/types.ts')).typesCommand(out),
  import: async (out) => (await import('./import.ts')).importCommand(out, variables),
  backup: async (out) => (await import('./backup/backup.ts')).backupCommand(out),
  restore: async (out) => (await import('./backup/restore.ts')).restoreCommand(out),
  clone: async (out) => (await import('./backup/clone.ts')).cloneCommand(out),
  keys: async (out) => (await import('./keys.ts')).keysCommand(out, variables),
  doctor: async (out) => (await import('./doctor/doctor.ts')).doctorCommand(out, () => secretFiles),
  mcp: async () => (await import('./mcp/mcp.ts')).mcpCommand(),
  explain: async (out) => (await import('./docs/explain.ts')).explainCommand(out),
  schema: async (out) => (await import('./schema.ts')).schemaCommand(out),
  functions: async (out) => (await import('./functions.ts')).functionsCommand(out),
  bundle: async (out) => (await import('./bundle.ts')).bundleCommand(out),
  stamp: async (out) => (await import('./stamp.ts')).stampCommand(out),
  deploy: async (out) => (await import('./deploy.ts')).deployCommand(out),
  receive: async (out) => (await import('./deploy.ts')).receiveCommand(out),
  complete: async (out) =>
    (await import('./complete/complete.ts')).completeCommand(out, {
      names: Object.keys(COMMANDS),
      load: async (name) => (Object.hasOwn(COMMANDS, name) ? await COMMANDS[name]?.(out) : undefined),
    }),
};

/** What the environment named; read before any command looks for secrets. */
let secretFiles: readonly SecretFile[] = [];

const terminal = processTerminal(process.env);
process.exitCode = await run(process.argv, terminal);

async function run(argv: readonly string[], out: Terminal): Promise<number> {
  try {
    await (await program(out, argv[2])).parseAsync(argv);
    return Number(process.exitCode ?? 0);
  } catch (error) {
    // Commander has printed its message already; help and version are no errors.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT.misuse;
    const { report, exitCode } = explain(error);
    if (report !== '') out.printError(report);
    return exitCode;
  }
}

/** With all commands, unless the first argument names one. */
async function program(out: Terminal, first: string | undefined): Promise<Command> {
  const root = new Command('svc')
    .description('One file, svc.yaml, becomes a whole backend.')
    .version(packageVersion(), '-V, --version')
    .showHelpAfterError('(svc --help lists commands and options)')
    .helpCommand(true)
    .hook('preAction', () => {
      if (first !== 'complete') secretFiles = takeSecretFiles(process.env, process.cwd());
    });
  const named = Object.entries(COMMANDS).filter(([name]) => name === first);
  for (const [, load] of named.length > 0 ? named : Object.entries(COMMANDS)) {
    root.addCommand(await load(out));
  }
  // Errors of the command line end in exit code 2 like everywhere, not in commander's 1.
  forEachCommand(root, (command) => command.exitOverride());
  return root;
}

function forEachCommand(command: Command, visit: (command: Command) => void): void {
  visit(command);
  for (const child of command.commands) forEachCommand(child, visit);
}
