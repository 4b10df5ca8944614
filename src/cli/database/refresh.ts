// `svc refresh`: fills materialized views anew.
import { Command } from 'commander';
import { z } from 'zod';
import { refreshViews } from '../../migrate/commands/refresh.ts';
import { withOwner } from '../migrate/database.ts';
import { loadProject } from '../project.ts';
import { reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';

const REFRESHED = z.strictObject({
  refreshed: z.array(z.strictObject({ name: z.string(), ms: z.number(), concurrently: z.boolean() })),
});

export function refreshCommand(terminal: Terminal): Command {
  const command = new Command('refresh')
    .description('fill materialized views with what their queries yield now')
    .argument('[names...]', 'names under `views`; all materialized ones when absent')
    .option('-c, --config <location>', 'the configuration file');
  return reporting(
    command,
    terminal,
    REFRESHED,
    async (out, names: string[], { config: named }: { config?: string }) => {
      const { config, env, directory } = await loadProject({ config: named, mode: 'development' }, out);
      const refreshed: z.infer<typeof REFRESHED>['refreshed'] = [];
      await withOwner(env, directory, { applicationName: 'svc-refresh', max: 1 }, async (owner) => {
        await refreshViews(owner, config, names, ({ name, concurrently, ms }) => {
          refreshed.push({ name, ms, concurrently });
          out.print(
            `refreshed ${name} in ${ms} ms${concurrently ? '' : '; its readers waited: with a unique index over columns they would not'}`,
          );
        });
      });
      if (refreshed.length === 0) out.print('nothing to do: the file has no materialized view');
      return { data: { refreshed } };
    },
  );
}
