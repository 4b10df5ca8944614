// Prepares roles and the schemas of svc at each start, as this version needs them. Safe if several instances start
// concurrently: one instance does the work under an advisory lock.
import type pg from 'pg';
import { must } from '../lib/assert.ts';
import { silentLog, type Log } from '../log/log.ts';
import { Problem } from '../problem/problem.ts';
import { tryLock } from '../postgres/advisory-lock.ts';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import type { DatabaseAddresses } from '../postgres/address/database-addresses.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { endClient, openClient, openSession } from '../postgres/connection.ts';
import { DatabaseLink } from '../postgres/link/database-link.ts';
import type { Queryable, Row } from '../postgres/owner-database.ts';
import { raw, sql, type Sql } from '../postgres/sql.ts';
import { assertDirect } from './assert-direct.ts';
import {
  applySteps,
  databaseChanges,
  grantOnDatabase,
  grantTriggerSuppression,
  grantReplication,
  pendingSteps,
  refuseNewer,
} from './database.ts';
import { rejectSchemaConflicts } from './schema-conflicts.ts';
import { LOCK_TIMEOUT_MS, retryOnLockTimeout } from './lock-watch.ts';
import { revokePublicRights } from './public-rights.ts';
import { reachDatabase, type Patience } from './reach-database.ts';
import { differingPasswords, roleAddresses, syncPasswords } from './passwords.ts';
import { checkRights, needsSuperuser, provisionRoles, roleChanges, type Self } from './roles.ts';

export type Provisioned = {
  /** Connections of `svc_owner`. */
  readonly owner: DatabaseAddresses;
  /** Connections of `authenticator`, the role of requests. */
  readonly authenticator: DatabaseAddresses;
  /** Ids of the steps that this start applied. Empty for later starts. */
  readonly applied: readonly string[];
};

const LOCK_BUDGET_MS = 60_000;
const LOG_WAIT_AFTER_MS = 1_000;

/**
 * Prepares the database. The role of the direct address must be a superuser, or have CREATEROLE, CREATEDB and
 * BYPASSRLS.
 */
export async function provision(
  addresses: DatabaseAddresses,
  patience: Partial<Patience> = {},
): Promise<Provisioned> {
  const { direct } = addresses;
  try {
    return await provisionAt(direct, addresses, patience);
  } catch (error) {
    // A read-only primary suffices if the database is prepared. Otherwise wait for a server that accepts writes.
    if (!isDatabaseError(error, 'read_only_sql_transaction') || direct.attrs !== 'primary') throw error;
    return await provisionAt(direct.wanting('read-write'), addresses, patience);
  }
}

/**
 * Creates only the roles and their right to own objects. The database stays empty for a restore that refers to them.
 */
export async function provisionRolesAlone(addresses: DatabaseAddresses): Promise<void> {
  await asAdministrator(addresses, async (db) => {
    const self = await checkRights(db);
    try {
      await provisionRoles(db, self);
      await db.query(raw(grantOnDatabase(self)));
    } catch (error) {
      throw isDatabaseError(error, 'insufficient_privilege') ? await needsSuperuser(db, self, error) : error;
    }
  });
}

/** Runs `work` in a session of the role in the direct address. */
export async function asAdministrator(
  { direct: address }: DatabaseAddresses,
  work: (admin: Queryable) => Promise<void>,
): Promise<void> {
  const client = await openClient({ address, applicationName: 'svc-restore', link: new DatabaseLink() });
  try {
    await work(toQueryable(client));
  } finally {
    await endClient(client);
  }
}

async function provisionAt(
  address: DatabaseAddress,
  addresses: DatabaseAddresses,
  { log = silentLog, waitMs = 0, signal }: Partial<Patience>,
): Promise<Provisioned> {
  const settings = { address, applicationName: 'svc-provision', link: new DatabaseLink() };
  const { client, state } = await reachDatabase(address, () => openSession(settings, { signal }), {
    log,
    waitMs,
    signal,
  });
  const db = toQueryable(client);
  try {
    assertDirect(addresses, state);
    await rejectSchemaConflicts(db);
    await refuseNewer(db);
    const self = await checkRights(db);
    const applied = (await isReady(db, self, address)) ? [] : await prepare(db, self, address, log);
    await grantReplication(db);
    await revokePublicRights(db);
    return {
      owner: roleAddresses(addresses, 'svc_owner'),
      authenticator: roleAddresses(addresses, 'authenticator'),
      applied,
    };
  } finally {
    // The advisory lock is released with its session.
    await endClient(client);
  }
}

function toQueryable(client: pg.Client): Queryable {
  return {
    async query<R extends Row>(statement: Sql): Promise<R[]> {
      const { text, values } = statement.compile();
      // A query without values uses the simple protocol, which accepts the multiple statements of a step.
      const result = values.length > 0 ? await client.query<R>(text, values) : await client.query<R>(text);
      return result.rows;
    },
  };
}

/** Checks the usual case: the database is up to date, and no lock is needed. */
async function isReady(db: Queryable, self: Self, address: DatabaseAddress): Promise<boolean> {
  if ((await roleChanges(db, self)).length > 0) return false;
  if ((await databaseChanges(db, self)).length > 0) return false;
  if ((await pendingSteps(db)).length > 0) return false;
  return (await differingPasswords(db, address)).length === 0;
}

async function prepare(db: Queryable, self: Self, address: DatabaseAddress, log: Log): Promise<string[]> {
  await acquireLock(db, log);
  await db.query(raw(`set lock_timeout = ${LOCK_TIMEOUT_MS}`));
  const [session] = await db.query<{ pid: number }>(sql`select pg_backend_pid() as pid`);
  const pid = must(session, 'the current session').pid;
  const patiently = <T>(work: () => Promise<T>): Promise<T> =>
    retryOnLockTimeout({ address, pid, log }, work);
  try {
    await provisionRoles(db, self);
    await syncPasswords(db, address, log);
    for (const change of await databaseChanges(db, self)) await patiently(() => db.query(raw(change)));
    await grantTriggerSuppression(db);
    return await applySteps(db, patiently);
  } catch (error) {
    throw isDatabaseError(error, 'insufficient_privilege') ? await needsSuperuser(db, self, error) : error;
  }
}

async function acquireLock(db: Queryable, log: Log): Promise<void> {
  const started = Date.now();
  let hasLogged = false;
  for (;;) {
    if (await tryLock(db, 'provision')) return;
    const waited = Date.now() - started;
    if (waited > LOCK_BUDGET_MS) {
      throw new Problem(
        'provision_locked',
        500,
        'Another instance has been provisioning this database for a minute',
        {
          hint: "Find its session: select * from pg_stat_activity where application_name = 'svc-provision'.",
        },
      );
    }
    if (waited > LOG_WAIT_AFTER_MS && !hasLogged) {
      hasLogged = true;
      log.info('another instance is preparing the database; waiting for it');
    }
    await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 50));
  }
}
