// Which database the commands of `svc migrate` and `svc types` work on: the named one, or the project's own
// development database, started for as long as the command runs.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { startEmbeddedPostgres } from '../embedded-postgres/embedded-postgres.ts';
import { silentLog } from '../log/log.ts';
import { readPassword } from '../embedded-postgres/password.ts';
import { readPostmasterFile } from '../embedded-postgres/postmaster-file.ts';
import { Problem } from '../problem/problem.ts';
import { CommandFailure, EXIT } from './exit.ts';

export type OpenDatabase = { readonly url: string; close(): Promise<void> };

export async function openDatabase(url: string | undefined, directory: string): Promise<OpenDatabase> {
  if (url) return { url, close: async () => {} };
  const state = join(directory, '.svc');
  if (!existsSync(state)) {
    throw new CommandFailure(
      EXIT.badConfiguration,
      'error: SVC_DATABASE_URL is not set, and there is no development database here\n  → Set it, or run svc dev first.',
    );
  }
  try {
    const postgres = await startEmbeddedPostgres({ dir: state, log: silentLog });
    return { url: postgres.url, close: () => postgres.stop() };
  } catch (error) {
    const running = error instanceof Problem && error.code === 'postgres_already_running';
    const own = running ? await runningUrl(state) : null;
    if (own === null) throw error;
    return { url: own, close: async () => {} };
  }
}

/** `svc dev` runs here: its database answers us as well. */
async function runningUrl(state: string): Promise<string | null> {
  const postmaster = await readPostmasterFile(join(state, 'postgres'));
  const password = await readPassword(join(state, 'postgres.password'));
  if (!postmaster || password === undefined) return null;
  return `postgres://postgres:${password}@127.0.0.1:${postmaster.port}/postgres`;
}
