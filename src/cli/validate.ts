// `svc validate`: the structural check of the file, without a database.
import { relative } from 'node:path';
import { Command, Option } from 'commander';
import { annotations } from '../config/mistakes/annotations.ts';
import { EXIT } from './exit.ts';
import { acceptProject, readProject, type ProjectOptions } from './project.ts';
import type { Terminal } from './terminal.ts';

export function validateCommand(terminal: Terminal): Command {
  return new Command('validate')
    .description('check svc.yaml without a database; every mistake is named with its line')
    .option('-c, --config <location>', 'file, https:// or s3:// location of the configuration')
    .option('--strict', 'an open table (no rls key) is an error, not a warning')
    .addOption(
      new Option('--format <format>', 'github: also print annotations for pull requests')
        .choices(['text', 'github'])
        .default(process.env['GITHUB_ACTIONS'] === 'true' ? 'github' : 'text', 'github on GitHub Actions'),
    )
    .action(async (options: { config?: string; strict?: boolean; format: string }) => {
      const how: ProjectOptions = {
        ...options,
        mode: 'development',
        mistakesExit: EXIT.problem,
        unsetVariables: 'warn',
      };
      const read = await readProject(how);
      if (options.format === 'github') {
        const { source, loaded, unset } = read;
        const found = loaded.ok ? [...unset, ...loaded.warnings] : loaded.mistakes;
        const name = source.directory === undefined ? source.name : relative(process.cwd(), source.name);
        if (found.length > 0) terminal.print(annotations(found, name));
      }
      const project = acceptProject(read, how, terminal);
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
