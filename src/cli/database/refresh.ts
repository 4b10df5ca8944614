// `svc refresh`: refreshes materialized views.
import { Command } from 'commander';
import { z } from 'zod';
import { refreshViews } from '../../migrate/commands/refresh.ts';
import { withOwner } from '../migrate/database.ts';
import { loadProject } from '../project/project.ts';
import { reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';

const REFRESHED = z.strictObject({
  refreshed: z.array(z.strictObject({ name: z.string(), ms: z.number(), concurrently: z.boolean() })),
});

export function refreshCommand(terminal: Terminal): Command {
  const command = new Command('refresh')
    .description('refresh materialized views')
    .argument('[names...]', 'names under `views` (default: all materialized views)')
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
          const note = concurrently ? '' : '. Readers were blocked; a unique index over columns avoids that';
          out.print(`refreshed ${name} in ${ms} ms${note}`);
        });
      });
      if (refreshed.length === 0) out.print('nothing to do: the file has no materialized views');
      return { data: { refreshed } };
    },
  );
}
