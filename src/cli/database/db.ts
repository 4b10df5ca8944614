// `svc db reset`: the development database and its files go; the next `svc dev` makes them anew.
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { runningUrl } from '../../embedded-postgres/embedded-postgres.ts';
import { databaseAddresses } from '../../postgres/address/database-addresses.ts';
import { EXIT, failure } from '../exit.ts';
import { loadProject } from '../project.ts';
import type { Terminal } from '../terminal.ts';
import { confirm } from './confirm.ts';

export function dbCommand(terminal: Terminal): Command {
  const command = new Command('db').description('the development database');
  command
    .command('reset')
    .description('remove its rows, users and files; svc dev makes it anew, with its seeds')
    .option('-c, --config <file>', 'the configuration file')
    .option('-y, --yes', 'do not ask')
    .action(async (options: { config?: string; yes?: boolean }) => await reset(options, terminal));
  return command;
}

async function reset(options: { config?: string; yes?: boolean }, terminal: Terminal): Promise<void> {
  const { config, directory, env } = await loadProject({ ...options, mode: 'development' }, terminal);
  const named = databaseAddresses(env);
  if (named)
    throw failure(
      EXIT.misuse,
      `SVC_DATABASE_URL names ${named.direct.describe()}, which is not the database of svc dev`,
      'Nothing removes that one: make a new database, or drop it yourself.',
    );
  const state = join(directory, '.svc');
  const database = join(state, 'postgres');
  if (!existsSync(database)) return terminal.print('there is no development database here');
  if ((await runningUrl(state)) !== undefined)
    throw failure(EXIT.problem, 'svc dev is running on this database', 'Stop it, then reset.');
  const { storage } = config.providers;
  // Only files below `.svc` are surely of nothing else.
  const files = storage.type === 'local' ? resolve(directory, storage.path) : undefined;
  const removed = [database, ...(files?.startsWith(join(state, '/')) ? [files] : [])];
  await confirm(`This removes ${removed.join(' and ')}.`, options.yes);
  for (const path of removed) await rm(path, { recursive: true, force: true });
  terminal.print('removed; svc dev makes a new database');
  if (files !== undefined && !removed.includes(files))
    terminal.print(
      `Stored files in ${files} stay: remove them yourself, the new database does not know them.`,
    );
}
