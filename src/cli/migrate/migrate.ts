// `svc migrate`: see what a change of the file would do, do it, and look after what was done.
import { Command } from 'commander';
import { modeOption } from '../mode-option.ts';
import { reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { apply, down, plan, type PlanOptions } from './change.ts';
import { drift, history, status } from './inspect.ts';
import { pruneRetired, rename } from './maintain.ts';
import { addChangeOptions, type ChangeOptions, type CommonOptions } from './options.ts';
import { pull, type PullOptions } from './pull.ts';
import * as results from './results.ts';

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
  reporting(
    addChangeOptions(
      add('plan', 'show what would be done; changes nothing', true)
        .option('--check', 'exit 2 when something is pending')
        .option('--sql', 'print the plan as SQL')
        .option('--out <file>', 'save the plan for `svc migrate apply <file>`'),
    ),
    terminal,
    results.PLANNED,
    (out, options: PlanOptions) => plan(options, out),
  );
  reporting(
    addChangeOptions(
      add('apply', 'do it').argument('[plan]', 'a saved plan; refused when anything changed since'),
    ),
    terminal,
    results.APPLIED,
    (out, file: string | undefined, options: ChangeOptions) => apply(file, options, out),
  );
  reporting(
    add('status', 'what is applied, pending and retired'),
    terminal,
    results.STATUS,
    (out, options: CommonOptions) => status(options, out),
  );
  reporting(
    add('drift', 'what was changed in the database beside the file'),
    terminal,
    results.DRIFTED,
    (out, options: CommonOptions) => drift(options, out),
  );
  reporting(
    addChangeOptions(
      add('down', 'go back to the file of an earlier run').argument(
        '[run]',
        'a run of `svc migrate history`; default: the file before',
      ),
    ),
    terminal,
    results.WENT_BACK,
    (out, run: string | undefined, options: ChangeOptions) => down(run, options, out),
  );
  reporting(
    add('prune', 'drop retired tables and columns')
      .argument(
        '[names...]',
        'what to drop, as `svc migrate status` names it; default: all that is old enough',
      )
      .option('--allow <hazard...>', 'data_loss=<name> for each one that holds values'),
    terminal,
    results.PRUNED,
    (out, names: string[], options: CommonOptions & { allow?: string[] }) =>
      pruneRetired(names, options, out),
  );
  reporting(
    command
      .command('pull')
      .description('write an existing database as a svc.yaml')
      .option('--schema <schema...>', 'schemas to read', ['public'])
      .option('--table <glob>', 'only tables that match, `*` for any text')
      .option('--out <file>', 'write to this file instead of the terminal')
      .option('--force', 'write over the file that is there')
      .option('--split', 'a file for each table, beside the one of --out, which includes them')
      .option(
        '--report <file>',
        'write what the file says, what it cannot say and what to decide, as Markdown',
      )
      .option('--strict', 'exit code 2 where something is not in the file'),
    terminal,
    results.ADOPTED,
    (out, options: PullOptions) => pull(options, out),
  );
  reporting(
    add('history', 'the runs so far').option('--limit <n>', 'how many', Number, 20),
    terminal,
    results.RUNS,
    (out, options: CommonOptions & { limit: number }) => history(options, out),
  );
  reporting(
    add('rename', 'write a rename of a table or field into the file')
      .argument('<path>', 'todos, or todos.title')
      .argument('<name>', 'the new name'),
    terminal,
    results.RENAMED,
    (out, path: string, name: string, options: CommonOptions) => rename(path, name, options, out),
  );
  return command;
}
