// Passwords of the two login roles. They are derived from the password of the connection string, so that all instances
// with this string compute the same passwords. They are set only if they differ.
import { createHmac } from 'node:crypto';
import type { Log } from '../log/log.ts';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import type { DatabaseAddresses } from '../postgres/address/database-addresses.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { openClient } from '../postgres/connection.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { ident, literal, raw, sql } from '../postgres/sql.ts';
import { untilNoRace } from './cluster-race.ts';
import { LOGIN_ROLES } from './roles.ts';
import { matchesVerifier, scramVerifier } from './scram.ts';

type LoginRole = (typeof LOGIN_ROLES)[number];

/** Returns the addresses for a login role, without a password if the address of the administrator has none. */
export function roleAddresses({ data, direct, read }: DatabaseAddresses, role: LoginRole): DatabaseAddresses {
  const password = rolePassword(direct, role) ?? undefined;
  return {
    data: data.as(role, password),
    direct: direct.as(role, password),
    read: read?.as(role, password),
  };
}

type ToolRole = 'svc_reader' | 'svc_asker';

/** Returns the password of a role that `svc mcp` uses. */
export function toolPassword(address: DatabaseAddress, role: ToolRole): string | null {
  return rolePassword(address, role);
}

function rolePassword({ password }: DatabaseAddress, role: LoginRole | ToolRole): string | null {
  if (password === undefined) return null;
  return createHmac('sha256', password).update(`svc role password\0${role}`).digest('base64url');
}

/** Returns the login roles with a differing password. */
export async function differingPasswords(db: Queryable, address: DatabaseAddress): Promise<LoginRole[]> {
  if (address.password === undefined) return [];
  const [may] = await db.query<{ read: boolean }>(
    sql`select has_table_privilege('pg_catalog.pg_authid', 'select') as read`,
  );
  const differs = may?.read ? await storedDiffers(db, address) : await loginDiffers(address);
  return LOGIN_ROLES.filter((_, index) => differs[index]);
}

async function storedDiffers(db: Queryable, address: DatabaseAddress): Promise<boolean[]> {
  const rows = await db.query<{ rolname: string; rolpassword: string | null }>(
    sql`select rolname, rolpassword from pg_authid where rolname = any(${LOGIN_ROLES})`,
  );
  return LOGIN_ROLES.map((role) => {
    const stored = rows.find((row) => row.rolname === role)?.rolpassword ?? null;
    return !matchesVerifier(stored, rolePassword(address, role) ?? '');
  });
}

/**
 * Tries to log in, because the role cannot read the stored verifiers. A server without password authentication
 * accepts any password.
 */
async function loginDiffers(address: DatabaseAddress): Promise<boolean[]> {
  return await Promise.all(
    LOGIN_ROLES.map(async (role) => {
      const own = address.as(role, rolePassword(address, role) ?? undefined);
      try {
        const client = await openClient({ address: own, applicationName: 'svc-provision' });
        await client.end().catch(() => {});
        return false;
      } catch (error) {
        // Other errors do not concern the password. The connection that is used later reports them.
        return isDatabaseError(error, 'invalid_password');
      }
    }),
  );
}

export async function syncPasswords(db: Queryable, address: DatabaseAddress, log: Log): Promise<void> {
  await untilNoRace(async () => {
    const differing = await differingPasswords(db, address);
    if (differing.length > 0) await warnOthers(db, differing, log);
    for (const role of differing) {
      const verifier = scramVerifier(rolePassword(address, role) ?? '');
      await db.query(sql`alter role ${ident(role)} password ${literal(verifier)}`);
    }
  });
}

/**
 * Warns about databases whose projects derive another password and can no longer log in, as roles belong to the
 * cluster.
 */
async function warnOthers(db: Queryable, roles: readonly LoginRole[], log: Log): Promise<void> {
  const databases = await db.query<{ datname: string }>(sql`
    select distinct datname::text from pg_stat_activity
    where usename = any(${roles}) and datname <> current_database() ${raw('order by 1')}`);
  if (databases.length === 0) return;
  log.warn(
    { databases: databases.map((row) => row.datname), roles },
    'projects in other databases of this server use these roles with another password and can no longer connect: ' +
      'all projects of a server need connection strings with the same password',
  );
}
