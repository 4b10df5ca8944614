// The command line. Only this file reads process.argv and decides the exit code.
import { Command, CommanderError } from 'commander';
import { packageVersion } from '../lib/package-version.ts';
import { readVariables } from '../config/read/env-file.ts';
import { EXIT, explain } from './exit.ts';
import { bundleCommand } from './bundle.ts';
import { deployCommand, receiveCommand } from './deploy.ts';
import { devCommand } from './dev.ts';
import { functionsCommand } from './functions.ts';
import { initCommand } from './init.ts';
import { migrateCommand } from './migrate/migrate.ts';
import { schemaCommand } from './schema.ts';
import { serveCommand } from './serve.ts';
import { stampCommand } from './stamp.ts';
import { typesCommand } from './types.ts';
import { validateCommand } from './validate.ts';
import { keysCommand } from './keys.ts';
import { processTerminal, type Terminal } from './terminal.ts';

const terminal = processTerminal(process.env);
process.exitCode = await run(process.argv, terminal);

async function run(argv: readonly string[], out: Terminal): Promise<number> {
  try {
    await program(out).parseAsync(argv);
    return Number(process.exitCode ?? 0);
  } catch (error) {
    // Commander has printed its message already; help and version are no errors.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT.misuse;
    const { report, exitCode } = explain(error);
    if (report !== '') out.printError(report);
    return exitCode;
  }
}

function program(out: Terminal): Command {
  const root = new Command('svc')
    .description('One file, svc.yaml, becomes a whole backend.')
    .version(packageVersion(), '-V, --version')
    .showHelpAfterError('(svc --help lists commands and options)')
    .helpCommand(true);
  for (const command of [
    initCommand(out),
    validateCommand(out),
    devCommand(out),
    serveCommand(out),
    migrateCommand(out),
    typesCommand(out),
    keysCommand(out, () =>
      readVariables(process.cwd(), ['.env', '.development.env', '.production.env'], process.env),
    ),
    schemaCommand(out),
    functionsCommand(out),
    bundleCommand(out),
    stampCommand(out),
    deployCommand(out),
    receiveCommand(out),
  ]) {
    root.addCommand(command);
  }
  // Errors of the command line end in exit code 2 like everywhere, not in commander's 1.
  forEachCommand(root, (command) => command.exitOverride());
  return root;
}

function forEachCommand(command: Command, visit: (command: Command) => void): void {
  visit(command);
  for (const child of command.commands) forEachCommand(child, visit);
}
