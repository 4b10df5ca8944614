// How much a database can read at once.
import { availableParallelism } from 'node:os';

const LEAST = 4;

/**
 * Connections that should read at once from this database. One on this machine shares its processors with us: more
 * reads than they can run make each other slower, and everything else too. Of any other nothing is known.
 */
export function maxReading(url: string): number | undefined {
  return isOnThisMachine(url) ? Math.max(LEAST, 2 * availableParallelism()) : undefined;
}

function isOnThisMachine(url: string): boolean {
  const { hostname, searchParams } = new URL(url);
  const host = searchParams.get('host') ?? hostname;
  return /^(|localhost|127(\.\d+){3}|\[?::1\]?|(\/|%2f).*)$/i.test(host);
}
