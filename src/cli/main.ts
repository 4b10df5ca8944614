// The command line. Only this file reads process.argv and decides the exit code.
import { Command, CommanderError } from 'commander';
import { packageVersion } from '../lib/own-files.ts';
import { takeSecretFiles, type SecretFile } from '../config/read/secret-files.ts';
import { commandsOf } from './commands.ts';
import { EXIT, explain } from './exit.ts';
import { processTerminal, type Terminal } from './terminal.ts';

const COMMANDS = commandsOf(() => secretFiles);

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
