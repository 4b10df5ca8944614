// The five roles. `svc_owner` owns what the product makes, `authenticator` is what requests connect as, and it
// may become `anon`, `authenticated` or `service_role` and nothing else: no request ever runs as a superuser.
import { createHash } from 'node:crypto';
import { Problem } from '../problem/problem.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { ident, literal, raw, sql, type Sql } from '../postgres/sql.ts';

type Self = {
  name: string;
  rolsuper: boolean;
  rolcreaterole: boolean;
  rolcreatedb: boolean;
  rolbypassrls: boolean;
  version: number;
};

const OLDEST_VERSION = 150_000;

/** Attributes beside the name. BYPASSRLS only where the product itself speaks. */
const ROLES: ReadonlyArray<{ readonly name: string; readonly attributes: string; readonly login: boolean }> =
  [
    { name: 'svc_owner', attributes: 'bypassrls', login: true },
    { name: 'anon', attributes: 'noinherit', login: false },
    { name: 'authenticated', attributes: 'noinherit', login: false },
    { name: 'service_role', attributes: 'noinherit bypassrls', login: false },
    { name: 'authenticator', attributes: 'noinherit', login: true },
  ];

/** Refuses a connection string that cannot do what start-up needs, naming each missing right. */
export async function checkRights(db: Queryable): Promise<void> {
  const [self] = await db.query<Self>(sql`
    select rolname as name, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls,
      current_setting('server_version_num')::int as version
    from pg_roles where rolname = current_user`);
  if (!self) throw new Error('the current role is not in pg_roles');
  if (self.version < OLDEST_VERSION) {
    throw new Problem('postgres_too_old', 500, `PostgreSQL ${Math.floor(self.version / 10_000)} is too old`, {
      hint: 'svc runs on PostgreSQL 15 and newer.',
    });
  }
  if (self.rolsuper) return;
  const missing = [
    self.rolcreaterole ? undefined : 'CREATEROLE',
    self.rolcreatedb ? undefined : 'CREATEDB',
    self.rolbypassrls ? undefined : 'BYPASSRLS',
  ].filter((right) => right !== undefined);
  if (missing.length === 0) return;
  throw new Problem(
    'missing_rights',
    500,
    `The role "${self.name}" of SVC_DATABASE_URL lacks ${missing.join(', ')}`,
    {
      hint: `Run as a superuser: alter role ${ident(self.name).compile().text} ${missing.join(' ').toLowerCase()};`,
    },
  );
}

/** Creates what is missing and re-syncs the passwords. Must hold the provisioning lock. */
export async function provisionRoles(db: Queryable, password: string | null): Promise<void> {
  const existing = await db.query<{ rolname: string }>(
    sql`select rolname from pg_roles where rolname = any(${ROLES.map((role) => role.name)})`,
  );
  const known = new Set(existing.map((row) => row.rolname));
  for (const role of ROLES) {
    if (!known.has(role.name))
      await createRole(db, role.name, `${role.attributes} ${role.login ? 'login' : 'nologin'}`);
  }
  await db.query(sql`grant anon, authenticated, service_role to authenticator`);
  if (password === null) return;
  for (const role of ROLES) {
    if (role.login) await db.query(sql`alter role ${ident(role.name)} password ${literal(password)}`);
  }
}

async function createRole(db: Queryable, name: string, attributes: string): Promise<void> {
  try {
    await db.query(sql`create role ${ident(name)} ${raw(attributes)}`);
  } catch (error) {
    // Roles belong to the cluster while our lock belongs to the database: another database of the same
    // cluster may have been faster. Any other failure is real.
    if (!isDuplicate(error)) throw error;
  }
}

function isDuplicate(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === '42710' || error.code === '23505');
}

/**
 * The password of the two login roles: derived from the connection string's own, so that every instance
 * that knows the string computes the same one, and the superuser's password itself is never reused.
 */
export function rolePassword(url: URL): string | null {
  if (url.password === '') return null;
  return createHash('sha256')
    .update(`svc role password\0${decodeURIComponent(url.password)}`)
    .digest('base64url');
}

/** Rights of the API roles on what the product provisions; ordinary tables get theirs from the migration. */
export const SCHEMA_GRANTS: Sql = raw(`
  grant usage on schema auth, public to anon, authenticated, service_role;
  grant execute on all functions in schema auth to anon, authenticated, service_role;
`);
