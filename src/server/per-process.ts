// Divides the limits of a machine among its processes.
import type { Config } from '../config/config.ts';

/** Fewer connections would leave no room for a slow statement. */
const MIN_REQUEST_CONNECTIONS = 4;
/** Two for auth, one for storage. */
const MIN_OWNER_CONNECTIONS = 3;

export function perProcess(total: number, processes: number, min: number): number {
  return processes === 1 ? total : Math.max(min, Math.floor(total / processes));
}

/** The configuration with the connections of one process. */
export function connectionsPerProcess(config: Config, processes: number): Config {
  const { pool } = config.database;
  const own = {
    max: perProcess(pool.max, processes, Math.min(pool.max, MIN_REQUEST_CONNECTIONS)),
    min: perProcess(pool.min, processes, 0),
    owner: perProcess(pool.owner, processes, Math.min(pool.owner, MIN_OWNER_CONNECTIONS)),
    queue: perProcess(pool.queue, processes, 1),
  };
  return { ...config, database: { ...config.database, pool: { ...pool, ...own } } };
}
