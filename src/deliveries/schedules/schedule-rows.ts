// Statements about schedules. A due time belongs to the instance that moves `next_at`, in the statement that also
// inserts the delivery, so each due time has exactly one.
import type { Schedule } from '../../config/config.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { DELIVERIES_CHANNEL } from '../tables.ts';
import { describeTiming, nextDueTime, planRuns, type PlannedRun } from './timing.ts';

export const SCHEDULE = 'schedule';

/** Records the schedules of the file. A new or changed one is due from now on. */
export async function syncSchedules(db: Queryable, schedules: readonly Schedule[]): Promise<void> {
  const now = await readNow(db);
  const rows = schedules.map((schedule) => ({
    name: schedule.name,
    timing: describeTiming(schedule),
    next_at: nextDueTime(schedule, now)?.toISOString() ?? null,
  }));
  await db.query(sql`
    insert into svc_events.schedule as known (name, timing, next_at)
    select name, timing, next_at
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(name text, timing text, next_at timestamptz)
    on conflict (name) do update
      set timing = excluded.timing, next_at = case when not known.paused then excluded.next_at end
      where known.timing is distinct from excluded.timing or (known.next_at is null and not known.paused)`);
  await db.query(sql`
    update svc_events.schedule set timing = null, next_at = null
    where timing is not null and name <> all (${rows.map(({ name }) => name)}::text[])`);
}

async function readNow(db: Queryable): Promise<Date> {
  const [row] = await db.query<{ now: Date }>(sql`select now() as now`);
  if (!row) throw new Error('a query without a table returned no row');
  return row.now;
}

export type ScheduleTimes = {
  now: Date;
  next_at: Date | null;
  /** A schedule has no due time yet, for example after it was resumed. */
  is_incomplete: boolean;
};

export async function readScheduleTimes(
  db: Queryable,
  schedules: readonly Schedule[],
): Promise<ScheduleTimes> {
  const names = schedules.map(({ name }) => name);
  const [row] = await db.query<ScheduleTimes>(
    sql`
    select now() as now, min(next_at) as next_at,
      count(*) filter (where paused or next_at is not null) < ${names.length}::int as is_incomplete
    from svc_events.schedule where name = any (${names}::text[])`,
    'next-schedule',
  );
  if (!row) throw new Error('a query without a table returned no row');
  return row;
}

/** Creates the deliveries of all due times. Returns their number. */
export async function runDueSchedules(db: Queryable, schedules: readonly Schedule[]): Promise<number> {
  const due = await db.query<{ name: string; timing: string; next_at: Date; exactly: string; now: Date }>(sql`
    select name, timing, next_at, next_at::text as exactly, now() as now from svc_events.schedule
    where next_at <= now() and not paused and name = any (${schedules.map(({ name }) => name)}::text[])`);
  let count = 0;
  for (const { name, timing, next_at, exactly, now } of due) {
    const schedule = schedules.find((known) => known.name === name);
    // An instance with another file has changed the times.
    if (!schedule || describeTiming(schedule) !== timing) continue;
    const { runs, skipped, nextAt } = planRuns(schedule, {
      dueAt: next_at,
      now,
      missed: schedule.missed,
    });
    const planned = [
      ...(skipped ? [toRow(schedule, skipped, 'missed')] : []),
      ...runs.map((run) => toRow(schedule, run, null)),
    ];
    const inserted = await db.query(sql`
      with moved as (
        update svc_events.schedule set next_at = ${nextAt ?? null}::timestamptz,
          last_at = ${runs.at(-1)?.scheduledFor ?? null}::timestamptz
        where name = ${name} and next_at = ${exactly}::timestamptz and timing = ${timing} and not paused
        returning exists (
          select from svc_events.delivery
          where kind = ${SCHEDULE} and name = ${name} and state in ('waiting', 'running')) as overlaps)
      insert into svc_events.delivery (kind, name, key, body, at, state, reason, finished_at)
      select ${SCHEDULE}, ${name}, ${deliveryKey(schedule)}::text, p.body, p.at,
        case when d.reason is null then 'waiting' else 'skipped' end, d.reason,
        case when d.reason is not null then now() end
      from moved, json_to_recordset(${JSON.stringify(planned)}::json) as p(body jsonb, at timestamptz, reason text),
        lateral (
          select case when p.reason is not null then p.reason
            when ${schedule.overlap} = 'skip' and moved.overlaps then 'overlap' end as reason) d
      order by p.at
      returning 1`);
    count += inserted.length;
  }
  return count;
}

