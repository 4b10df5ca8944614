// The addresses of one database. One is enough; the others default to it.
import type { DatabaseAddress } from './database-address.ts';
import { parseAddress } from './parse-address.ts';

export type DatabaseAddresses = {
  /**
   * SVC_DATABASE_URL: requests, and the product's short statements. May lead through a pooler. Where no host takes
   * writes, one that reads is better than none.
   */
  readonly data: DatabaseAddress;
  /** SVC_DATABASE_DIRECT_URL: what needs a session of its own, such as LISTEN, locks and migrations. */
  readonly direct: DatabaseAddress;
  /** SVC_DATABASE_READ_URL: replicas. */
  readonly read?: DatabaseAddress | undefined;
};

type Env = Readonly<Record<string, string | undefined>>;

/** What the environment says, or undefined where it names no database. */
export function databaseAddresses(env: Env): DatabaseAddresses | undefined {
  const { SVC_DATABASE_URL: data, SVC_DATABASE_DIRECT_URL: direct, SVC_DATABASE_READ_URL: read } = env;
  if (!data) return undefined;
  return {
    data: parseAddress(data, { attrs: 'prefer-primary' }),
    direct: parseAddress(direct || data, {
      attrs: 'primary',
      ...(direct ? { name: 'SVC_DATABASE_DIRECT_URL' } : {}),
    }),
    read: read
      ? parseAddress(read, { name: 'SVC_DATABASE_READ_URL', attrs: 'prefer-standby', isShuffled: true })
      : undefined,
  };
}

/** The database whose one address is known. */
export function oneAddress(text: string): DatabaseAddresses {
  return {
    data: parseAddress(text, { attrs: 'prefer-primary' }),
    direct: parseAddress(text, { attrs: 'primary' }),
  };
}
