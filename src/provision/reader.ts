// `svc_reader`: a login that can read and nothing else, for tools that run statements which nobody has looked at. Made when
// such a tool first asks for it. It is a member of no role, so there is nothing it could become.
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import type { DatabaseAddresses } from '../postgres/address/database-addresses.ts';
import type { OwnerDatabase, Queryable } from '../postgres/owner-database.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { ident, join, literal, raw, sql } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { untilNoRace } from './cluster-race.ts';
import { readerPassword } from './passwords.ts';
import { asAdministrator } from './provision.ts';
import { scramVerifier } from './scram.ts';

const READER = 'svc_reader';
const MAKE = `create role ${READER} login noinherit bypassrls`;

/** Of users what tells who they are: no hashes, no tokens. */
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

type Found = { readonly elevated: boolean; readonly bypassrls: boolean; readonly member: boolean };

/** Where it connects. `schemas`: whose tables it may read. */
export async function provideReader(
  addresses: DatabaseAddresses,
  owner: OwnerDatabase,
  schemas: readonly string[],
): Promise<DatabaseAddress> {
  const { direct } = addresses;
  const password = readerPassword(direct);
  await asAdministrator(addresses, async (admin) => {
    try {
      await untilNoRace(async () => {
        if ((await find(admin)) === undefined) await admin.query(raw(MAKE));
        if (password !== null)
          await admin.query(sql`alter role ${ident(READER)} password ${literal(scramVerifier(password))}`);
      });
    } catch (error) {
      if (!isDatabaseError(error, 'insufficient_privilege')) throw error;
      throw new Problem(
        'missing_rights',
        500,
        `The role "${direct.user}" may not make ${READER}: ${error.message}`,
        {
          cause: error,
          hint: `Run as a superuser, once: ${MAKE}; grant ${READER} to ${direct.user} with admin option;`,
        },
      );
    }
    const found = await find(admin);
    if (found === undefined || found.elevated || found.member)
      throw new Problem('unsafe_session', 500, `${READER} may do more than read`, {
        hint: `Take its memberships and attributes from it: drop role ${READER}, and it is made anew.`,
      });
  });
  // Several queries at once, or another instance, may give the same.
  await untilNoRace(() => grantReading(owner, schemas));
  return direct.as(READER, password ?? undefined);
}

async function find(admin: Queryable): Promise<Found | undefined> {
  const [found] = await admin.query<Found>(sql`
    select rolsuper or rolcreaterole or rolcreatedb or rolreplication as elevated, rolbypassrls as bypassrls,
      exists (select from pg_auth_members where member = r.oid) as member
    from pg_roles r where rolname = ${READER}`);
  return found;
}

async function grantReading(owner: OwnerDatabase, schemas: readonly string[]): Promise<void> {
  const all = join([...new Set(['public', ...schemas])].map((name) => ident(name)));
  const reader = ident(READER);
  await owner.transaction(async (transaction) => {
    await transaction.query(sql`grant usage on schema ${all}, auth, storage to ${reader}`);
    await transaction.query(sql`grant select on all tables in schema ${all} to ${reader}`);
    await transaction.query(
      sql`grant select (${join(USER_COLUMNS.map((name) => ident(name)))}) on auth.users to ${reader}`,
    );
    await transaction.query(sql`grant select on storage.buckets, storage.objects to ${reader}`);
  });
}
