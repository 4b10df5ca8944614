// `svc validate`: checks the file without a database.
import { relative } from 'node:path';
import { Command, Option } from 'commander';
import { z } from 'zod';
import type { Config } from '../../config/config.ts';
import { annotations } from '../../config/mistakes/annotations.ts';
import { sarif } from '../../config/mistakes/sarif.ts';
import { packageVersion } from '../../lib/package-files.ts';
import { CommandFailure, EXIT } from '../exit.ts';
import { foundIn, modesToRead, loadAllModes } from '../project/all-modes.ts';
import { modeOption, type ModeOption } from '../project/mode-option.ts';
import { acceptProject, readProject, type ProjectOptions, type ReadProject } from '../project/project.ts';
import { asJson } from '../report/json-report.ts';
import { mistakeProblems } from '../report/mistake-problems.ts';
import { describesJson } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';

type Options = ModeOption & {
  config?: string;
  strict?: boolean;
  secrets: boolean;
  requireEnv?: boolean;
  json?: boolean;
  format: 'text' | 'json' | 'github' | 'sarif';
};

/** Counts are absent if the file has mistakes. */
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
    .description('check svc.yaml without a database, and report every mistake with its line')
    .option('-c, --config <location>', 'file, https:// or s3:// location of the configuration')
    .option('--strict', 'treat a table without an rls key as an error')
    .option(
      '--no-secrets',
      'report unset variables only as notes, because they are set where svc runs (default if CI is set)',
    )
    .addOption(new Option('--require-env', 'treat an unset variable as an error').conflicts('secrets'))
    .addOption(
      new Option('--format <format>', 'github: also print annotations for pull requests')
        .choices(['text', 'json', 'github', 'sarif'])
        .default(GITHUB_ACTIONS === 'true' ? 'github' : 'text', 'text; github on GitHub Actions'),
    )
    .option('--json', 'the same as --format json')
    .addOption(modeOption('every mode with an overlay'))
    .action(async (options: Options) => {
      const { mode } = options;
      const readOptions = {
        ...options,
        syntax: true,
        mistakesExit: EXIT.problem,
        unsetVariables: unsetVariables(options, CI),
        requireVariables: true,
      };
      const readIt = async (): Promise<ReadProject> =>
        mode ? await readProject({ ...readOptions, mode }) : await loadAllModes(readOptions);
      const format = options.json === true ? 'json' : options.format;
      if (format === 'json') {
        await asJson('validate', terminal, async () => {
          const read = await readIt();
          return { data: summary(read), problems: mistakeProblems(foundIn(read), displayName(read)) };
        });
        return;
      }
      const read = await readIt();
      if (format === 'sarif') {
        terminal.print(sarif(foundIn(read), displayName(read), packageVersion()));
        if (!read.loaded.ok) throw new CommandFailure(EXIT.problem, '');
        return;
      }
      const found = foundIn(read);
      if (format === 'github' && found.length > 0) terminal.print(annotations(found, displayName(read)));
      const project = acceptProject(read, { ...readOptions, mode: mode ?? 'development' }, terminal);
      const counts = COUNTED.map(([noun, select]) => {
        const { length } = select(project.config);
        return `${length} ${noun}${length === 1 ? '' : 's'}`;
      });
      const [, ...otherModes] = mode ? [] : modesToRead(read.source);
      const where = mode
        ? ` in ${mode}`
        : otherModes.length > 0
          ? `, also in ${otherModes.join(' and ')}`
          : '';
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

/** Returns the name of the file in the repository, or its location. */
function displayName({ source }: ReadProject): string {
  return source.directory === undefined ? source.name : relative(process.cwd(), source.name);
}

function summary(read: ReadProject): z.infer<typeof SUMMARY> {
  const file = displayName(read);
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
