// Converts partitions at regular times to a schedule by which svc creates partitions.
import type { LivePartition, LivePartitioning } from '../../schema/partitions.ts';

type Node = Record<string, unknown>;

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** A Monday, the origin of weekly intervals. */
const FIRST_MONDAY_MS = Date.UTC(2001, 0, 1);
const MAX_AHEAD = 1_000;

type Interval = {
  readonly every: string;
  /** Returns the suffix of the name of a partition. */
  readonly form: (begin: string) => string;
  readonly isAligned: (begin: Date) => boolean;
  readonly next: (begin: Date) => Date;
};

const day = (iso: string): string => iso.slice(0, 10).replaceAll('-', '_');
const isMonth = (begin: Date, months: number): boolean =>
  begin.getTime() % DAY_MS === 0 && begin.getUTCDate() === 1 && begin.getUTCMonth() % months === 0;
const plusMonths = (begin: Date, months: number): Date =>
  new Date(Date.UTC(begin.getUTCFullYear(), begin.getUTCMonth() + months));
const ofMs = (ms: number, from = 0): Pick<Interval, 'isAligned' | 'next'> => ({
  isAligned: (begin) => (begin.getTime() - from) % ms === 0,
  next: (begin) => new Date(begin.getTime() + ms),
});
const ofMonths = (months: number): Pick<Interval, 'isAligned' | 'next'> => ({
  isAligned: (begin) => isMonth(begin, months),
  next: (begin) => plusMonths(begin, months),
});

const INTERVALS: readonly Interval[] = [
  { every: '1 hour', form: (begin) => `${day(begin)}_${begin.slice(11, 13)}`, ...ofMs(HOUR_MS) },
  { every: '1 day', form: day, ...ofMs(DAY_MS) },
  { every: '1 week', form: day, ...ofMs(7 * DAY_MS, FIRST_MONDAY_MS) },
  { every: '1 month', form: (begin) => day(begin).slice(0, 7), ...ofMonths(1) },
  { every: '3 months', form: (begin) => day(begin).slice(0, 7), ...ofMonths(3) },
  { every: '1 year', form: (begin) => begin.slice(0, 4), ...ofMonths(12) },
];

type Part = { readonly name: string; readonly begin: Date; readonly end: Date };

/**
 * Returns `{ every, ahead, from }`. Returns null if svc would not create the same partitions: because of other times or
 * names, a gap, subpartitions, or no partition after `now`.
 */
export function timedPartitionsKey(
  table: { readonly schema: string; readonly name: string },
  { strategy, keys, partitions }: LivePartitioning,
  now: Date,
): Node | null {
  if (strategy !== 'range' || keys?.length !== 1) return null;
  const parts = partitions.map((partition) => toPart(partition, table.schema));
  if (parts.length < 2 || !parts.every((part) => part !== null)) return null;
  const sorted = parts.toSorted((a, b) => a.begin.getTime() - b.begin.getTime());
  const interval = INTERVALS.find((interval) =>
    sorted.every(
      ({ name, begin, end }, n) =>
        interval.isAligned(begin) &&
        interval.next(begin).getTime() === end.getTime() &&
        name === `${table.name}_${interval.form(begin.toISOString())}` &&
        (n === 0 || sorted[n - 1]?.end.getTime() === begin.getTime()),
    ),
  );
  const first = sorted[0]?.begin.toISOString() ?? '';
  const isCurrent = sorted.some(({ begin, end }) => begin <= now && now < end);
  const ahead = sorted.filter(({ begin }) => begin > now).length;
  if (interval === undefined || !isCurrent || ahead < 1 || ahead > MAX_AHEAD) return null;
  const from = first.endsWith('T00:00:00.000Z') ? first.slice(0, 10) : first;
  return { every: interval.every, ahead, from };
}

const BOUND = /^FOR VALUES FROM \('([^']+)'\) TO \('([^']+)'\)$/;

function toPart({ schema, name, parent, bound, by }: LivePartition, home: string): Part | null {
  const [, from = '', to = ''] = BOUND.exec(bound) ?? [];
  const [begin, end] = [toTime(from), toTime(to)];
  if (schema !== home || parent !== null || by !== null || begin === null || end === null) return null;
  return { name, begin, end };
}

/** Parses a printed date, or a printed time without a zone or in UTC. */
function toTime(text: string): Date | null {
  const [, date, time = '00:00:00'] = /^(\d{4}-\d\d-\d\d)(?: (\d\d:\d\d:\d\d))?(?:\+00)?$/.exec(text) ?? [];
  return date === undefined ? null : new Date(`${date}T${time}Z`);
}
