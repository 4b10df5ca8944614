// The connections of a backend. Each part of the product has its own, so that what waits for a lock in one part does
// not stop the others.
import type { Config } from '../config/config.ts';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { OwnerDatabase, type OwnerSettings } from '../postgres/owner-database.ts';
import { CallerPool } from '../postgres/pool/caller-pool.ts';
import { maxReading } from '../postgres/read-parallelism.ts';
import type { Provisioned } from '../provision/provision.ts';
import { PROBE_TIMEOUT_MS } from './database-readiness.ts';

/** Beside `database.pool.max` for callers. */
const OWNER_CONNECTIONS = 5;
const STORAGE_CONNECTIONS = 3;
/** The product's own statements are short: one that needs longer is stuck, and fails while somebody still waits. */
const OWNER_DEADLINES = { statementTimeoutMs: 15_000, lockTimeoutMs: 5_000 };
/** Reading the catalog of a large database takes its time. */
const CATALOG_TIMEOUT_MS = 60_000;

export type Databases = {
  readonly owner: OwnerDatabase;
  readonly storage: OwnerDatabase;
  readonly catalog: OwnerDatabase;
  /** For `/ready`: nothing else uses it, so nothing keeps it busy. */
  readonly probe: OwnerDatabase;
  readonly migration: OwnerDatabase;
  readonly callers: CallerPool;
  /** Cuts off callers' statements; lets the product's own end. */
  close(): Promise<void>;
};

export async function openDatabases(
  { owner, authenticator }: Provisioned,
  config: Config,
): Promise<Databases> {
  const { pool } = config.database;
  const open = (
    address: DatabaseAddress,
    applicationName: string,
    max: number,
    deadlines: Pick<OwnerSettings, 'statementTimeoutMs' | 'lockTimeoutMs'>,
  ): OwnerDatabase =>
    new OwnerDatabase({
      address,
      applicationName,
      max,
      idleTimeoutMs: pool.idleTimeoutMs,
      ...deadlines,
    });
  const owners = {
    owner: open(owner.data, 'svc', OWNER_CONNECTIONS, OWNER_DEADLINES),
    storage: open(owner.data, 'svc-storage', STORAGE_CONNECTIONS, OWNER_DEADLINES),
    catalog: open(owner.direct, 'svc-catalog', 1, { statementTimeoutMs: CATALOG_TIMEOUT_MS }),
    probe: open(owner.direct, 'svc-probe', 1, { statementTimeoutMs: PROBE_TIMEOUT_MS }),
    // Migrations limit their waits themselves, and some of their steps take as long as they take.
    migration: open(owner.direct, 'svc-migrate', OWNER_CONNECTIONS, {}),
  };
  const callers = new CallerPool({
    address: authenticator.data,
    applicationName: 'svc-request',
    max: pool.max,
    maxReading: await maxReading(owners.owner),
    minIdle: pool.min,
    idleTimeoutMs: pool.idleTimeoutMs,
    statementTimeoutMs: config.server.timeouts.dbQueryMs,
  });
  return {
    ...owners,
    callers,
    async close() {
      callers.destroy();
      await Promise.all(Object.values(owners).map((owner) => owner.close()));
    },
  };
}
