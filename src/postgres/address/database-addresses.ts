// The addresses of one database. The direct and read addresses default to the first.
import type { DatabaseAddress } from './database-address.ts';
import { parseAddress } from './parse-address.ts';

export type DatabaseAddresses = {
  /**
   * SVC_DATABASE_URL: for requests, and the product's short statements. A pooler is allowed. If no host accepts
   * writes, a read-only host is used.
   */
  readonly data: DatabaseAddress;
  /** SVC_DATABASE_DIRECT_URL: for LISTEN, locks and migrations, which need a session without a pooler. */
  readonly direct: DatabaseAddress;
  /** SVC_DATABASE_READ_URL: replicas. */
  readonly read?: DatabaseAddress | undefined;
};

type Env = Readonly<Record<string, string | undefined>>;

/** Returns the addresses in the environment, or undefined if none is set. */
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

/** Returns the addresses of a database with a single address. */
export function oneAddress(text: string): DatabaseAddresses {
  return {
    data: parseAddress(text, { attrs: 'prefer-primary' }),
    direct: parseAddress(text, { attrs: 'primary' }),
  };
}
