// Checks of the database: whether it is reachable, its settings, and whether it matches the file. They change
// nothing.
import { duplicateMailboxes } from '../../auth/users/canonical-addresses.ts';
import type { Config } from '../../config/config.ts';
import { silentLog } from '../../log/log.ts';
import { checkPending, planModel } from '../../migrate/commands/plan.ts';
import { readRetired } from '../../migrate/commands/prune.ts';
import { readRun } from '../../migrate/state/history.ts';
import type { DatabaseAddresses } from '../../postgres/address/database-addresses.ts';
import { openSession } from '../../postgres/connection.ts';
import { DatabaseLink, describe } from '../../postgres/link/database-link.ts';
import type { OwnerDatabase, Queryable } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import { roleAddresses } from '../../provision/passwords.ts';
import { asAdministrator } from '../../provision/provision.ts';
import { publicWriters, revokeStatements } from '../../provision/public-rights.ts';
import { assertRequestSession } from '../../provision/request-session.ts';
import { checkRights } from '../../provision/roles.ts';
import { bad, type Check, ok, warning } from './check.ts';

const SLOW_MS = 20;
const CLOCK_S = 5;
const MAX_PAIRS_SHOWN = 3;

export const reach =
  (addresses: DatabaseAddresses): Check =>
  async () => {
    let found: Facts | undefined;
    await asAdministrator(addresses, async (admin) => {
      await checkRights(admin);
      found = await readFacts(admin);
    });
    if (!found) return bad('the database returned no settings');
    const { version, clock, ms, encrypted, collation } = found;
    const message = `${addresses.direct.describe()}: PostgreSQL ${version}, ${ms} ms away`;
    if (Math.abs(clock) > CLOCK_S)
      return warning(
        `${message}; its clock differs by ${Math.round(clock)} s`,
        'run a time service on both machines',
      );
    if (collation)
      return warning(
        `${message}; its collation version differs from that of its indexes`,
        'REINDEX DATABASE, then ALTER DATABASE … REFRESH COLLATION VERSION',
      );
    if (!encrypted)
      return warning(`${message}, without encryption`, 'sslmode=require, or verify-full with sslrootcert');
    return ms > SLOW_MS
      ? warning(
          `${message}: every request takes at least that long`,
          'run svc and the database in the same location',
        )
      : ok(message);
  };

/** Returns whether svc has ever started on the database. */
export async function isPrepared(addresses: DatabaseAddresses): Promise<boolean> {
  let prepared = false;
  await asAdministrator(addresses, async (admin) => {
    const [row] = await admin.query<{ there: boolean }>(
      raw(`select to_regclass('svc_meta.provision_step') is not null as there`),
    );
    prepared = row?.there === true;
  });
  return prepared;
}

/**
 * Finds accounts whose addresses are two spellings of one mailbox, from versions that did not normalize
 * addresses.
 */
export const mailboxes =
  (owner: OwnerDatabase): Check =>
  async () => {
    const pairs = await duplicateMailboxes(owner);
    if (pairs.length === 0) return ok('each mailbox has one account');
    const shown = pairs.slice(0, MAX_PAIRS_SHOWN).join('; ');
    return warning(
      `${pairs.length} mailboxes have two accounts: ${shown}`,
      'change the address of one account, or delete it',
    );
  };

/**
 * Finds functions of PostgreSQL that write and that every role may execute, because svc could not revoke
 * that.
 */
