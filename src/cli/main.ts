// The command line. Only this file reads process.argv and decides the exit code.
import { Command, CommanderError } from 'commander';
import { packageVersion } from '../lib/package-files.ts';
import { readSecretFiles, type SecretFile } from '../config/read/secret-files.ts';
import { createCommands } from './commands.ts';
import { EXIT, explain } from './exit.ts';
import { suggestOptions } from './suggest-option.ts';
import { processTerminal, type Terminal } from './terminal.ts';

const COMMANDS = createCommands(() => secretFiles);

/** Files named by variables of the environment. They are read before a command needs a secret. */
let secretFiles: readonly SecretFile[] = [];

endSilentlyWithoutReader();
const terminal = processTerminal(process.env);
process.exitCode = await run(process.argv, terminal);

async function run(argv: readonly string[], out: Terminal): Promise<number> {
  try {
    await (await program(out, argv[2])).parseAsync(argv);
    return Number(process.exitCode ?? 0);
  } catch (error) {
    // Commander has printed its message already. Help and version are not errors.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT.misuse;
    const { report, exitCode } = explain(error);
    if (report !== '') out.printError(report);
    return exitCode;
  }
}

/**
 * Ends without a message after a broken pipe, as other Unix tools do: `svc schema | head -1` closes the pipe
 * before
 * everything is written. A server keeps serving without its output.
 */
function endSilentlyWithoutReader(): void {
  const isServer = ['dev', 'serve', 'receive'].includes(process.argv[2] ?? '');
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      if (!isServer) process.exit();
    });
  }
}

/** Builds the program with all commands, or with one if the first argument names it. */
async function program(out: Terminal, first: string | undefined): Promise<Command> {
  const root = new Command('svc')
    .description('One file, svc.yaml, becomes a whole backend.')
    .version(packageVersion(), '-V, --version')
    .showHelpAfterError('(svc --help lists commands and options)')
    .helpCommand(true)
    .hook('preAction', () => {
      if (first !== 'complete') secretFiles = readSecretFiles(process.env, process.cwd());
    });
  const named = Object.entries(COMMANDS).filter(([name]) => name === first);
  for (const [, load] of named.length > 0 ? named : Object.entries(COMMANDS)) {
    root.addCommand(await load(out));
  }
  // Mistakes of the command line exit with code 2, not with commander's 1.
  forEachCommand(root, (command) => {
    command.exitOverride();
    suggestOptions(command);
  });
  return root;
}

function forEachCommand(command: Command, visit: (command: Command) => void): void {
  visit(command);
  for (const child of command.commands) forEachCommand(child, visit);
}
