// Selects the backups to keep: `7d,4w,12m` is the newest of each of the last seven days, four weeks and twelve months
// with a backup.
import { Problem } from '../problem/problem.ts';

const UNITS = { h: toHour, d: toDay, w: toWeek, m: toMonth, y: toYear } as const;
type Unit = keyof typeof UNITS;

export type Keep = ReadonlyArray<{ readonly count: number; readonly unit: Unit }>;

export function parseKeep(text: string): Keep {
  return text.split(',').map((rule) => {
    const [, count, unit] = /^([1-9]\d{0,3})([hdwmy])$/.exec(rule.trim()) ?? [];
    if (count === undefined)
      throw new Problem('bad_keep', 400, `${text} is not a valid retention rule`, {
        hint:
          'Write for example 7d,4w,12m: the newest of the last 7 days, 4 weeks and 12 months (h hours, d days, ' +
          'w weeks, m months, y years).',
      });
    return { count: Number(count), unit: unit as Unit };
  });
}

/**
 * Ids of those that stay. Ids begin with their time in UTC, `2026-11-22T031500Z`. Periods without a backup do not
 * count, so backups that have stopped are not lost by time; the newest one always stays.
 */
export function chooseKept(ids: readonly string[], keep: Keep): ReadonlySet<string> {
  const newestFirst = ids.toSorted((a, b) => (a < b ? 1 : a > b ? -1 : 0));
  const kept = new Set(newestFirst.slice(0, 1));
  for (const { count, unit } of keep) {
    const periods = new Set<string>();
    for (const id of newestFirst) {
      const period = UNITS[unit](id);
      if (periods.has(period)) continue;
      if (periods.size === count) break;
      periods.add(period);
      kept.add(id);
    }
  }
  return kept;
}

function toHour(id: string): string {
  return id.slice(0, 13);
}

function toDay(id: string): string {
  return id.slice(0, 10);
}

/** The Monday that it begins with. */
function toWeek(id: string): string {
  const day = new Date(`${toDay(id)}T00:00:00Z`);
  day.setUTCDate(day.getUTCDate() - ((day.getUTCDay() + 6) % 7));
  return day.toISOString().slice(0, 10);
}

function toMonth(id: string): string {
  return id.slice(0, 7);
}

function toYear(id: string): string {
  return id.slice(0, 4);
}
