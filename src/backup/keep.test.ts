import { expect, test } from 'vitest';
import { chooseKept, parseKeep } from './keep.ts';

const id = (time: string): string => `${time}Z-abcdef`;
const kept = (times: readonly string[], keep: string): string[] =>
  [...chooseKept(times.map(id), parseKeep(keep))].map((backup) => backup.slice(0, -8)).toSorted();

test.each([
  [
    'one a day',
    ['2026-11-22T030000', '2026-11-22T150000', '2026-11-23T030000'],
    '2d',
    ['2026-11-22T150000', '2026-11-23T030000'],
  ],
  [
    'days without a backup do not count',
    ['2026-01-01T030000', '2026-06-01T030000', '2026-11-23T030000'],
    '2d',
    ['2026-06-01T030000', '2026-11-23T030000'],
  ],
  [
    'weeks begin on Monday, across the year',
    ['2026-12-27T030000', '2026-12-28T030000', '2027-01-03T030000', '2027-01-04T030000'],
    '3w',
    ['2026-12-27T030000', '2027-01-03T030000', '2027-01-04T030000'],
  ],
  [
    'months',
    ['2026-09-30T030000', '2026-10-01T030000', '2026-10-31T030000', '2026-11-01T030000'],
    '2m',
    ['2026-10-31T030000', '2026-11-01T030000'],
  ],
  [
    'hours and years',
    ['2024-02-29T030000', '2026-11-23T030000', '2026-11-23T030500', '2026-11-23T040000'],
    '2h,2y',
    ['2024-02-29T030000', '2026-11-23T030500', '2026-11-23T040000'],
  ],
  [
    'one backup satisfies several rules',
    ['2026-11-20T030000', '2026-11-23T030000'],
    '1d,1w,1m',
    ['2026-11-23T030000'],
  ],
  ['nothing to choose from', [], '7d', []],
])('%s', (_, times, keep, expected) => {
  expect(kept(times, keep)).toEqual(expected);
});

test('a year of daily backups keeps a week of days, a month of weeks and a year of months', () => {
  const days = Array.from({ length: 365 }, (__, at) =>
    new Date(Date.UTC(2026, 0, 1 + at, 3)).toISOString().slice(0, 19).replaceAll(':', ''),
  );
  const stay = kept(days, '7d,4w,12m');
  expect(stay.slice(-7)).toEqual(days.slice(-7));
  // Two of the weeks and one of the months are already among the days.
  expect(stay).toHaveLength(7 + 2 + 11);
});

test.each(['', '7', 'd', '0d', '7d,', '7x', '-1d', '7d 4w'])('%j is not understood', (text) => {
  expect(() => parseKeep(text)).toThrow(/is not a valid retention rule/);
});