function toRow(
  { payload }: Schedule,
  { scheduledFor, missed }: PlannedRun,
  reason: string | null,
): { body: unknown; at: string; reason: string | null } {
  const at = scheduledFor.toISOString();
  return { body: { scheduled_for: at, payload: JSON.parse(payload) as unknown, missed }, at, reason };
}

/** Runs of one key wait for each other. */
function deliveryKey({ overlap }: Schedule): string | null {
  return overlap === 'allow' ? null : '';
}

/** Creates a delivery that is due now, also for a schedule that is paused. Returns its id. */
export async function runNow(db: Queryable, schedule: Schedule): Promise<string> {
  const now = await readNow(db);
  const { body, at } = toRow(schedule, { scheduledFor: now, missed: 0 }, null);
  const [row] = await db.query<{ id: string }>(sql`
    with inserted as (
      insert into svc_events.delivery (kind, name, key, body, at)
      values (${SCHEDULE}, ${schedule.name}, ${deliveryKey(schedule)}, ${JSON.stringify(body)}::jsonb,
        ${at}::timestamptz)
      returning id)
    select id::text, pg_notify(${DELIVERIES_CHANNEL}, '') from inserted`);
  if (!row) throw new Error('an insert returned no row');
  return row.id;
}

/** A resumed schedule is due from now on. Returns false if the state is the same already. */
export async function setPaused(db: Queryable, name: string, paused: boolean): Promise<boolean> {
  const rows = await db.query(sql`
    with changed as (
      insert into svc_events.schedule as known (name, paused) values (${name}, ${paused})
      on conflict (name) do update set paused = excluded.paused, next_at = null
        where known.paused <> excluded.paused
      returning paused)
    select pg_notify(${DELIVERIES_CHANNEL}, '') from changed`);
  return rows.length > 0;
}

export type ScheduleState = {
  name: string;
  paused: boolean;
  next_at: Date | null;
  last_at: Date | null;
  /** State of the newest delivery. */
  state: string | null;
  reason: string | null;
};

export async function listSchedules(db: Queryable): Promise<ScheduleState[]> {
  return await db.query<ScheduleState>(sql`
    select s.name, s.paused, s.next_at, s.last_at, d.state, d.reason
    from svc_events.schedule s left join lateral (
      select state, reason from svc_events.delivery
      where kind = ${SCHEDULE} and name = s.name order by id desc limit 1) d on true
    order by s.name`);
}

export type ScheduleRun = {
  delivery: string;
  event_id: string;
  at: Date;
  state: string;
  reason: string | null;
  attempts: Array<{
    attempt: number;
    started_at: string;
    ms: number | null;
    outcome: string;
    status: number | null;
    error: string | null;
    request_id: string | null;
  }>;
};

/** Returns the latest runs of a schedule, newest first, with their attempts. */
export async function listRuns(db: Queryable, name: string, limit: number): Promise<ScheduleRun[]> {
  return await db.query<ScheduleRun>(sql`
    select d.id::text as delivery, d.event_id, d.at, d.state, d.reason, (
      select coalesce(json_agg(json_build_object('attempt', attempt, 'started_at', started_at, 'ms', ms,
        'outcome', outcome, 'status', status, 'error', error, 'request_id', request_id) order by attempt), '[]')
      from svc_events.run r where r.delivery_id = d.id) as attempts
    from svc_events.delivery d where d.kind = ${SCHEDULE} and d.name = ${name}
    order by d.id desc limit ${limit}`);
}
