// `svc import supabase copy`, `verify`, `cut-over` and `changes`: copies and compares users and rows.
import { Option, type Command } from 'commander';
import { listChanges } from '../../import/changes.ts';
import { copy, type CopyOptions } from '../../import/copy.ts';
import { skippedFactors, readFactors, type Factor } from '../../import/factors.ts';
import { cutOver, verify } from '../../import/finish.ts';
import { readSource } from '../../import/source.ts';
import { EXIT } from '../exit.ts';
import { reporting } from '../report/reporting.ts';
import { describeChanged, describeChanges, describeLeft } from './describe.ts';
import { CHANGED, CHANGES, COPIED, VERIFIED } from './results.ts';
import { onBoth, requireYes, withSource, type ImportContext, type SourceOptions } from './source.ts';

export function copyCommand({ terminal, environment }: ImportContext): Command {
  return reporting(
    withSource('copy', 'copy what differs from the source; repeatable'),
    terminal,
    COPIED,
    async (out, options: SourceOptions) => {
      const { changes, left } = await onBoth(options, environment(), out, async (both) => ({
        changes: await copy(both),
        left: await readFactorsLeft(both),
      }));
      out.print([...changes.map(describeChanges), ...describeLeft(left)].join('\n'));
      return { data: { changes: [...changes], factorsLeft: left.map(({ name }) => name) } };
    },
  );
}

function readFactorsLeft({ source, secrets }: CopyOptions): Promise<Factor[]> {
  return readSource(source, async (from) => skippedFactors(await readFactors(from, secrets.sourceKeys)));
}

export function verifyCommand({ terminal, environment }: ImportContext): Command {
  return reporting(
    withSource('verify', 'compare both sides; exit code 1 if they differ'),
    terminal,
    VERIFIED,
    async (out, options: SourceOptions) => {
      const differences = [...(await onBoth(options, environment(), out, verify))];
      if (differences.length > 0)
        return { data: { differences }, exitCode: EXIT.problem, report: differences.join('\n') };
      out.print('Both sides are equal.');
      return { data: { differences } };
    },
  );
}

export function cutOverCommand({ terminal, environment }: ImportContext): Command {
  return reporting(
    withSource('cut-over', 'copy for the last time, and open the database for requests')
      .addOption(
        new Option(
          '--uncarried-factors <what>',
          'drop: users whose second factor cannot be copied sign in with the password alone',
        )
          .choices(['refuse', 'drop'])
          .default('refuse'),
      )
      .option('--yes', 'confirm the cut-over'),
    terminal,
    CHANGES,
    async (out, options: SourceOptions & { uncarriedFactors: string; yes?: boolean }) => {
      requireYes(options, 'after the cut-over, changes in the source are no longer copied');
      const dropFactors = options.uncarriedFactors === 'drop';
      const changes = await onBoth(options, environment(), out, (both) => cutOver({ ...both, dropFactors }));
      out.print(`${changes.map(describeChanges).join('\n')}\nThe database is open for requests.`);
      return { data: { changes: [...changes] } };
    },
  );
}

export function changesCommand({ terminal, environment }: ImportContext): Command {
  return reporting(
    withSource('changes', 'list the rows that were inserted, updated and deleted since the cut-over').option(
      '--out <directory>',
      'write the rows to this directory as CSV, to move them back',
    ),
    terminal,
    CHANGED,
    async (out, options: SourceOptions & { out?: string }) => {
      const changed = await onBoth(options, environment(), out, (both) =>
        listChanges({ ...both, out: options.out }),
      );
      out.print(describeChanged(changed, options.out));
      return { data: { tables: [...changed], directory: options.out ?? null } };
    },
  );
}
