// Lists users and their sessions. Secrets (hashes, tokens, session keys, factor secrets) are never selected, so later
// changes of the response cannot expose them.
import type { FastifyRequest } from 'fastify';
import { ADMIN_ACTOR, recordAudit } from '../../auth/audit.ts';
import { isUuid, type Fields } from '../../auth/fields.ts';
import { readPage } from '../../auth/http/pagination.ts';
import { endSessions } from '../../auth/sessions/session.ts';
import { sql, raw, type Sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import type { UserDetail, UserList, UserRow } from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { pathParameter, queryFields } from '../request.ts';
import type { DashboardRoutes } from './route.ts';

const USER_COLUMNS = raw(`
  u.id, u.email, u.phone, u.created_at, u.last_sign_in_at, u.confirmed_at, u.banned_until, u.is_anonymous,
  array(select i.provider from auth.identities i where i.user_id = u.id group by i.provider
    order by min(i.created_at), i.provider)::text[] as providers`);

type Row = Pick<UserRow, 'id' | 'email' | 'phone' | 'providers'> & {
  created_at: Date;
  last_sign_in_at: Date | null;
  confirmed_at: Date | null;
  banned_until: Date | null;
  is_anonymous: boolean;
};

export const userRoutes: DashboardRoutes = (context) => [
  ['GET', '/users', 'read', (request) => listUsers(context, queryFields(request))],
  ['GET', '/users/:id', 'read', (request) => readUser(context, pathParameter(request, 'id'))],
  ['DELETE', '/users/:id/sessions', 'write', (request) => signOut(context, request, undefined)],
  [
    'DELETE',
    '/users/:id/sessions/:session',
    'write',
    (request) => signOut(context, request, pathParameter(request, 'session')),
  ],
];

async function listUsers({ owner }: DashboardContext, query: Fields): Promise<UserList> {
  const search = query.filled('search')?.trim();
  const page = readPage(query);
  const matching = sql`from auth.users u where ${search ? matches(search) : raw('true')}`;
  const [rows, [total]] = await Promise.all([
    owner.query<Row>(sql`
      select ${USER_COLUMNS} ${matching} order by u.created_at desc, u.id limit ${page.perPage} offset ${page.offset}`),
    owner.query<{ count: number }>(sql`select count(*)::float8 as count ${matching}`),
  ]);
  return { users: rows.map(toUser), total: total?.count ?? 0 };
}

function matches(search: string): Sql {
  const part = (text: string): string => `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
  // Phone numbers are stored without the leading plus.
  return sql`(u.email ilike ${part(search)} or u.phone like ${part(search.replace(/^\+/, ''))}
    or u.id::text like ${part(search.toLowerCase())})`;
}

async function readUser({ owner }: DashboardContext, id: string): Promise<UserDetail> {
  if (!isUuid(id)) throw noSuchUser(id);
  const row = await owner.maybeOne<Row & Omit<UserDetail, keyof UserRow>>(sql`
    select ${USER_COLUMNS}, u.raw_user_meta_data as "userMetadata", u.raw_app_meta_data as "appMetadata",
      coalesce((
        select json_agg(json_build_object('id', i.id, 'provider', i.provider, 'email', i.email,
          'createdAt', i.created_at) order by i.created_at, i.id)
        from auth.identities i where i.user_id = u.id), '[]') as identities,
      coalesce((
        select json_agg(json_build_object('id', s.id, 'createdAt', s.created_at, 'refreshedAt', s.refreshed_at,
          'aal', s.aal, 'userAgent', s.user_agent, 'ip', host(s.ip)) order by s.created_at desc, s.id)
        from auth.sessions s where s.user_id = u.id), '[]') as sessions,
      coalesce((
        select json_agg(json_build_object('id', f.id, 'type', f.factor_type, 'name', f.friendly_name,
          'status', f.status, 'createdAt', f.created_at) order by f.created_at, f.id)
        from auth.mfa_factors f where f.user_id = u.id), '[]') as factors
    from auth.users u where u.id = ${id}`);
  if (!row) throw noSuchUser(id);
  const { userMetadata, appMetadata, identities, sessions, factors } = row;
  return { ...toUser(row), userMetadata, appMetadata, identities, sessions, factors };
}

/** Ends one session of the user, or all of them. */
async function signOut(
  { owner, now }: DashboardContext,
  request: FastifyRequest,
  sessionId: string | undefined,
): Promise<void> {
  const userId = pathParameter(request, 'id');
  if (!isUuid(userId)) throw noSuchUser(userId);
  await owner.transaction(async (db) => {
    const [user] = await db.query<{ email: string | null }>(
      sql`select email from auth.users where id = ${userId}`,
    );
    if (!user) throw noSuchUser(userId);
    if (sessionId !== undefined) {
      const [session] = isUuid(sessionId)
        ? await db.query(sql`select id from auth.sessions where id = ${sessionId} and user_id = ${userId}`)
        : [];
      if (!session) throw noSuchSession(sessionId);
    }
    await endSessions(db, userId, sessionId === undefined ? 'all' : { only: sessionId });
    const traits = { user_id: userId, user_email: user.email ?? '' };
    await recordAudit(db, { client: request.client, now: now() }, 'logout', ADMIN_ACTOR, traits);
  });
}

function toUser(row: Row): UserRow {
  const { id, email, phone, providers } = row;
  return {
    id,
    email,
    phone,
    createdAt: row.created_at.toISOString(),
    lastSignInAt: row.last_sign_in_at?.toISOString() ?? null,
    confirmedAt: row.confirmed_at?.toISOString() ?? null,
    bannedUntil: row.banned_until?.toISOString() ?? null,
    anonymous: row.is_anonymous,
    providers,
  };
}

function noSuchUser(id: string): Problem {
  return new Problem('user_not_found', 404, 'There is no such user', { details: id.slice(0, 100) });
}

function noSuchSession(id: string): Problem {
  return new Problem('session_not_found', 404, 'There is no such session', {
    details: id.slice(0, 100),
    hint: 'It may have ended since then: reload the user.',
  });
}
