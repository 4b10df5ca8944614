// What one of several processes of a machine has of what is meant for all of them.
import type { Config } from '../config/config.ts';

/** Fewer connections would leave no room for a slow statement. */
const LEAST_REQUESTS = 4;
/** Two for auth, one for storage. */
const LEAST_OWNER = 3;

export function share(total: number, processes: number, least: number): number {
  return processes === 1 ? total : Math.max(least, Math.floor(total / processes));
}

/** The configuration with the connections of one process. */
export function shareOfConnections(config: Config, processes: number): Config {
  const { pool } = config.database;
  const own = {
    max: share(pool.max, processes, Math.min(pool.max, LEAST_REQUESTS)),
    min: share(pool.min, processes, 0),
    owner: share(pool.owner, processes, Math.min(pool.owner, LEAST_OWNER)),
    queue: share(pool.queue, processes, 1),
  };
  return { ...config, database: { ...config.database, pool: { ...pool, ...own } } };
}
