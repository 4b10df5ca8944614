// Creates and checks the five roles. `svc_owner` owns the objects of svc. Requests connect as `authenticator`, which
// can switch only to `anon`, `authenticated` and `service_role`, so that no request runs as a superuser.
import { Problem } from '../problem/problem.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { ident, raw, sql } from '../postgres/sql.ts';
import { untilNoRace } from './cluster-race.ts';

/** The role of SVC_DATABASE_URL, with properties of its server and database. */
export type Self = {
  readonly name: string;
  readonly rolsuper: boolean;
  readonly rolcreaterole: boolean;
  readonly rolcreatedb: boolean;
  readonly rolbypassrls: boolean;
  readonly rolinherit: boolean;
  readonly version: number;
  readonly database: string;
  readonly owns_database: boolean;
};

const MIN_VERSION = 150_000;
/**
 * Since version 16, CREATEROLE covers only roles that its holder created or was granted with ADMIN OPTION, and SET is a
 * separate right.
 */
const NARROW_CREATEROLE = 160_000;

/** Roles and their attributes. */
const ROLES: ReadonlyArray<{ readonly name: string; readonly attributes: readonly string[] }> = [
  { name: 'svc_owner', attributes: ['bypassrls', 'login'] },
  { name: 'anon', attributes: ['noinherit'] },
  { name: 'authenticated', attributes: ['noinherit'] },
  { name: 'service_role', attributes: ['noinherit', 'bypassrls'] },
  { name: 'authenticator', attributes: ['noinherit', 'login'] },
];
export const LOGIN_ROLES = ['svc_owner', 'authenticator'] as const;
const MAX_PASSES = 10;
export const API_ROLES = ['anon', 'authenticated', 'service_role'] as const;

/** Rejects a connection string without the rights that a start requires, and names each missing right. */
export async function checkRights(db: Queryable): Promise<Self> {
  const [self] = await db.query<Self>(sql`
    select rolname as name, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolinherit,
      current_setting('server_version_num')::int as version, datname as database,
      pg_has_role(current_user, datdba, 'usage') as owns_database
    from pg_roles, pg_database where rolname = current_user and datname = current_database()`);
  if (!self) throw new Error('the current role is not in pg_roles');
  if (self.version < MIN_VERSION) {
    throw new Problem('postgres_too_old', 500, `PostgreSQL ${Math.floor(self.version / 10_000)} is too old`, {
      hint: 'svc runs on PostgreSQL 15 and newer.',
    });
  }
  const missing = missingRights(self);
  if (missing.length === 0) return self;
  throw new Problem(
    'missing_rights',
    500,
    `The role "${self.name}" of SVC_DATABASE_URL lacks ${missing.join(', ')}`,
    { hint: onceAsSuperuser(await superuserStatements(db, self)) },
  );
}

function missingRights(self: Self): string[] {
  if (self.rolsuper) return [];
  return [
    ...(self.rolcreaterole ? [] : ['CREATEROLE']),
    ...(self.rolcreatedb ? [] : ['CREATEDB']),
    ...(self.rolbypassrls ? [] : ['BYPASSRLS']),
    // The owner of `public` is a predefined role. The owner of the database must inherit its rights.
    ...(self.rolinherit || self.version >= NARROW_CREATEROLE ? [] : ['INHERIT']),
  ];
}

/** Returns the right to act as another role. Before PostgreSQL 16 membership was sufficient. */
const actingRight = (version: number): string => (version >= NARROW_CREATEROLE ? 'set' : 'member');

type Found = {
  rolname: string;
  rolcanlogin: boolean;
  rolbypassrls: boolean;
  rolinherit: boolean;
  /** True if `authenticator` can switch to the role. */
  given: boolean | null;
  /** True if the current role can switch to the role. */
  ours: boolean;
};

