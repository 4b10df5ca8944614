// How much a database can read at once.
import { availableParallelism } from 'node:os';
import type { OwnerDatabase } from './owner-database.ts';
import { sql } from './sql.ts';

const LEAST = 4;

/**
 * Connections that should read at once from this database. One on this machine shares its processors with us: more
 * reads than they can run make each other slower, and everything else too. Of any other nothing is known.
 */
export async function maxReading(database: OwnerDatabase): Promise<number | undefined> {
  // The server's own word: a proxy on this machine may lead anywhere.
  const [row] = await database.query<{ address: string | null }>(
    sql`select host(inet_server_addr()) as "address"`,
  );
  return isThisMachine(row?.address ?? null) ? Math.max(LEAST, 2 * availableParallelism()) : undefined;
}

/** Null is a socket in the file system. */
export function isThisMachine(address: string | null): boolean {
  return address === null || address === '::1' || address.startsWith('127.');
}
