// Tables of the engine. They are created when a file first needs them, and the API roles have no access.
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { tryTransactionLock } from '../postgres/advisory-lock.ts';
import { raw, sql } from '../postgres/sql.ts';

/** NOTIFY channel for changes by commands. */
export const DELIVERIES_CHANNEL = 'svc_deliveries';

const TABLES = `
create schema svc_events;

create table svc_events.delivery (
  id bigint generated always as identity primary key,
  event_id uuid not null unique default gen_random_uuid(),
  -- Source of the event, and the name of its declaration in the file.
  kind text not null,
  name text not null,
  -- Deliveries with the same key run one after the other.
  key text,
  body jsonb not null,
  at timestamptz not null,
  created_at timestamptz not null default now(),
  state text not null default 'waiting' check (state in ('waiting', 'running', 'done', 'dead', 'skipped')),
  run_at timestamptz not null default now(),
  attempts int not null default 0,
  failures int not null default 0,
  lease uuid,
  lease_until timestamptz,
  instance text,
  started_at timestamptz,
  finished_at timestamptz,
  reason text
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
create index on svc_events.delivery (run_at, id) where state = 'waiting';
create index on svc_events.delivery (lease_until) where state = 'running';
create index on svc_events.delivery (kind, name, key, id) where state in ('waiting', 'running');
create index on svc_events.delivery (kind, name, id);
create index on svc_events.delivery (finished_at) where finished_at is not null;

-- Attempts that have ended.
create table svc_events.run (
  delivery_id bigint not null references svc_events.delivery on delete cascade,
  attempt int not null,
  started_at timestamptz not null,
  ms int,
  outcome text not null,
  status int,
  error text,
  request_id text,
  primary key (delivery_id, attempt)
) with (autovacuum_vacuum_scale_factor = 0.02);

create table svc_events.schedule (
  name text primary key,
  -- Null: not in the file, or disabled.
  timing text,
  -- Null: paused, or computed from the current time by the next instance.
  next_at timestamptz,
  last_at timestamptz,
  paused boolean not null default false
);

revoke all on schema svc_events from public;
revoke all on all tables in schema svc_events from public, anon, authenticated, service_role;
`;

export async function hasTables(owner: OwnerDatabase): Promise<boolean> {
  const row = await owner.maybeOne<{ ready: boolean }>(
    sql`select to_regclass('svc_events.schedule') is not null as ready`,
  );
  return row?.ready === true;
}

/** Creates the tables. Returns false if another instance is creating them now. */
export async function createTables(owner: OwnerDatabase): Promise<boolean> {
  if (await hasTables(owner)) return true;
  return await owner.transaction(async (transaction) => {
    if (!(await tryTransactionLock(transaction, 'deliveryTables'))) return false;
    const [row] = await transaction.query<{ ready: boolean }>(
      sql`select to_regclass('svc_events.schedule') is not null as ready`,
    );
    if (row?.ready !== true) await transaction.query(raw(TABLES));
    return true;
  });
}
