// `svc refresh`: fills materialized views anew.
import { Command } from 'commander';
import { refreshViews } from '../../migrate/commands/refresh.ts';
import { withOwner } from '../migrate/database.ts';
import { loadProject } from '../project.ts';
import type { Terminal } from '../terminal.ts';

export function refreshCommand(terminal: Terminal): Command {
  return new Command('refresh')
    .description('fill materialized views with what their queries yield now')
    .argument('[names...]', 'names under `views`; all materialized ones when absent')
    .option('-c, --config <location>', 'the configuration file')
    .action(async (names: string[], options: { config?: string }) => {
      const { config, env, directory } = await loadProject({ ...options, mode: 'development' }, terminal);
      await withOwner(env, directory, { applicationName: 'svc-refresh', max: 1 }, async (owner) => {
        const done = await refreshViews(owner, config, names, ({ name, concurrently, ms }) =>
          terminal.print(
            `refreshed ${name} in ${ms} ms${concurrently ? '' : '; its readers waited: with a unique index over columns they would not'}`,
          ),
        );
        if (done.length === 0) terminal.print('nothing to do: the file has no materialized view');
      });
    });
}
