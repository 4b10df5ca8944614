// `svc db`: commands for the development database as a whole. `reset` deletes it and its files, and the next `svc dev`
// creates new ones. upgrade.ts has `upgrade`.
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import { runningUrl } from '../../embedded-postgres/embedded-postgres.ts';
import { databaseAddresses } from '../../postgres/address/database-addresses.ts';
import { EXIT, failure } from '../exit.ts';
import { loadProject, type Project } from '../project/project.ts';
import { type Findings, reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { confirm } from './confirm.ts';
import { upgrade, UPGRADED, type UpgradeOptions } from './upgrade.ts';

/** `files`: folder of stored files that is kept. */
const REMOVED = z.strictObject({ removed: z.array(z.string()), files: z.string().nullable() });

export function dbCommand(terminal: Terminal): Command {
  const command = new Command('db').description('manage the development database');
  const resets = command
    .command('reset')
    .description('delete its rows, users and files; svc dev creates a new database with the seeds')
    .option('-c, --config <file>', 'the configuration file')
    .option('-y, --yes', 'do not ask for confirmation');
  reporting(resets, terminal, REMOVED, (out, options: ResetOptions) => reset(options, out));
  const upgrades = command
    .command('upgrade')
    .description('upgrade it from another version of PostgreSQL to the version of svc')
    .option('-c, --config <file>', 'the configuration file')
    .option('--former <folder>', 'folder of the installed npm package of the previous version')
    .option('--allow-missing', 'leave out objects that svc.yaml does not declare');
  reporting(upgrades, terminal, UPGRADED, async (out, options: UpgradeOptions & { config?: string }) => {
    const project = await developmentProject(options, out, 'Upgrade that server with its own tools.');
    return { data: await upgrade(project, options, out) };
  });
  return command;
}

/** Loads the project. `otherwise`: hint for a database that does not belong to `svc dev`. */
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
      `SVC_DATABASE_URL is set to ${named.direct.describe()}, which is not the database of svc dev`,
      otherwise,
    );
  return { ...project, state: join(project.directory, '.svc') };
}

type ResetOptions = { config?: string; yes?: boolean };

async function reset(options: ResetOptions, terminal: Terminal): Promise<Findings<z.infer<typeof REMOVED>>> {
  const { config, directory, state } = await developmentProject(
    options,
    terminal,
    'svc never deletes that database. Create a new one, or drop it yourself.',
  );
  const database = join(state, 'postgres');
  if (!existsSync(database)) {
    terminal.print('there is no development database');
    return { data: { removed: [], files: null } };
  }
  if ((await runningUrl(state)) !== undefined)
    throw failure(
      EXIT.problem,
      'svc dev is running on this database',
      'Stop it, then run svc db reset again.',
    );
  const { storage } = config.providers;
  // Files outside `.svc` may belong to another program, so they are kept.
  const files = storage.type === 'local' ? resolve(directory, storage.path) : undefined;
  const removed = [database, ...(files?.startsWith(join(state, '/')) ? [files] : [])];
  await confirm(`This removes ${removed.join(' and ')}.`, options.yes);
  for (const path of [...removed, join(state, 'clone.json')])
    await rm(path, { recursive: true, force: true });
  terminal.print('removed; svc dev creates a new database');
  const stays = files !== undefined && !removed.includes(files) ? files : null;
  if (stays !== null)
    terminal.print(
      `Stored files in ${stays} are kept. Delete them yourself: the new database has no rows for them.`,
    );
  return { data: { removed, files: stays } };
}
