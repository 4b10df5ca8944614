import { expect, test } from 'vitest';
import type { LivePartitioning } from '../../schema/partitions.ts';
import { timedPartitionsKey } from './timed-partitions.ts';

const TABLE = { schema: 'public', name: 'events' };
const NOW = new Date('2026-11-27T12:00:00Z');

type Part = readonly [name: string, from: string, to: string];

function partitioned(parts: readonly Part[]): LivePartitioning {
  return {
    strategy: 'range',
    key: 'RANGE (at)',
    keys: ['at'],
    partitions: parts.map(([name, from, to]) => ({
      oid: '1',
      schema: 'public',
      name: `events_${name}`,
      parent: null,
      bound: `FOR VALUES FROM ('${from}') TO ('${to}')`,
      by: null,
    })),
  };
}
const key = (parts: readonly Part[]): unknown => timedPartitionsKey(TABLE, partitioned(parts), NOW);

test.each([
  [
    'months in UTC',
    [
      ['2026_12', '2026-12-01 00:00:00+00', '2027-01-01 00:00:00+00'],
      ['2026_11', '2026-11-01 00:00:00+00', '2026-12-01 00:00:00+00'],
    ],
    { every: '1 month', ahead: 1, from: '2026-11-01' },
  ],
  [
    'days',
    [
      ['2026_11_27', '2026-11-27', '2026-11-28'],
      ['2026_11_28', '2026-11-28', '2026-11-29'],
      ['2026_11_29', '2026-11-29', '2026-11-30'],
    ],
    { every: '1 day', ahead: 2, from: '2026-11-27' },
  ],
  [
    'weeks that start on Monday',
    [
      ['2026_11_23', '2026-11-23 00:00:00', '2026-11-30 00:00:00'],
      ['2026_11_30', '2026-11-30 00:00:00', '2026-12-07 00:00:00'],
    ],
    { every: '1 week', ahead: 1, from: '2026-11-23' },
  ],
  [
    'hours',
    [
      ['2026_11_27_12', '2026-11-27 12:00:00', '2026-11-27 13:00:00'],
      ['2026_11_27_13', '2026-11-27 13:00:00', '2026-11-27 14:00:00'],
    ],
    { every: '1 hour', ahead: 1, from: '2026-11-27T12:00:00.000Z' },
  ],
] as const)('%s become a schedule', (_name, parts, expected) => {
  expect(key(parts)).toEqual(expected);
});

const NOVEMBER = ['2026_11', '2026-11-01', '2026-12-01'] as const;
const DECEMBER = ['2026_12', '2026-12-01', '2027-01-01'] as const;
test.each([
  ['another name', [NOVEMBER, ['p12', '2026-12-01', '2027-01-01']]],
  ['a gap', [['2026_10', '2026-10-01', '2026-11-01'], DECEMBER]],
  ['no future partition', [['2026_10', '2026-10-01', '2026-11-01'], NOVEMBER]],
  ['different lengths', [NOVEMBER, ['2026_12', '2026-12-01', '2027-02-01']]],
  ['a partition without an end', [NOVEMBER, ['2026_12', '2026-12-01', 'infinity']]],
] as const)('partitions with %s stay a list', (_name, parts) => {
  expect(key(parts)).toBeNull();
});
