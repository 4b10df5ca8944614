// First start and every start: makes roles and the product's own schemas equal to what this version needs.
// Safe when several instances boot at once: one does the work under an advisory lock, the others find it done.
import { Problem } from '../problem/problem.ts';
import { clientConfig } from '../postgres/connection.ts';
import type { Queryable, Row } from '../postgres/owner-database.ts';
import { ident, raw, sql, type Sql } from '../postgres/sql.ts';
import pg from 'pg';
import { checkRights, provisionRoles, rolePassword, SCHEMA_GRANTS } from './roles.ts';
import { PROVISION_STEPS } from './steps/steps.ts';

export type Provisioned = {
  /** Connection string of `svc_owner`. */
  readonly ownerUrl: string;
  /** Connection string of `authenticator`. */
  readonly authenticatorUrl: string;
  /** Ids of the steps this start applied; empty on every later start. */
  readonly applied: readonly string[];
};

/** Key of the advisory lock that serialises provisioning: the ASCII codes of `svc` as one number, and a number of ours. */
const LOCK: Sql = raw('7566947, 1');
const LOCK_TIMEOUT_MS = 60_000;

/** `url` is SVC_DATABASE_URL: a superuser, or a role with CREATEROLE, CREATEDB and BYPASSRLS. */
export async function provision(url: string): Promise<Provisioned> {
  const address = parseDatabaseUrl(url);
  const client = new pg.Client(clientConfig({ url, applicationName: 'svc-provision' }));
  try {
    await client.connect();
  } catch (cause) {
    throw unreachableDatabase(address, cause);
  }
  const db: Queryable = {
    async query<R extends Row>(statement: Sql): Promise<R[]> {
      const { text, values } = statement.compile();
      // Without values the simple protocol is used, which takes a step's many statements at once.
      const result = values.length > 0 ? await client.query<R>(text, values) : await client.query<R>(text);
      return result.rows;
    },
  };
  try {
    await checkRights(db);
    await acquireLock(db);
    const password = rolePassword(address);
    await retryOnRace(() => provisionRoles(db, password));
    const applied = await applySteps(db);
    return {
      ownerUrl: roleUrl(address, 'svc_owner', password),
      authenticatorUrl: roleUrl(address, 'authenticator', password),
      applied,
    };
  } catch (cause) {
    throw isPermissionDenied(cause) ? deniedStep(cause) : cause;
  } finally {
    // The lock ends with its session.
    await client.end();
  }
}

async function acquireLock(db: Queryable): Promise<void> {
  const deadline = Date.now() + LOCK_TIMEOUT_MS;
  for (;;) {
    const [row] = await db.query<{ locked: boolean }>(sql`select pg_try_advisory_lock(${LOCK}) as locked`);
    if (row?.locked) return;
    if (Date.now() > deadline) {
      throw new Problem(
        'provision_locked',
        500,
        'Another instance has been provisioning this database for a minute',
        {
          hint: "Look for its session: select * from pg_stat_activity where application_name = 'svc-provision'.",
        },
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 50));
  }
}

async function applySteps(db: Queryable): Promise<string[]> {
  await db.query(
    raw(`
    do $$ begin
      -- Acting for the owner is a right of its own since PostgreSQL 16; before, membership was enough.
      if not pg_has_role(current_user, 'svc_owner', case when current_setting('server_version_num')::int >= 160000 then 'set' else 'member' end) then
        grant svc_owner to current_user;
      end if;
    end $$;
    create schema if not exists auth authorization svc_owner;
    create schema if not exists storage authorization svc_owner;
    create schema if not exists svc_meta authorization svc_owner;
    create table if not exists svc_meta.provision_step (id text primary key, applied_at timestamptz not null default now());
    alter table svc_meta.provision_step owner to svc_owner;
  `),
  );
  await giveDatabase(db);
  const done = new Set(
    (await db.query<{ id: string }>(sql`select id from svc_meta.provision_step`)).map((row) => row.id),
  );
  const applied: string[] = [];
  for (const step of PROVISION_STEPS) {
    if (done.has(step.id)) continue;
    await db.query(raw('begin'));
    try {
      await db.query(raw('set local role svc_owner'));
      await db.query(raw(step.sql));
      await db.query(sql`insert into svc_meta.provision_step (id) values (${step.id})`);
      await db.query(raw('commit'));
    } catch (error) {
      await db.query(raw('rollback'));
      throw error;
    }
    applied.push(step.id);
  }
  if (applied.length > 0) await db.query(SCHEMA_GRANTS);
  return applied;
}

