// Opens the database of a command: that of SVC_DATABASE_URL, or the project's development database, which runs only as
// long as the command.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { runningUrl, startEmbeddedPostgres } from '../../embedded-postgres/embedded-postgres.ts';
import { silentLog } from '../../log/log.ts';
import type { DatabaseAddress } from '../../postgres/address/database-address.ts';
import {
  databaseAddresses,
  oneAddress,
  type DatabaseAddresses,
} from '../../postgres/address/database-addresses.ts';
import { OwnerDatabase } from '../../postgres/owner-database.ts';
import { Problem } from '../../problem/problem.ts';
import { provision, type Provisioned } from '../../provision/provision.ts';
import { databaseWait, type Environment } from '../environment.ts';
import { EXIT, failure } from '../exit.ts';

export type OpenDatabase = { readonly addresses: DatabaseAddresses; close(): Promise<void> };

/** Opens the database. `orNew`: creates a development database if there is none. */
export async function openDatabase(
  env: Environment,
  directory: string,
  { orNew = false }: { readonly orNew?: boolean } = {},
): Promise<OpenDatabase> {
  const addresses = databaseAddresses(env);
  if (addresses) return { addresses, close: async () => {} };
  const state = join(directory, '.svc');
  if (!orNew && !existsSync(state)) {
    throw failure(
      EXIT.badConfiguration,
      'SVC_DATABASE_URL is not set, and there is no development database',
      'Set it, or run svc dev first.',
    );
  }
  try {
    const postgres = await startEmbeddedPostgres({ dir: state, log: silentLog });
    return { addresses: oneAddress(postgres.url), close: () => postgres.stop() };
  } catch (error) {
    const running = error instanceof Problem && error.code === 'postgres_already_running';
    const own = running ? await runningUrl(state) : undefined;
    if (own === undefined) throw error;
    return { addresses: oneAddress(own), close: async () => {} };
  }
}

type OwnerOptions = {
  readonly applicationName: string;
  readonly max: number;
  /** Converts the problem of a database that cannot be provisioned. */
  readonly unready?: (problem: Problem) => Error;
};

/**
 * Opens and provisions the database, and runs `work` as its owner. `roles` has the addresses of the roles.
 */
export async function withOwner<T>(
  env: Environment,
  directory: string,
  options: OwnerOptions,
  work: OwnerWork<T>,
): Promise<T> {
  const database = await openDatabase(env, directory);
  try {
    return await asOwner(database.addresses, env, options, work);
  } finally {
    await database.close();
  }
}

type OwnerWork<T> = (
  owner: OwnerDatabase,
  admin: DatabaseAddress,
  roles: Pick<Provisioned, 'owner' | 'authenticator'>,
) => Promise<T>;

/** Does the same as `withOwner` in an open database. */
export async function asOwner<T>(
  addresses: DatabaseAddresses,
  env: Environment,
  { applicationName, max, unready }: OwnerOptions,
  work: OwnerWork<T>,
): Promise<T> {
  const provisioned = await provision(addresses, { waitMs: databaseWait(env, 0) }).catch((error: unknown) => {
    throw unready && error instanceof Problem ? unready(error) : error;
  });
  const address = provisioned.owner.direct;
  const owner = new OwnerDatabase({ address, applicationName, max, idleTimeoutMs: 5_000 });
  try {
    return await work(owner, addresses.direct, provisioned);
  } finally {
    await owner.close();
  }
}
