// Statements about deliveries. The clock is that of the database. A lease identifies an attempt: an instance whose
// lease has passed to another one changes nothing.
import type { Queryable } from '../postgres/owner-database.ts';
import { sql, type Sql } from '../postgres/sql.ts';
import type { Outcome, Transition } from './state.ts';

export const LEASE_MS = 15_000;
/** Retention of deliveries that have ended well, and of dead ones. */
const KEEP_MS = 3 * 86_400_000;
const KEEP_DEAD_MS = 30 * 86_400_000;
const CLEANUP_BATCH = 1_000;
const MAX_ERROR_CHARACTERS = 4_000;

/** A source of deliveries that this instance can run: the name of a declaration, and its kind. */
export type DeliveryName = { readonly kind: string; readonly name: string };

export type Claimed = DeliveryName & {
  readonly id: string;
  readonly event_id: string;
  /** JSON text. */
  readonly body: string;
  readonly at: Date;
  readonly attempts: number;
  readonly failures: number;
  readonly lease: string;
};

/** Claims deliveries that are due, at most `max`. Of each key only the oldest delivery can run. */
export async function claim(
  db: Queryable,
  { names, max, instance }: { names: readonly DeliveryName[]; max: number; instance: string },
): Promise<Claimed[]> {
  return await db.query<Claimed>(
    sql`
    update svc_events.delivery set state = 'running', attempts = attempts + 1, lease = gen_random_uuid(),
      lease_until = now() + ${LEASE_MS}::int * interval '1 ms', instance = ${instance}, started_at = now()
    where id in (
      select id from svc_events.delivery d
      where state = 'waiting' and run_at <= now() and ${isNamed(names)}
        and (key is null or not exists (
          select from svc_events.delivery o
          where o.kind = d.kind and o.name = d.name and o.key = d.key and o.state in ('waiting', 'running')
            and o.id < d.id))
      order by run_at, id limit ${max} for update skip locked)
    returning id::text, event_id, kind, name, body::text, at, attempts, failures, lease`,
    'claim-deliveries',
  );
}

function isNamed(names: readonly DeliveryName[]): Sql {
  const kinds = names.map(({ kind }) => kind);
  const texts = names.map(({ name }) => name);
  return sql`(kind, name) in (select * from unnest(${kinds}::text[], ${texts}::text[]))`;
}

export type Expired = DeliveryName & Pick<Claimed, 'id' | 'attempts' | 'failures' | 'lease'>;

/** Returns deliveries whose instance has stopped renewing the lease. */
export async function readExpired(db: Queryable): Promise<Expired[]> {
  return await db.query<Expired>(sql`
    select id::text, kind, name, attempts, failures, lease from svc_events.delivery
    where state = 'running' and lease_until <= now() order by lease_until limit 100`);
}

/** Renews leases, and returns those that are still valid. */
export async function renewLeases(db: Queryable, leases: readonly string[]): Promise<string[]> {
  const rows = await db.query<{ lease: string }>(sql`
    update svc_events.delivery set lease_until = now() + ${LEASE_MS}::int * interval '1 ms'
    where state = 'running' and lease = any (${leases}::uuid[]) returning lease`);
  return rows.map(({ lease }) => lease);
}

export type Ended = {
  readonly outcome: Outcome;
  readonly status?: number | undefined;
  readonly error?: string | undefined;
  readonly requestId?: string | undefined;
};

/** Records the end of an attempt. Returns false if the lease is no longer valid. */
export async function settle(
  db: Queryable,
  { id, lease, attempts }: Pick<Claimed, 'id' | 'lease' | 'attempts'>,
  { state, pauseMs, attempts: counted, failures }: Transition,
  { outcome, status = null, error = null, requestId = null }: AsNullable<Ended>,
): Promise<boolean> {
  const reason = error?.replaceAll('\0', '').slice(0, MAX_ERROR_CHARACTERS) ?? null;
  const rows = await db.query(sql`
    with settled as (
      update svc_events.delivery set state = ${state}, attempts = ${counted}, failures = ${failures},
        run_at = now() + ${pauseMs}::bigint * interval '1 ms', lease = null, lease_until = null, reason = ${reason},
        finished_at = case when ${state} = 'waiting' then null else now() end
      where id = ${id}::bigint and lease = ${lease}::uuid
      returning id, started_at),
    recorded as (
      insert into svc_events.run (delivery_id, attempt, started_at, ms, outcome, status, error, request_id)
      select id, ${attempts}, started_at, (extract(epoch from clock_timestamp() - started_at) * 1000)::int, ${outcome},
        ${status}::int, ${reason}, ${requestId}
      from settled where ${outcome} <> 'returned')
    select from settled`);
  return rows.length > 0;
}

type AsNullable<T> = { readonly [Key in keyof T]: T[Key] | null };

/** Deletes old deliveries. */
export async function deleteOld(db: Queryable): Promise<void> {
  await db.query(sql`
    delete from svc_events.delivery where id in (
      select id from svc_events.delivery
      where finished_at < now() - ${KEEP_MS}::bigint * interval '1 ms'
        and (state <> 'dead' or finished_at < now() - ${KEEP_DEAD_MS}::bigint * interval '1 ms')
      limit ${CLEANUP_BATCH})`);
}

export type NextWork = {
  now: Date;
  /** Start of the oldest delivery that waits; null without one. */
  waiting_at: Date | null;
  lease_at: Date | null;
};

/** Returns when there will be work for an instance. */
export async function readNextWork(db: Queryable, names: readonly DeliveryName[]): Promise<NextWork> {
  const [row] = await db.query<NextWork>(
    sql`
    select now() as now,
      (select min(run_at) from svc_events.delivery where state = 'waiting' and ${isNamed(names)}) as waiting_at,
      (select min(lease_until) from svc_events.delivery where state = 'running') as lease_at`,
    'next-delivery',
  );
  if (!row) throw new Error('a query without a table returned no row');
  return row;
}
