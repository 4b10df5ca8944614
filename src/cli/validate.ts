// `svc validate`: the structural check of the file, without a database.
import { Command } from 'commander';
import { EXIT } from './exit.ts';
import { loadProject } from './project.ts';
import type { Terminal } from './terminal.ts';

export function validateCommand(terminal: Terminal): Command {
  return new Command('validate')
    .description('check svc.yaml without a database; every mistake is named with its line')
    .option('-c, --config <location>', 'file, https:// or s3:// location of the configuration')
    .option('--strict', 'an open table (no rls key) is an error, not a warning')
    .action(async (options: { config?: string; strict?: boolean }) => {
      const project = await loadProject(
        { ...options, mode: 'development', mistakesExit: EXIT.problem, unsetVariables: 'warn' },
        terminal,
      );
      const { tables, rpc, functions, storage } = project.config;
      const counts = Object.entries({
        table: tables,
        bucket: storage,
        'SQL function': rpc,
        'code function': functions,
      }).map(([noun, { length }]) => `${length} ${noun}${length === 1 ? '' : 's'}`);
      terminal.print(`${terminal.style('green', '✓')} ${project.source} is valid: ${counts.join(', ')}`);
    });
}
