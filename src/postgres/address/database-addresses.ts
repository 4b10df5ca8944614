// The addresses of one database. One is enough; the others default to it.
import type { DatabaseAddress } from './database-address.ts';
import { parseAddress } from './parse-address.ts';

export type DatabaseAddresses = {
  /** SVC_DATABASE_URL: requests, and the product's short statements. May lead through a pooler. */
  readonly data: DatabaseAddress;
  /** SVC_DATABASE_DIRECT_URL: what needs a session of its own, such as LISTEN, locks and migrations. */
  readonly direct: DatabaseAddress;
  /** SVC_DATABASE_READ_URL: replicas. */
  readonly read?: DatabaseAddress | undefined;
};

type Env = Readonly<Record<string, string | undefined>>;

/** What the environment says, or undefined where it names no database. */
export function databaseAddresses(env: Env): DatabaseAddresses | undefined {
  const text = env['SVC_DATABASE_URL'];
  if (!text) return undefined;
  const data = parseAddress(text);
  const direct = env['SVC_DATABASE_DIRECT_URL'];
  return { data, direct: direct ? parseAddress(direct, { name: 'SVC_DATABASE_DIRECT_URL' }) : data };
}

/** The database whose one address is known. */
export function oneAddress(address: DatabaseAddress): DatabaseAddresses {
  return { data: address, direct: address };
}
