// The database: whether it can be reached, what it is, and whether it follows the file. Nothing in it is changed.
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
import { assertRequestSession } from '../../provision/request-session.ts';
import { checkRights } from '../../provision/roles.ts';
import { bad, type Look, ok, warning } from './check.ts';

const SLOW_MS = 20;
const CLOCK_S = 5;

export const reach =
  (addresses: DatabaseAddresses): Look =>
  async () => {
    let found: Facts | undefined;
    await asAdministrator(addresses, async (admin) => {
      await checkRights(admin);
      found = await readFacts(admin);
    });
    if (!found) return bad('the database told nothing');
    const { version, clock, ms, encrypted, collation } = found;
    const says = `${addresses.direct.describe()}: PostgreSQL ${version}, ${ms} ms away`;
    if (Math.abs(clock) > CLOCK_S)
      return warning(
        `${says}; its clock differs by ${Math.round(clock)} s`,
        'run a time service on both machines',
      );
    if (collation)
      return warning(
        `${says}; its collation is another version than its indexes were made with`,
        'REINDEX DATABASE, then ALTER DATABASE … REFRESH COLLATION VERSION',
      );
    if (!encrypted)
      return warning(`${says}, without encryption`, 'sslmode=require, or verify-full with sslrootcert');
    return ms > SLOW_MS
      ? warning(`${says}: each request waits that long at least`, 'run both in one place')
      : ok(says);
  };

/** Whether svc has ever started on it. */
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

type Facts = {
  readonly version: string;
  /** Seconds that it is ahead of ours. */
  readonly clock: number;
  readonly ms: number;
  /** Over TLS, or on this machine. */
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

/** What stands between requests and the server, and whether they would run with the rights of their callers. */
export const requests =
  (addresses: DatabaseAddresses): Look =>
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
      `they run as authenticator, ${state === undefined ? 'on a connection of their own' : describe(state)}`,
    );
  };

export const realtime =
  (config: Config, owner: Queryable): Look =>
  async () => {
    const wanted = config.tables.some((table) => table.realtime);
    const [row] = await owner.query<{ level: string; slots: number; used: number }>(
      raw(`select current_setting('wal_level') as level, current_setting('max_replication_slots')::int as slots,
        (select count(*)::int from pg_replication_slots) as used`),
    );
    if (row === undefined || !wanted) return ok('no table tells of its changes');
    if (row.level !== 'logical')
      return warning(
        `wal_level is ${row.level}: changed rows cannot be told`,
        "alter system set wal_level = 'logical', then restart the server",
      );
    return row.used >= row.slots
      ? warning(
          `all ${row.slots} replication slots are taken`,
          'raise max_replication_slots, one for each instance',
        )
      : ok(`wal_level is logical, ${row.slots - row.used} slots are free`);
  };

export const migrations =
  (config: Config, owner: OwnerDatabase): Look =>
  async () => {
    const pending = await checkPending({ owner, config, log: silentLog });
    const retired = (await owner.session(readRetired)).length;
    const more = retired === 0 ? '' : `; ${retired} retired things are kept (svc migrate status)`;
    switch (pending.kind) {
      case 'in-sync':
        return ok(`the database follows the file${more}`);
      case 'superseded':
        return warning('this file was replaced by a newer one', 'svc migrate status');
      case 'pending':
        return pending.problems.length > 0
          ? bad(`the file cannot be applied: ${pending.problems[0]?.message ?? ''}`, 'svc migrate plan')
          : warning(`${pending.words.length} changes are not applied yet${more}`, 'svc migrate apply');
    }
  };

/** What was changed by hand since the last run, and what no file declares. */
export const drift =
  (config: Config, owner: OwnerDatabase): Look =>
  async () => {
    const run = await owner.session((session) => readRun(session));
    if (run === null) return ok('nothing was applied yet');
    const policy = { allow: ['authz_open'], allowRollback: true };
    const planned = await planModel(run.model, () => null, { owner, config, log: silentLog, policy });
    if (planned.kind === 'refused')
      return warning(
        `the database cannot be led back to its last run: ${planned.problems[0]?.message ?? ''}`,
        'svc migrate drift',
      );
    const { steps, foreign, unmanaged } = planned.plan;
    const policies = unmanaged.filter(({ what }) => what === 'policy').length;
    const changed = steps.length + foreign.length;
    if (changed + policies === 0) return ok('the database is as the last run left it');
    const parts = [
      ...(changed === 0 ? [] : [`${changed} ${changed === 1 ? 'thing was' : 'things were'} changed by hand`]),
      ...(policies === 0 ? [] : [`${policies} ${policies === 1 ? 'policy is' : 'policies are'} in no file`]),
    ];
    return warning(parts.join(', '), 'svc migrate drift lists them');
  };
