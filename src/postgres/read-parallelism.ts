// Limits the number of parallel reads for a database on this machine.
import { availableParallelism } from 'node:os';
import type { OwnerDatabase } from './owner-database.ts';
import { sql } from './sql.ts';

const MIN_PARALLEL_READS = 4;

/**
 * Returns the maximum number of parallel reads. A database on this machine shares its processors with svc, so more
 * parallel reads slow down everything. Returns undefined for a remote database, whose capacity is unknown. The
 * maximum is divided among `processes`.
 */
export async function maxReading(database: OwnerDatabase, processes = 1): Promise<number | undefined> {
  // Asked of the server, because a local address may be a proxy to anywhere.
  const [row] = await database.query<{ address: string | null }>(
    sql`select host(inet_server_addr()) as "address"`,
  );
  if (!isThisMachine(row?.address ?? null)) return undefined;
  return Math.ceil(Math.max(MIN_PARALLEL_READS, 2 * availableParallelism()) / processes);
}

/** Null is a Unix socket. */
export function isThisMachine(address: string | null): boolean {
  return address === null || address === '::1' || address.startsWith('127.');
}
