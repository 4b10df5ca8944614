// `svc migrate`: plans and applies changes of the file, and maintains the database.
import { Command, Option } from 'commander';
import { modeOption } from '../project/mode-option.ts';
import { reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { apply, down, plan, type PlanOptions } from './change.ts';
import { drift, history, status } from './inspect.ts';
import { pruneRetired, rename } from './maintain.ts';
import { addChangeOptions, type ChangeOptions, type CommonOptions } from './options.ts';
import { pull, type PullOptions } from './pull.ts';
import * as results from './results.ts';

export function migrateCommand(terminal: Terminal): Command {
  const command = new Command('migrate').description('migrate the database to svc.yaml');
  const add: AddCommand = (name, description, isDefault = false) =>
    command
      .command(name, { isDefault })
      .description(description)
      .option('-c, --config <location>', 'the configuration file')
      .addOption(modeOption('development'));
  addChanges(add, terminal);
  addInspections(add, terminal);
  addMaintenance(add, terminal);
  addPull(command, terminal);
  return command;
}

type AddCommand = (name: string, description: string, isDefault?: boolean) => Command;

function addChanges(add: AddCommand, terminal: Terminal): void {
  reporting(
    addChangeOptions(
      add('plan', 'show the steps of the migration; changes nothing', true)
        .option('--check', 'exit with code 2 if changes are pending')
        .option('--sql', 'print the plan as SQL')
        .addOption(
          new Option(
            '--data <which>',
            'none: read no rows, and print no text of failing expressions',
          ).choices(['all', 'none']),
        )
        .option('--out <file>', 'save the plan for `svc migrate apply <file>`'),
    ),
    terminal,
    results.PLANNED,
    (out, options: PlanOptions) => plan(options, out),
  );
  reporting(
    addChangeOptions(
      add('apply', 'apply the migration').argument(
        '[plan]',
        'a saved plan; rejected if anything has changed since',
      ),
    ),
    terminal,
    results.APPLIED,
    (out, file: string | undefined, options: ChangeOptions) => apply(file, options, out),
  );
  reporting(
    addChangeOptions(
      add('down', 'migrate back to the file of an earlier run').argument(
        '[run]',
        'a run of `svc migrate history` (default: the previous file)',
      ),
    ),
    terminal,
    results.WENT_BACK,
    (out, run: string | undefined, options: ChangeOptions) => down(run, options, out),
  );
}

function addInspections(add: AddCommand, terminal: Terminal): void {
  reporting(
    add('status', 'show what is applied, pending and retired'),
    terminal,
    results.STATUS,
    (out, options: CommonOptions) => status(options, out),
  );
  reporting(
    add('drift', 'show changes of the database outside of migrations'),
    terminal,
    results.DRIFTED,
    (out, options: CommonOptions) => drift(options, out),
  );
  reporting(
    add('history', 'list the runs').option('--limit <n>', 'maximum number of runs', Number, 20),
    terminal,
    results.RUNS,
    (out, options: CommonOptions & { limit: number }) => history(options, out),
  );
}

function addMaintenance(add: AddCommand, terminal: Terminal): void {
  reporting(
    add('prune', 'drop retired tables and columns')
      .argument(
        '[names...]',
        'objects to drop, with their names in `svc migrate status` (default: all that are old enough)',
      )
      .option('--allow <hazard...>', 'accept data_loss=<name> for each object with values'),
    terminal,
    results.PRUNED,
    (out, names: string[], options: CommonOptions & { allow?: string[] }) =>
      pruneRetired(names, options, out),
  );
  reporting(
    add('rename', 'rename a table or field in the file')
      .argument('<path>', 'for example todos or todos.title')
      .argument('<name>', 'the new name'),
    terminal,
    results.RENAMED,
    (out, path: string, name: string, options: CommonOptions) => rename(path, name, options, out),
  );
}

function addPull(command: Command, terminal: Terminal): void {
  reporting(
    command
      .command('pull')
      .description('write svc.yaml from an existing database')
      .option('--schema <schema...>', 'schemas to read (default: all except those of svc and of extensions)')
      .option('--table <glob>', 'read only matching tables; `*` matches any text')
      .option('--out <file>', 'write to this file instead of the terminal')
      .option('--force', 'overwrite an existing file')
      .option('--split', 'write a file for each table, included by the file of --out')
      .option(
        '--report <file>',
        'write a Markdown report: what the file contains, what it cannot contain, and what to decide',
      )
      .option('--strict', 'exit with code 2 if an object is not in the file'),
    terminal,
    results.ADOPTED,
    (out, options: PullOptions) => pull(options, out),
  );
}
