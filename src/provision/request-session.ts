// Checks a session opened as requests open theirs: its user may become the three roles of callers and nothing more,
// whatever the address, a pooler or roles that existed before made of it.
import type pg from 'pg';
import { openSession, type ConnectionSettings, type Session } from '../postgres/connection.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { quoteIdent } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';

type Attribute = 'SUPERUSER' | 'BYPASSRLS' | 'CREATEROLE' | 'CREATEDB' | 'REPLICATION';

type Found = {
  readonly session_user: string;
  readonly role: string;
  /** Attributes of the session's user and of each role it may become. */
  readonly attributes: ReadonlyArray<{ readonly role: string; readonly attributes: readonly Attribute[] }>;
};

const EXPECTED = 'authenticator';
/** BYPASSRLS is what the secret key means. */
const MAY_BE: Readonly<Record<string, readonly Attribute[]>> = {
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
      from pg_roles where pg_has_role(session_user, oid, 'member')) as attributes`;

/**
 * Refuses to go on where a request could become more than its caller, or where a pooler lets nobody begin a transaction.
 * `settings` are those with which requests connect.
 */
export async function assertRequestSession(settings: ConnectionSettings): Promise<void> {
  const session = await openSession(settings);
  try {
    await assertSession(session);
  } finally {
    await session.client.end().catch(() => {});
  }
}

const AGAIN_AFTER_MS = 60_000;

/**
 * For `ConnectionSettings.check`: looks at the first connection to each server and each address behind its name, and
 * again from time to time.
 */
export function requestSessionCheck(): (session: Session) => Promise<void> {
  const checked = new Map<string, number>();
  return async (session) => {
    const { target, ip } = session.place;
    const place = `${ip ?? ''} ${target.host} ${target.port}`;
    const before = checked.get(place);
    if (before !== undefined && performance.now() - before < AGAIN_AFTER_MS) return;
    await assertSession(session);
    checked.set(place, performance.now());
  };
}

async function assertSession({ client, state }: Session): Promise<void> {
  const { rows } = await client.query<Found>(QUERY);
  const [found] = rows;
  if (!found) throw new Error('the session does not know its user');
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
      `SVC_DATABASE_URL goes through a pooler that lends its sessions for one statement at a time: ${cause.message}`,
      { cause, hint: 'Set its mode to transaction or session (pool_mode of PgBouncer).' },
    );
  }
}

function assertRoles({ session_user: user, role, attributes }: Found): void {
  if (user !== EXPECTED || role !== EXPECTED) {
    throw unsafe(
      `Requests would run as "${role}" on a session of "${user}" and not of "${EXPECTED}"`,
      'Look at what SVC_DATABASE_URL leads to: a pooler that replaces the user, or a setting "role" of the role or the database.',
    );
  }
  for (const one of attributes) {
    const known = MAY_BE[one.role];
    if (known === undefined) {
      throw unsafe(
        `Requests could become the role "${one.role}"`,
        `Whoever connects as ${EXPECTED} may become anon, authenticated and service_role and nothing else. As a superuser: revoke ${quoteIdent(one.role)} from whichever of these four it was granted to.`,
      );
    }
    const more = one.attributes.filter((attribute) => !known.includes(attribute));
    if (more.length === 0) continue;
    throw unsafe(
      `The role "${one.role}" has ${more.join(', ')}, so row-level security would not hold for requests`,
      `As a superuser: alter role ${quoteIdent(one.role)} ${more.map((attribute) => `no${attribute.toLowerCase()}`).join(' ')};`,
    );
  }
}

const unsafe = (message: string, hint: string): Problem =>
  new Problem('unsafe_session', 500, message, { hint });
