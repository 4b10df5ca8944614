// Checks a session opened as requests open theirs: its user may become the three roles of callers and nothing more,
// whatever the address, a pooler or roles that existed before made of it.
import pg from 'pg';
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { clientConfig } from '../postgres/connection.ts';
import { quoteIdent } from '../postgres/sql.ts';
import { Problem } from '../problem/problem.ts';
import { pooled } from './refuse-pooler.ts';

type Attribute = 'SUPERUSER' | 'BYPASSRLS' | 'CREATEROLE' | 'CREATEDB' | 'REPLICATION';

type Session = {
  readonly session_user: string;
  readonly role: string;
  /** `statement_timeout` in milliseconds. */
  readonly deadline: string;
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
    (select setting from pg_settings where name = 'statement_timeout') as deadline,
    (select json_agg(json_build_object('role', rolname, 'attributes', array_remove(array[
        case when rolsuper then 'SUPERUSER' end, case when rolbypassrls then 'BYPASSRLS' end,
        case when rolcreaterole then 'CREATEROLE' end, case when rolcreatedb then 'CREATEDB' end,
        case when rolreplication then 'REPLICATION' end], null)) order by rolname)
      from pg_roles where pg_has_role(session_user, oid, 'member')) as attributes`;

/** Refuses to go on where a request could become more than its caller. `address` is what requests connect with. */
export async function assertRequestSession(
  address: DatabaseAddress,
  statementTimeoutMs?: number,
): Promise<void> {
  const client = new pg.Client(clientConfig({ address, applicationName: 'svc-request', statementTimeoutMs }));
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query<Session>(QUERY);
    const [session] = rows;
    if (!session) throw new Error('the session does not know its user');
    assertSession(session);
    if (statementTimeoutMs && Number(session.deadline) !== statementTimeoutMs) throw withoutDeadline();
  } finally {
    await client.end().catch(() => {});
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

const withoutDeadline = (): Problem =>
  pooled(
    'The options of a session do not reach the database, so requests would have no deadline',
    'A pooler drops them (ignore_startup_parameters of PgBouncer): set SVC_DATABASE_URL to PostgreSQL itself.',
  );

const unsafe = (message: string, hint: string): Problem =>
  new Problem('unsafe_session', 500, message, { hint });
