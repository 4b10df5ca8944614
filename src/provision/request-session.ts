// Checks a session that was opened like those of requests. Its user may switch only to the three API roles, regardless
// of the address, a pooler and existing roles.
import type pg from 'pg';
import { openSession, type ConnectionSettings, type Session } from '../postgres/connection.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { quoteIdent } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';

type Attribute = 'SUPERUSER' | 'BYPASSRLS' | 'CREATEROLE' | 'CREATEDB' | 'REPLICATION';

type Found = {
  readonly session_user: string;
  readonly role: string;
  /** Attributes of the user of the session and of each role that it can switch to. */
  readonly attributes: ReadonlyArray<{ readonly role: string; readonly attributes: readonly Attribute[] }>;
  /** Grants of roles other than the API roles to the user of the session or to an API role. */
  readonly grants: ReadonlyArray<{ readonly role: string; readonly holder: string }>;
};

const EXPECTED = 'authenticator';
/** Allowed roles with their allowed attributes. The secret key uses a role with BYPASSRLS. */
const ALLOWED: Readonly<Record<string, readonly Attribute[]>> = {
  authenticator: [],
  anon: [],
  authenticated: [],
  service_role: ['BYPASSRLS'],
};

const QUERY = `
  select session_user, current_user as role,
    (select json_agg(json_build_object('role', rolname, 'attributes', array_remove(array[
        case when rolsuper then 'SUPERUSER' end, case when rolbypassrls then 'BYPASSRLS' end,
        case when rolcreaterole then 'CREATEROLE' end, case when rolcreatedb then 'CREATEDB' end,
        case when rolreplication then 'REPLICATION' end], null)) order by rolname)
      from pg_roles where pg_has_role(session_user, oid, 'member')) as attributes,
    -- Implicit memberships, such as that of a database owner, have no row here and cannot be revoked.
    (select coalesce(json_agg(
        json_build_object('role', g.rolname, 'holder', h.rolname) order by g.rolname, h.rolname), '[]')
      from pg_auth_members m join pg_roles g on g.oid = m.roleid join pg_roles h on h.oid = m.member
      where pg_has_role(session_user, m.member, 'member')
        and h.rolname in ('authenticator', 'anon', 'authenticated', 'service_role')
        and g.rolname not in ('anon', 'authenticated', 'service_role')) as grants`;

/**
 * Throws if a request could gain more rights than its caller, or if a pooler does not support transactions. `settings`
 * are the settings of request connections.
 */
export async function assertRequestSession(settings: ConnectionSettings): Promise<void> {
  const session = await openSession(settings);
  try {
    await assertSession(session);
  } finally {
    await session.client.end().catch(() => {});
  }
}

const RECHECK_AFTER_MS = 60_000;

/**
 * Returns a `ConnectionSettings.check` that checks the first connection to each resolved address of a server. It
 * repeats the check after `RECHECK_AFTER_MS`.
 */
export function requestSessionCheck(): (session: Session) => Promise<void> {
  const checked = new Map<string, number>();
  return async (session) => {
    const { target, ip } = session.place;
    const place = `${ip ?? ''} ${target.host} ${target.port}`;
    const before = checked.get(place);
    if (before !== undefined && performance.now() - before < RECHECK_AFTER_MS) return;
    await assertSession(session);
    checked.set(place, performance.now());
  };
}

async function assertSession({ client, state }: Session): Promise<void> {
  const { rows } = await client.query<Found>(QUERY);
  const [found] = rows;
  if (!found) throw new Error('the query for the user of the session returned no row');
  assertRoles(found);
  if (state && state.verdict !== 'direct') await assertTransactions(client);
}

async function assertTransactions(client: pg.Client): Promise<void> {
  try {
    await client.query('begin');
    await client.query('rollback');
  } catch (cause) {
    if (!isDatabaseError(cause)) throw cause;
    throw new Problem(
      'pooler_per_statement',
      500,
      `SVC_DATABASE_URL goes through a pooler that assigns sessions per statement: ${cause.message}`,
      { cause, hint: 'Set its mode to transaction or session (pool_mode of PgBouncer).' },
    );
  }
}

function assertRoles({ session_user: user, role, attributes, grants }: Found): void {
  if (user !== EXPECTED || role !== EXPECTED) {
    throw unsafe(
      `Requests would run as "${role}" on a session of "${user}", but must run as "${EXPECTED}"`,
      'Check SVC_DATABASE_URL: a pooler may replace the user, or the role or the database may have a setting "role".',
    );
  }
  for (const one of attributes) {
    const known = ALLOWED[one.role];
    if (known === undefined) {
      const [{ role: granted, holder } = { role: one.role, holder: EXPECTED }] = grants;
      const revocations = grants
        .map((grant) => `revoke ${quoteIdent(grant.role)} from ${quoteIdent(grant.holder)};`)
        .join(' ');
      throw unsafe(
        `Requests could switch to the role "${granted}", which was granted to "${holder}"`,
        `${EXPECTED} may switch only to anon, authenticated and service_role. Run as a superuser: ${revocations}`,
      );
    }
    const more = one.attributes.filter((attribute) => !known.includes(attribute));
    if (more.length === 0) continue;
    const removals = more.map((attribute) => `no${attribute.toLowerCase()}`).join(' ');
    throw unsafe(
      `The role "${one.role}" has ${more.join(', ')}, so row-level security would not apply to requests`,
      `Run as a superuser: alter role ${quoteIdent(one.role)} ${removals};`,
    );
  }
}

const unsafe = (message: string, hint: string): Problem =>
  new Problem('unsafe_session', 500, message, { hint });