/** Migrations run as svc_owner: it must be able to create schemas and to own `public`. */
async function giveDatabase(db: Queryable): Promise<void> {
  const [row] = await db.query<{ database: string; owned: boolean; may_create: boolean }>(sql`
    select current_database() as database,
      (select nspowner = 'svc_owner'::regrole from pg_namespace where nspname = 'public') as owned,
      has_database_privilege('svc_owner', current_database(), 'create') as may_create`);
  if (!row) throw new Error('current_database() returned no row');
  if (!row.may_create)
    await db.query(sql`grant create, temporary on database ${ident(row.database)} to svc_owner`);
  if (!row.owned) await db.query(raw('alter schema public owner to svc_owner'));
  // Filling a column is no update of the application's: its triggers stay quiet. A hosted database whose
  // administrator may not grant this goes without; the plan then says where triggers would fire.
  await db.query(
    raw(`do $$ begin
      if not has_parameter_privilege('svc_owner', 'session_replication_role', 'set') then
        grant set on parameter session_replication_role to svc_owner;
      end if;
    -- Parameters are the cluster's: another database may be granting the same at this moment.
    exception when insufficient_privilege or unique_violation or internal_error then null; end $$`),
  );
}

/** ALTER ROLE of the same role from another database of the cluster ends in "tuple concurrently updated". */
async function retryOnRace(work: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await work();
      return;
    } catch (error) {
      const concurrently = error instanceof Error && /concurrently updated/.test(error.message);
      if (!concurrently || attempt === 20) throw error;
      await new Promise((resolve) => setTimeout(resolve, 10 + Math.random() * 40));
    }
  }
}

function isPermissionDenied(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && error.code === '42501';
}

function deniedStep(cause: Error): Problem {
  return new Problem(
    'missing_rights',
    500,
    `The role of SVC_DATABASE_URL may not prepare this database: ${cause.message}`,
    {
      cause,
      hint: 'It must own the database, or be a superuser: alter database <name> owner to <role>;',
    },
  );
}

function parseDatabaseUrl(url: string): URL {
  let address: URL;
  try {
    address = new URL(url);
  } catch {
    throw new Problem('bad_database_url', 500, 'SVC_DATABASE_URL is not a URL', {
      hint: 'It looks like postgres://user:password@host:5432/database.',
    });
  }
  if (address.protocol !== 'postgres:' && address.protocol !== 'postgresql:') {
    throw new Problem('bad_database_url', 500, `SVC_DATABASE_URL starts with ${address.protocol}`, {
      hint: 'It must start with postgres:// or postgresql://.',
    });
  }
  return address;
}

function unreachableDatabase(address: URL, cause: unknown): Problem {
  const message = cause instanceof Error ? cause.message : String(cause);
  return new Problem(
    'database_unreachable',
    503,
    `Cannot connect to the database at ${address.host}${address.pathname} as ${decodeURIComponent(address.username)}: ${message}`,
    { cause, hint: 'Check SVC_DATABASE_URL, and that the server is running and reachable from here.' },
  );
}

function roleUrl(address: URL, role: string, password: string | null): string {
  const url = new URL(address);
  url.username = role;
  url.password = password ?? '';
  return url.href;
}
