// `svc_meta.instance_state`: which row each instance serves, and why not the applied one.
import type { OwnerDatabase, Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';

/** Instances write this often; one that has been silent for three times as long is gone. */
export const REPORT_EVERY_MS = 30_000;
const GONE_AFTER_SECONDS = (3 * REPORT_EVERY_MS) / 1000;

export type InstanceState = {
  readonly instance: string;
  readonly serves: string | null;
  readonly reason: string | null;
  readonly seenAt: Date;
};

export async function reportState(
  owner: OwnerDatabase,
  instance: string,
  serves: string,
  reason: string | null,
): Promise<void> {
  await owner.query(sql`
    with gone as (delete from svc_meta.instance_state
      where seen_at < now() - make_interval(secs => ${GONE_AFTER_SECONDS}) and instance <> ${instance})
    insert into svc_meta.instance_state (instance, serves, reason) values (${instance}, ${serves}::bigint, ${reason})
    on conflict (instance) do update set serves = excluded.serves, reason = excluded.reason, seen_at = now()`);
}

export async function forgetState(owner: OwnerDatabase, instance: string): Promise<void> {
  await owner.query(sql`delete from svc_meta.instance_state where instance = ${instance}`);
}

export async function readStates(db: Queryable): Promise<InstanceState[]> {
  return await db.query<InstanceState>(sql`
    select instance, serves::text as serves, reason, seen_at as "seenAt" from svc_meta.instance_state
    where seen_at >= now() - make_interval(secs => ${GONE_AFTER_SECONDS}) order by instance`);
}

/** `3 of 4 instances serve 17`, then `41-9c0a77d1 serves 16: SVC_ENV_MAIL is not set` for each of the others. */
export function describeStates(states: readonly InstanceState[], applied: string): string[] {
  const behind = states.filter(({ serves }) => serves !== applied);
  const count = states.length - behind.length;
  const total =
    `${count} of ${states.length} ${states.length === 1 ? 'instance serves' : 'instances serve'} ` + applied;
  return [
    total,
    ...behind.map(
      ({ instance, serves, reason }) =>
        `${instance} serves ${serves ?? 'nothing'}${reason === null ? '' : `: ${reason}`}`,
    ),
  ];
}
