// Login roles for tools that run unreviewed statements, created when such a tool first needs them. `svc_reader` can
// read and is not a member of any role. `svc_asker` can switch to the roles of requests. It is not `authenticator`,
// because a role can terminate the connections of the same role.
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import type { DatabaseAddresses } from '../postgres/address/database-addresses.ts';
import type { OwnerDatabase, Queryable } from '../postgres/owner-database.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { ident, join, literal, raw, sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { untilNoRace } from './cluster-race.ts';
import { toolPassword } from './passwords.ts';
import { asAdministrator } from './provision.ts';
import { scramVerifier } from './scram.ts';

const READER = 'svc_reader';
const ASKER = 'svc_asker';
const API_ROLES = ['anon', 'authenticated', 'service_role'];
type ToolRole = typeof READER | typeof ASKER;

const CREATE: Readonly<Record<ToolRole, string>> = {
  svc_reader: `create role ${READER} login noinherit bypassrls`,
  svc_asker: `create role ${ASKER} login noinherit in role ${API_ROLES.join(', ')}`,
};

/** Columns of users that identify them. Hashes and tokens are excluded. */
const USER_COLUMNS = [
  'id',
  'email',
  'created_at',
  'updated_at',
  'last_sign_in_at',
  'email_confirmed_at',
  'banned_until',
  'is_anonymous',
  'raw_app_meta_data',
  'raw_user_meta_data',
];

/** Returns the address for the reader, who may read the tables in `schemas`. */
export async function provideReader(
  addresses: DatabaseAddresses,
  owner: OwnerDatabase,
  schemas: readonly string[],
): Promise<DatabaseAddress> {
  const address = await provideLogin(addresses, READER);
  // Concurrent queries, also from other instances, may grant the same rights.
  await untilNoRace(() => grantReading(owner, schemas));
  return address;
}

/** Returns the address for statements that run as a caller. */
export async function provideAsker(addresses: DatabaseAddresses): Promise<DatabaseAddress> {
  return await provideLogin(addresses, ASKER);
}

async function provideLogin(addresses: DatabaseAddresses, role: ToolRole): Promise<DatabaseAddress> {
  const { direct } = addresses;
  const password = toolPassword(direct, role);
  await asAdministrator(addresses, async (admin) => {
    try {
      await untilNoRace(async () => {
        if ((await find(admin, role)) === undefined) await admin.query(raw(CREATE[role]));
        if (password !== null)
          await admin.query(sql`alter role ${ident(role)} password ${literal(scramVerifier(password))}`);
      });
    } catch (error) {
      if (!isDatabaseError(error, 'insufficient_privilege')) throw error;
      throw new Problem(
        'missing_rights',
        500,
        `The role "${direct.user}" cannot create ${role}: ${error.message}`,
        {
          cause: error,
          hint: `Run once as a superuser: ${CREATE[role]}; grant ${role} to ${direct.user} with admin option;`,
        },
      );
    }
    const found = await find(admin, role);
    const isAsCreated =
      found?.elevated === false &&
      found.bypassrls === (role === READER) &&
      found.member.every((member) => role === ASKER && API_ROLES.includes(member));
    if (!isAsCreated)
      throw new Problem('unsafe_session', 500, `${role} has more rights than svc gave it`, {
        hint: `Run drop role ${role}; svc creates it again without these rights.`,
      });
  });
  return direct.as(role, password ?? undefined);
}

type Found = { readonly elevated: boolean; readonly bypassrls: boolean; readonly member: readonly string[] };

async function find(admin: Queryable, role: ToolRole): Promise<Found | undefined> {
  const [found] = await admin.query<Found>(sql`
    select rolsuper or rolcreaterole or rolcreatedb or rolreplication as elevated, rolbypassrls as bypassrls,
      array(select roleid::regrole::text from pg_auth_members where member = r.oid) as member
    from pg_roles r where rolname = ${role}`);
  return found;
}

async function grantReading(owner: OwnerDatabase, schemas: readonly string[]): Promise<void> {
  const names = [...new Set(['public', ...schemas])];
  const all = join(names.map((name) => ident(name)));
  const reader = ident(READER);
  await owner.transaction(async (transaction) => {
    await transaction.query(sql`grant usage on schema ${all}, auth, storage to ${reader}`);
    // Do not grant `on all tables`: the owner cannot grant tables of other roles, and one of them would fail the
    // statement.
    const tables = await transaction.query<{ schema: string; name: string }>(sql`
      select n.nspname as schema, c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = any(${names}::name[]) and c.relkind in ('r', 'p', 'v', 'm', 'f')
        and pg_has_role(c.relowner, 'usage') and not has_table_privilege(${READER}, c.oid, 'select')`);
    if (tables.length > 0) {
      const named = join(tables.map(({ schema, name }) => sql`${ident(schema)}.${ident(name)}`));
      await transaction.query(sql`grant select on ${named} to ${reader}`);
    }
    await transaction.query(
      sql`grant select (${join(USER_COLUMNS.map((name) => ident(name)))}) on auth.users to ${reader}`,
    );
    await transaction.query(sql`grant select on storage.buckets, storage.objects to ${reader}`);
  });
}