/** Returns the statements that correct the roles. Empty if the roles are correct. */
export async function roleChanges(db: Queryable, self: Self): Promise<string[]> {
  const right = actingRight(self.version);
  const rows = await db.query<Found>(sql`
    select r.rolname, r.rolcanlogin, r.rolbypassrls, r.rolinherit,
      pg_has_role(a.oid, r.oid, ${right}) as given, pg_has_role(current_user, r.oid, ${right}) as ours
    from pg_roles r left join pg_roles a on a.rolname = 'authenticator'
    where r.rolname = any(${ROLES.map((role) => role.name)})`);
  const found = new Map(rows.map((row) => [row.rolname, row]));
  const changes = ROLES.flatMap(({ name, attributes }) => {
    const role = found.get(name);
    if (!role) return [`create role ${name} ${attributes.join(' ')}`];
    const lacking = [
      ...(attributes.includes('bypassrls') && !role.rolbypassrls ? ['bypassrls'] : []),
      ...(attributes.includes('login') && !role.rolcanlogin ? ['login'] : []),
      // With INHERIT, every connection would start with the rights of service_role.
      ...(name === 'authenticator' && role.rolinherit ? ['noinherit'] : []),
    ];
    return lacking.length > 0 ? [`alter role ${name} ${lacking.join(' ')}`] : [];
  });
  const toGive = API_ROLES.filter((name) => found.get(name)?.given !== true);
  if (toGive.length > 0) changes.push(`grant ${toGive.join(', ')} to authenticator`);
  if (found.get('svc_owner')?.ours !== true)
    changes.push(`grant svc_owner to ${ident(self.name).compile().text}`);
  return changes;
}

/** Corrects the roles and checks the result. */
export async function provisionRoles(db: Queryable, self: Self): Promise<void> {
  await untilNoRace(async () => {
    for (let pass = 1; ; pass++) {
      const changes = await roleChanges(db, self);
      if (changes.length === 0) return;
      if (pass > MAX_PASSES) throw new Error(`the roles still need a change: ${changes[0]}`);
      for (const change of changes) await db.query(raw(change));
    }
  });
}

/** Returns a Problem with the statements that this role cannot run and a superuser must run once. */
export async function needsSuperuser(db: Queryable, self: Self, cause: Error): Promise<Problem> {
  return new Problem(
    'missing_rights',
    500,
    `The role "${self.name}" of SVC_DATABASE_URL cannot prepare this server: ${cause.message}`,
    {
      cause,
      hint: onceAsSuperuser([
        ...(await superuserStatements(db, self)),
        ...(await blockingReplication(db, self)),
      ]),
    },
  );
}

/** Before PostgreSQL 16, a role with CREATEROLE cannot change a role with REPLICATION, not even its password. */
async function blockingReplication(db: Queryable, self: Self): Promise<string[]> {
  if (self.version >= NARROW_CREATEROLE || self.rolsuper) return [];
  const rows = await db.query(sql`select from pg_roles where rolname = 'svc_owner' and rolreplication`);
  return rows.length === 0 ? [] : ['alter role svc_owner noreplication'];
}

function onceAsSuperuser(statements: readonly string[]): string {
  return `Run once as a superuser, then start again: ${statements.map((statement) => `${statement};`).join(' ')}`;
}

async function superuserStatements(db: Queryable, self: Self): Promise<string[]> {
  const name = ident(self.name).compile().text;
  const missing = missingRights(self);
  const changes = await roleChanges(db, self);
  const all = ROLES.map((role) => role.name).join(', ');
  return [
    ...(missing.length > 0 ? [`alter role ${name} ${missing.join(' ').toLowerCase()}`] : []),
    ...changes.filter((change) => !change.startsWith('grant svc_owner')),
    // Before PostgreSQL 16, CREATEROLE covers every role, so only the right to act as the owner must be granted.
    self.version >= NARROW_CREATEROLE
      ? `grant ${all} to ${name} with admin option`
      : `grant svc_owner to ${name}`,
    ...(self.owns_database ? [] : [`alter database ${ident(self.database).compile().text} owner to ${name}`]),
  ];
}
