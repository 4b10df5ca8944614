// `svc db`: what is done to the development database as a whole. `reset` removes it and its files; the next `svc dev`
// makes them anew. For `upgrade` see there.
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { runningUrl } from '../../embedded-postgres/embedded-postgres.ts';
import { databaseAddresses } from '../../postgres/address/database-addresses.ts';
import { EXIT, failure } from '../exit.ts';
import { loadProject, type Project } from '../project.ts';
import type { Terminal } from '../terminal.ts';
import { confirm } from './confirm.ts';
import { upgrade, type UpgradeOptions } from './upgrade.ts';

export function dbCommand(terminal: Terminal): Command {
  const command = new Command('db').description('the development database');
  command
    .command('reset')
    .description('remove its rows, users and files; svc dev makes it anew, with its seeds')
    .option('-c, --config <file>', 'the configuration file')
    .option('-y, --yes', 'do not ask')
    .action(async (options: { config?: string; yes?: boolean }) => await reset(options, terminal));
  command
    .command('upgrade')
    .description('bring it from another version of PostgreSQL to the one that svc has now')
    .option('-c, --config <file>', 'the configuration file')
    .option('--former <folder>', 'the npm package of the former version, where it is installed already')
    .option('--allow-missing', 'go on without what svc.yaml does not declare, and leave it out')
    .action(async (options: UpgradeOptions & { config?: string }) => {
      const project = await developmentProject(options, terminal, 'Upgrade that server by its own means.');
      await upgrade(project, options, terminal);
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

async function reset(options: { config?: string; yes?: boolean }, terminal: Terminal): Promise<void> {
  const { config, directory, state } = await developmentProject(
    options,
    terminal,
    'Nothing removes that one: make a new database, or drop it yourself.',
  );
  const database = join(state, 'postgres');
  if (!existsSync(database)) return terminal.print('there is no development database here');
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
  if (files !== undefined && !removed.includes(files))
    terminal.print(
      `Stored files in ${files} stay: remove them yourself, the new database does not know them.`,
    );
}
