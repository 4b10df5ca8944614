// Provisions one database: the schemas of svc, the rights of their owner, and the numbered steps.
import { inTransaction, type Queryable } from '../postgres/owner-database.ts';
import { isDatabaseError } from '../postgres/pg-error.ts';
import { ident, raw, sql } from '../postgres/sql.ts';
import { isRace } from './cluster-race.ts';
import { assertNotNewer, type AppliedStep } from './newer-database.ts';
import type { Self } from './roles.ts';
import { PROVISION_STEPS } from './steps/steps.ts';

type Found = {
  /** Owners of the existing schemas of svc and of `public`, by schema. */
  schemas: Readonly<Record<string, string>>;
  may_create: boolean;
  step_table: string | null;
};

/**
 * Returns the statements that the administrator's role runs before the steps. Empty for an up-to-date database.
 */
export async function databaseChanges(db: Queryable, self: Self): Promise<string[]> {
  const found = await readDatabase(db);
  return [
    ...(found.may_create ? [] : [grantOnDatabase(self)]),
    ...['auth', 'storage', 'realtime', 'svc_meta', 'public']
      .filter((schema) => found.schemas[schema] === undefined)
      .map((schema) => `create schema if not exists ${schema} authorization svc_owner`),
    // Migrations run as svc_owner and create their tables in `public`.
    ...(['svc_owner', undefined].includes(found.schemas['public'])
      ? []
      : ['alter schema public owner to svc_owner']),
    ...(['svc_owner', null].includes(found.step_table)
      ? []
      : ['alter table svc_meta.provision_step owner to svc_owner']),
  ];
}

/** Returns the grant that svc_owner needs before it can own objects in the database. */
export function grantOnDatabase({ database }: Self): string {
  return `grant create, temporary on database ${ident(database).compile().text} to svc_owner`;
}

async function readDatabase(db: Queryable): Promise<Found> {
  const [found] = await db.query<Found>(sql`
    select coalesce((
        select json_object_agg(nspname, nspowner::regrole::text) from pg_namespace
        where nspname in ('auth', 'storage', 'realtime', 'svc_meta', 'public')), '{}') as schemas,
      has_database_privilege('svc_owner', current_database(), 'create')
        and has_database_privilege('svc_owner', current_database(), 'temporary') as may_create,
      (select relowner::regrole::text from pg_class
        where relname = 'provision_step' and relnamespace = to_regnamespace('svc_meta')) as step_table`);
  if (!found) throw new Error('a query without a table returned no row');
  return found;
}

/** Returns the ids of the pending steps. */
export async function pendingSteps(db: Queryable): Promise<string[]> {
  const { step_table } = await readDatabase(db);
  const done = step_table === null ? [] : await asOwner(db, () => readSteps(db));
  assertNotNewer(done);
  return PROVISION_STEPS.map((step) => step.id).filter((id) => !done.some((step) => step.id === id));
}

/** Throws `database_is_newer` before any change. Skips the check if the role cannot read the steps yet. */
export async function refuseNewer(db: Queryable): Promise<void> {
  const [found] = await db.query<{ there: boolean }>(
    raw(`select has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select') as there
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'svc_meta' and c.relname = 'provision_step'`),
  );
  if (found?.there === true) assertNotNewer(await readSteps(db));
}

async function readSteps(db: Queryable): Promise<AppliedStep[]> {
  // Earlier versions created the table without this column.
  return await db.query<AppliedStep>(
    raw(`select id, to_jsonb(step) ->> 'min_version' as min_version from svc_meta.provision_step as step`),
  );
}

/** Applies the missing steps, each in a separate transaction, and returns their ids. */
export async function applySteps(
  db: Queryable,
  patiently: (work: () => Promise<void>) => Promise<void>,
): Promise<string[]> {
  await patiently(() =>
    asOwner(db, async () => {
      const { step_table } = await readDatabase(db);
      if (step_table === null)
        await db.query(
          raw(
            `create table svc_meta.provision_step (
              id text primary key, applied_at timestamptz not null default now())`,
          ),
        );
      const [column] = await db.query(
        raw(`select from pg_attribute
          where attrelid = 'svc_meta.provision_step'::regclass and attname = 'min_version'`),
      );
      // Check first, because the statement would wait for all readers of the table.
      if (!column) await db.query(raw('alter table svc_meta.provision_step add column min_version text'));
    }),
  );
  const pending = new Set(await pendingSteps(db));
  const steps = PROVISION_STEPS.filter((step) => pending.has(step.id));
  for (const step of steps) {
    await patiently(() =>
      asOwner(db, async () => {
        await db.query(raw(step.sql));
        await db.query(raw(SCHEMA_GRANTS));
        await db.query(
          sql`insert into svc_meta.provision_step (id, min_version) values (${step.id}, ${step.minVersion ?? null})`,
        );
      }),
    );
  }
  return steps.map((step) => step.id);
}

/**
 * Lets svc_owner backfill columns without firing the triggers of the application. If the administrator cannot grant
 * this, plans report the triggers that would fire.
 */
export async function grantTriggerSuppression(db: Queryable): Promise<void> {
  const [row] = await db.query<{ has: boolean; may: boolean }>(sql`
    select has_parameter_privilege('svc_owner', 'session_replication_role', 'set') as has,
      has_parameter_privilege(current_user, 'session_replication_role', 'set with grant option') as may`);
  if (!row || row.has || !row.may) return;
  try {
    await db.query(raw('grant set on parameter session_replication_role to svc_owner'));
  } catch (error) {
    // Parameters belong to the cluster, so a project in another database may grant the same right concurrently.
    if (!isDatabaseError(error, 'insufficient_privilege') && !isRace(error)) throw error;
  }
}

/**
 * Lets svc_owner read the write-ahead log. If the administrator cannot grant this, changes come from triggers and the
 * log contains advice. Role and parameters belong to the cluster. Managed services provide a role for it.
 */
export async function grantReplication(db: Queryable): Promise<void> {
  const [row] = await db.query<{ may_replicate: boolean; rds: boolean | null }>(sql`
    select r.rolreplication as may_replicate,
      (select pg_has_role(r.oid, g.oid, 'member') from pg_roles g where g.rolname = 'rds_replication') as rds
    from pg_roles r where r.rolname = 'svc_owner'`);
  if (!row || row.may_replicate || row.rds === true) return;
  const attempts = ['alter role svc_owner replication', 'grant rds_replication to svc_owner'];
  for (const attempt of row.rds === false ? attempts : attempts.slice(0, 1)) {
    try {
      await db.query(raw(attempt));
      return;
    } catch (error) {
      // The right is optional, so a read-only database is accepted.
      const refused = isDatabaseError(error, 'insufficient_privilege', 'read_only_sql_transaction');
      if (!refused && !isRace(error)) throw error;
    }
  }
}

/** Runs `work` in one transaction as svc_owner, independently of the administrator's inherited roles. */
async function asOwner<T>(db: Queryable, work: () => Promise<T>): Promise<T> {
  return await inTransaction(db, { role: 'svc_owner' }, work);
}

/** Rights of the API roles on provisioned objects. Other tables get their rights from the migration. */
const SCHEMA_GRANTS = `
  grant usage on schema auth, public to anon, authenticated, service_role;
  grant execute on all functions in schema auth to anon, authenticated, service_role;
`;