export const publicFunctions =
  (owner: Queryable): Check =>
  async () => {
    const writers = await publicWriters(owner);
    const [repair] = revokeStatements(writers);
    if (repair === undefined) return ok('no built-in function that writes is open to every role');
    const shown = [...new Set(writers.map((writer) => writer.replace(/\(.*/, '')))].join(', ');
    return warning(`every role may execute ${shown}`, `as a superuser, once: ${repair}`);
  };

type Facts = {
  readonly version: string;
  /** Seconds by which the database clock is ahead. */
  readonly clock: number;
  readonly ms: number;
  /** True for TLS and for local connections. */
  readonly encrypted: boolean;
  readonly collation: boolean;
};

async function readFacts(admin: Queryable): Promise<Facts> {
  const started = performance.now();
  const [row] = await admin.query<Omit<Facts, 'ms' | 'clock'> & { now: number }>(
    raw(`select current_setting('server_version') as version, extract(epoch from clock_timestamp())::float8 as now,
      inet_client_addr() is null or inet_client_addr() <<= inet '127.0.0.0/8' or inet_client_addr() = '::1'
        or coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as encrypted,
      coalesce(datcollversion <> pg_database_collation_actual_version(oid), false) as collation
      from pg_database where datname = current_database()`),
  );
  const ms = Math.round(performance.now() - started);
  if (!row) throw new Error('the database has no name');
  return { ...row, ms, clock: row.now - Date.now() / 1000 };
}

/** Checks the path of requests to the server, and whether they run with the rights of their callers. */
export const requests =
  (addresses: DatabaseAddresses): Check =>
  async () => {
    const settings = {
      address: roleAddresses(addresses, 'authenticator').data,
      applicationName: 'svc-doctor',
      link: new DatabaseLink(),
    };
    await assertRequestSession(settings);
    const { client, state } = await openSession(settings);
    await client.end();
    return ok(
      `requests run as authenticator, ${state === undefined ? 'on a direct connection' : describe(state)}`,
    );
  };

export const realtime =
  (config: Config, owner: Queryable): Check =>
  async () => {
    const wanted = config.tables.some((table) => table.realtime);
    const [row] = await owner.query<{ level: string; slots: number; used: number }>(
      raw(`select current_setting('wal_level') as level, current_setting('max_replication_slots')::int as slots,
        (select count(*)::int from pg_replication_slots) as used`),
    );
    if (row === undefined || !wanted) return ok('no table has realtime changes');
    if (row.level !== 'logical')
      return warning(
        `wal_level is ${row.level}: changes of rows cannot be read from the log`,
        "alter system set wal_level = 'logical', then restart the server",
      );
    return row.used >= row.slots
      ? warning(
          `all ${row.slots} replication slots are in use`,
          'raise max_replication_slots, one for each instance',
        )
      : ok(`wal_level is logical, ${row.slots - row.used} slots are free`);
  };

export const migrations =
  (config: Config, owner: OwnerDatabase, rows?: 'all' | 'none'): Check =>
  async () => {
    const pending = await checkPending({ owner, config, log: silentLog, rows });
    const retired = (await owner.session(readRetired)).length;
    const more = retired === 0 ? '' : `; ${retired} retired objects are kept (svc migrate status)`;
    switch (pending.kind) {
      case 'in-sync':
        return ok(`the database matches the file${more}`);
      case 'superseded':
        return warning('this file was replaced by a newer one', 'svc migrate status');
      case 'pending':
        return pending.problems.length > 0
          ? bad(`the file cannot be applied: ${pending.problems[0]?.message ?? ''}`, 'svc migrate plan')
          : warning(`${pending.words.length} changes are not applied yet${more}`, 'svc migrate apply');
    }
  };

/** Finds changes made outside of migrations, and policies that no file declares. */
export const drift =
  (config: Config, owner: OwnerDatabase, rows?: 'all' | 'none'): Check =>
  async () => {
    const run = await owner.session((session) => readRun(session));
    if (run === null) return ok('no migration has been applied yet');
    const policy = { allow: ['authz_open'], allowRollback: true };
    const planned = await planModel(run.model, () => null, { owner, config, log: silentLog, policy, rows });
    if (planned.kind === 'refused')
      return warning(
        `the changes since the last migration cannot be compared: ${planned.problems[0]?.message ?? ''}`,
        'svc migrate drift',
      );
    const { steps, foreign, unmanaged } = planned.plan;
    const policies = unmanaged.filter(({ what }) => what === 'policy').length;
    const changed = steps.length + foreign.length;
    if (changed + policies === 0) return ok('the database is unchanged since the last migration');
    const parts = [
      ...(changed === 0
        ? []
        : [`${changed} ${changed === 1 ? 'object was' : 'objects were'} changed outside of migrations`]),
      ...(policies === 0 ? [] : [`${policies} ${policies === 1 ? 'policy is' : 'policies are'} in no file`]),
    ];
    return warning(parts.join(', '), 'svc migrate drift lists them');
  };
