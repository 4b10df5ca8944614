// Checks a session opened as requests open theirs: its user may become the three roles of callers and nothing more,
// whatever the address, a pooler or roles that existed before made of it.
import pg from 'pg';
import { clientConfig, connecting, measured, type ConnectionSettings } from '../postgres/connection.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { quoteIdent } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';

type Attribute = 'SUPERUSER' | 'BYPASSRLS' | 'CREATEROLE' | 'CREATEDB' | 'REPLICATION';

type Session = {
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
  const client = await connecting(settings, async () => {
    const opened = new pg.Client(clientConfig(settings));
    opened.on('error', () => {});
    await opened.connect();
    return opened;
  });
  try {
    const state = await measured(client, settings);
    const { rows } = await client.query<Session>(QUERY);
    const [session] = rows;
    if (!session) throw new Error('the session does not know its user');
    assertSession(session);
    if (state && state.verdict !== 'direct') await assertTransactions(client);
  } finally {
    await client.end().catch(() => {});
  }
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

function assertSession({ session_user: user, role, attributes }: Session): void {
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
