// `svc validate`: the structural check of the file, without a database.
import { relative } from 'node:path';
import { Command, Option } from 'commander';
import { z } from 'zod';
import type { Config } from '../config/config.ts';
import { annotations } from '../config/mistakes/annotations.ts';
import { sarif } from '../config/mistakes/sarif.ts';
import { packageVersion } from '../lib/own-files.ts';
import { CommandFailure, EXIT } from './exit.ts';
import { foundIn, modesToRead, readEveryMode } from './every-mode.ts';
import { modeOption, type ModeOption } from './mode-option.ts';
import { acceptProject, readProject, type ProjectOptions, type ReadProject } from './project.ts';
import { asJson } from './report/json-report.ts';
import { mistakeProblems } from './report/mistake-problems.ts';
import { describesJson } from './report/reporting.ts';
import type { Terminal } from './terminal.ts';

type Options = ModeOption & {
  config?: string;
  strict?: boolean;
  secrets: boolean;
  requireEnv?: boolean;
  json?: boolean;
  format: 'text' | 'json' | 'github' | 'sarif';
};

/** Counts are absent where the file has mistakes. */
const SUMMARY = z.strictObject({
  file: z.string(),
  tables: z.int().optional(),
  buckets: z.int().optional(),
  rpc: z.int().optional(),
  functions: z.int().optional(),
});

export function validateCommand(terminal: Terminal): Command {
  const { CI, GITHUB_ACTIONS } = process.env;
  const command = describesJson(new Command('validate'), SUMMARY);
  return command
    .description('check svc.yaml without a database; every mistake is named with its line')
    .option('-c, --config <location>', 'file, https:// or s3:// location of the configuration')
    .option('--strict', 'an open table (no rls key) is an error, not a warning')
    .option(
      '--no-secrets',
      'variables that are not set are only a note: they are set where it runs (usual when CI is set)',
    )
    .addOption(new Option('--require-env', 'a variable that is not set is an error').conflicts('secrets'))
    .addOption(
      new Option('--format <format>', 'github: also print annotations for pull requests')
        .choices(['text', 'json', 'github', 'sarif'])
        .default(GITHUB_ACTIONS === 'true' ? 'github' : 'text', 'text; github on GitHub Actions'),
    )
    .option('--json', 'the same as --format json')
    .addOption(modeOption('each one that has an overlay'))
    .action(async (options: Options) => {
      const { mode } = options;
      const how = {
        ...options,
        mistakesExit: EXIT.problem,
        unsetVariables: unsetVariables(options, CI),
      };
      const readIt = async (): Promise<ReadProject> =>
        mode ? await readProject({ ...how, mode }) : await readEveryMode(how);
      const format = options.json === true ? 'json' : options.format;
      if (format === 'json') {
        await asJson('validate', terminal, async () => {
          const read = await readIt();
          return { data: summary(read), problems: mistakeProblems(foundIn(read), nameOf(read)) };
        });
        return;
      }
      const read = await readIt();
      if (format === 'sarif') {
        terminal.print(sarif(foundIn(read), nameOf(read), packageVersion()));
        if (!read.loaded.ok) throw new CommandFailure(EXIT.problem, '');
        return;
      }
      const found = foundIn(read);
      if (format === 'github' && found.length > 0) terminal.print(annotations(found, nameOf(read)));
      const project = acceptProject(read, { ...how, mode: mode ?? 'development' }, terminal);
      const counts = COUNTED.map(([noun, of]) => {
        const { length } = of(project.config);
        return `${length} ${noun}${length === 1 ? '' : 's'}`;
      });
      const [, ...others] = mode ? [] : modesToRead(read.source);
      const where = mode ? ` in ${mode}` : others.length > 0 ? `, also in ${others.join(' and ')}` : '';
      terminal.print(
        `${terminal.style('green', '✓')} ${project.source} is valid${where}: ${counts.join(', ')}`,
      );
    });
}

const COUNTED: ReadonlyArray<readonly [string, (config: Config) => readonly unknown[]]> = [
  ['table', ({ tables }) => tables],
  ['bucket', ({ storage }) => storage],
  ['SQL function', ({ rpc }) => rpc],
  ['code function', ({ functions }) => functions],
];

function unsetVariables(
  { secrets, requireEnv }: Options,
  ci: string | undefined,
): ProjectOptions['unsetVariables'] {
  if (requireEnv) return undefined;
  return secrets && (ci ?? '') === '' ? 'warning' : 'note';
}

/** As the repository has it, where it is a file. */
function nameOf({ source }: ReadProject): string {
  return source.directory === undefined ? source.name : relative(process.cwd(), source.name);
}

function summary(read: ReadProject): z.infer<typeof SUMMARY> {
  const file = nameOf(read);
  if (!read.loaded.ok) return { file };
  const { tables, storage, rpc, functions } = read.loaded.config;
  return {
    file,
    tables: tables.length,
    buckets: storage.length,
    rpc: rpc.length,
    functions: functions.length,
  };
}
