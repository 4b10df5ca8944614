// `svc db`: what is done to the development database as a whole. `reset` removes it and its files; the next `svc dev`
// makes them anew. For `upgrade` see there.
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import { runningUrl } from '../../embedded-postgres/embedded-postgres.ts';
import { databaseAddresses } from '../../postgres/address/database-addresses.ts';
import { EXIT, failure } from '../exit.ts';
import { loadProject, type Project } from '../project.ts';
import { type Findings, reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { confirm } from './confirm.ts';
import { upgrade, UPGRADED, type UpgradeOptions } from './upgrade.ts';

/** `files`: a folder of stored files that stays. */
const REMOVED = z.strictObject({ removed: z.array(z.string()), files: z.string().nullable() });

export function dbCommand(terminal: Terminal): Command {
  const command = new Command('db').description('the development database');
  const resets = command
    .command('reset')
    .description('remove its rows, users and files; svc dev makes it anew, with its seeds')
    .option('-c, --config <file>', 'the configuration file')
    .option('-y, --yes', 'do not ask');
  reporting(resets, terminal, REMOVED, (out, options: ResetOptions) => reset(options, out));
  const upgrades = command
    .command('upgrade')
    .description('bring it from another version of PostgreSQL to the one that svc has now')
    .option('-c, --config <file>', 'the configuration file')
    .option('--former <folder>', 'the npm package of the former version, where it is installed already')
    .option('--allow-missing', 'go on without what svc.yaml does not declare, and leave it out');
  reporting(upgrades, terminal, UPGRADED, async (out, options: UpgradeOptions & { config?: string }) => {
    const project = await developmentProject(options, out, 'Upgrade that server by its own means.');
    return { data: await upgrade(project, options, out) };
  });
  return command;
}

/** `otherwise`: what to do with a database that is not that of `svc dev`. */
async function developmentProject(
  { config }: { readonly config?: string },
  terminal: Terminal,
  otherwise: string,
): Promise<Project & { readonly state: string }> {
  const project = await loadProject({ config, mode: 'development' }, terminal);
  const named = databaseAddresses(project.env);
  if (named)
    throw failure(
      EXIT.misuse,
      `SVC_DATABASE_URL names ${named.direct.describe()}, which is not the database of svc dev`,
      otherwise,
    );
  return { ...project, state: join(project.directory, '.svc') };
}

type ResetOptions = { config?: string; yes?: boolean };

async function reset(options: ResetOptions, terminal: Terminal): Promise<Findings<z.infer<typeof REMOVED>>> {
  const { config, directory, state } = await developmentProject(
    options,
    terminal,
    'Nothing removes that one: make a new database, or drop it yourself.',
  );
  const database = join(state, 'postgres');
  if (!existsSync(database)) {
    terminal.print('there is no development database here');
    return { data: { removed: [], files: null } };
  }
  if ((await runningUrl(state)) !== undefined)
    throw failure(EXIT.problem, 'svc dev is running on this database', 'Stop it, then reset.');
  const { storage } = config.providers;
  // Only files below `.svc` are surely of nothing else.
  const files = storage.type === 'local' ? resolve(directory, storage.path) : undefined;
  const removed = [database, ...(files?.startsWith(join(state, '/')) ? [files] : [])];
  await confirm(`This removes ${removed.join(' and ')}.`, options.yes);
  for (const path of [...removed, join(state, 'clone.json')])
    await rm(path, { recursive: true, force: true });
  terminal.print('removed; svc dev makes a new database');
  const stays = files !== undefined && !removed.includes(files) ? files : null;
  if (stays !== null)
    terminal.print(
      `Stored files in ${stays} stay: remove them yourself, the new database does not know them.`,
    );
  return { data: { removed, files: stays } };
}
