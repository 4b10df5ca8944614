// `svc migrate`: see what a change of the file would do, do it, and look after what was done.
import { Command } from 'commander';
import { asJson } from '../report/json-report.ts';
import { modeOption } from '../mode-option.ts';
import type { Terminal } from '../terminal.ts';
import { apply, down, plan, type PlanOptions } from './change.ts';
import { drift, driftFindings, history, status } from './inspect.ts';
import { pruneRetired, rename } from './maintain.ts';
import { addChangeOptions, type ChangeOptions, type CommonOptions } from './options.ts';
import { pull, type PullOptions } from './pull.ts';

export function migrateCommand(terminal: Terminal): Command {
  const command = new Command('migrate').description(
    'bring the database in line with svc.yaml, and look after it',
  );
  const add = (name: string, description: string, isDefault = false): Command =>
    command
      .command(name, { isDefault })
      .description(description)
      .option('-c, --config <location>', 'the configuration file')
      .addOption(modeOption('development'));
  addChangeOptions(
    add('plan', 'show what would be done; changes nothing', true)
      .option('--check', 'exit 2 when something is pending')
      .option('--json', 'print the plan as JSON')
      .option('--sql', 'print the plan as SQL')
      .option('--out <file>', 'save the plan for `svc migrate apply <file>`'),
  ).action(async (options: PlanOptions) => await plan(options, terminal));
  addChangeOptions(
    add('apply', 'do it').argument('[plan]', 'a saved plan; refused when anything changed since'),
  ).action(async (file: string | undefined, options: ChangeOptions) => await apply(file, options, terminal));
  add('status', 'what is applied, pending and retired').action(
    async (options: CommonOptions) => await status(options, terminal),
  );
  add('drift', 'what was changed in the database beside the file')
    .option('--json', 'print it as JSON')
    .action(async (options: CommonOptions & { json?: boolean }) => {
      if (options.json) await asJson('migrate drift', terminal, () => driftFindings(options, terminal));
      else await drift(options, terminal);
    });
  addChangeOptions(
    add('down', 'go back to the file of an earlier run').argument(
      '[run]',
      'a run of `svc migrate history`; default: the file before',
    ),
  ).action(async (run: string | undefined, options: ChangeOptions) => await down(run, options, terminal));
  add('prune', 'drop retired tables and columns')
    .argument('[names...]', 'what to drop, as `svc migrate status` names it; default: all that is old enough')
    .option('--allow <hazard...>', 'data_loss=<name> for each one that holds values')
    .action(
      async (names: string[], options: CommonOptions & { allow?: string[] }) =>
        await pruneRetired(names, options, terminal),
    );
  command
    .command('pull')
    .description('write an existing database as a svc.yaml')
    .option('--schema <schema...>', 'schemas to read', ['public'])
    .option('--table <glob>', 'only tables that match, `*` for any text')
    .option('--out <file>', 'write to this file instead of the terminal')
    .option('--force', 'write over the file that is there')
    .action(async (options: PullOptions) => await pull(options, terminal));
  add('history', 'the runs so far')
    .option('--limit <n>', 'how many', Number, 20)
    .action(async (options: CommonOptions & { limit: number }) => await history(options, terminal));
  add('rename', 'write a rename of a table or field into the file')
    .argument('<path>', 'todos, or todos.title')
    .argument('<name>', 'the new name')
    .action(
      async (path: string, name: string, options: CommonOptions) =>
        await rename(path, name, options, terminal),
    );
  return command;
}
