// How many reads may run at once: limited for a database on this machine.
import { availableParallelism } from 'node:os';
import type { OwnerDatabase } from './owner-database.ts';
import { sql } from './sql.ts';

const LEAST = 4;

/**
 * A database on this machine shares its processors with us: more parallel reads than they can run slow down everything.
 * Undefined for any other, of which nothing is known. Of `processes` each has its part.
 */
export async function maxReading(database: OwnerDatabase, processes = 1): Promise<number | undefined> {
  // Asked of the server, because a local address may be a proxy to anywhere.
  const [row] = await database.query<{ address: string | null }>(
    sql`select host(inet_server_addr()) as "address"`,
  );
  if (!isThisMachine(row?.address ?? null)) return undefined;
  return Math.ceil(Math.max(LEAST, 2 * availableParallelism()) / processes);
}

/** Null is a Unix socket. */
export function isThisMachine(address: string | null): boolean {
  return address === null || address === '::1' || address.startsWith('127.');
}
