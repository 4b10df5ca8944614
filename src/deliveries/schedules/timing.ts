// Due times of a schedule. Pure: the caller provides the time of the database.
import type { Schedule } from '../../config/config.ts';
import { CronExpression } from '../../lib/cron.ts';
import { formatDuration } from '../../lib/duration.ts';

export type Timing = Pick<Schedule, 'cron' | 'everyMs' | 'timezone'>;

/** A time that is at most this late was not missed. */
export const LATE_MS = 60_000;
/** Maximum number of runs for missed times. */
export const MAX_MISSED_RUNS = 100;
/** Maximum number of missed times that are counted. */
const MAX_COUNTED = 1_000;

export type PlannedRun = {
  readonly scheduledFor: Date;
  /** Number of earlier times that have no run. */
  readonly missed: number;
};

export type Plan = {
  /** Oldest first. */
  readonly runs: readonly PlannedRun[];
  /** Recorded without a run. */
  readonly skipped: PlannedRun | undefined;
  readonly nextAt: Date | undefined;
};

/** Identifies the times of a schedule. A schedule whose times have changed starts again from now. */
export function describeTiming({ cron, everyMs, timezone = 'UTC' }: Timing): string {
  return everyMs === undefined ? `${timezone} ${cron}` : `every ${formatDuration(everyMs)}`;
}

/** Returns the first due time after `after`, or undefined if there is none. */
export function nextDueTime(timing: Timing, after: Date): Date | undefined {
  const { everyMs } = timing;
  if (everyMs === undefined) return toCron(timing).next(after);
  // Multiples since 1970, so all instances agree.
  return new Date((Math.floor(after.getTime() / everyMs) + 1) * everyMs);
}

/** Plans the runs for all due times from `dueAt` until `now`. */
export function planRuns(
  timing: Timing,
  { dueAt, now, missed }: { readonly dueAt: Date; readonly now: Date; readonly missed: Schedule['missed'] },
): Plan {
  const times = latestTimes(timing, dueAt, now);
  const nextAt = nextDueTime(timing, now);
  const latest = times.at(-1);
  if (latest === undefined) return { runs: [], skipped: undefined, nextAt };
  const newest = { scheduledFor: latest, missed: times.length - 1 };
  const isLate = now.getTime() - latest.getTime() > LATE_MS;
  if (missed === 'skip' && isLate) return { runs: [], skipped: newest, nextAt };
  if (missed !== 'all') return { runs: [newest], skipped: undefined, nextAt };
  const kept = times.slice(-MAX_MISSED_RUNS);
  return {
    runs: kept.map((scheduledFor, index) => ({
      scheduledFor,
      missed: index === 0 ? times.length - kept.length : 0,
    })),
    skipped: undefined,
    nextAt,
  };
}

/** Returns the last due times in the range, oldest first. */
function latestTimes(timing: Timing, from: Date, until: Date): Date[] {
  const { everyMs } = timing;
  const times =
    everyMs === undefined
      ? toCron(timing).previous(MAX_COUNTED, until)
      : Array.from({ length: MAX_COUNTED }, (_, index) => {
          const last = Math.floor(until.getTime() / everyMs);
          return new Date((last - MAX_COUNTED + 1 + index) * everyMs);
        });
  return times.filter((time) => time >= from);
}

function toCron({ cron = '', timezone = 'UTC' }: Timing): CronExpression {
  return new CronExpression(cron, timezone);
}
