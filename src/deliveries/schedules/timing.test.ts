import { describe, expect, test } from 'vitest';
import { describeTiming, nextDueTime, planRuns, type Timing } from './timing.ts';

const cron = (expression: string, timezone?: string): Timing => ({
  cron: expression,
  everyMs: undefined,
  timezone,
});
const every = (everyMs: number): Timing => ({ cron: undefined, everyMs, timezone: undefined });

function nextTimes(timing: Timing, after: string, count: number): string[] {
  const times: string[] = [];
  let time: Date | undefined = new Date(after);
  while (times.length < count && time !== undefined) {
    time = nextDueTime(timing, time);
    if (time) times.push(time.toISOString().replace(':00.000Z', 'Z'));
  }
  return times;
}

describe('due times', () => {
  test.each<[string, Timing, string, string[]]>([
    [
      'a time in the gap runs at its end',
      cron('30 2 * * *', 'Europe/Berlin'),
      '2026-03-28T12:00Z',
      ['2026-03-29T01:00Z', '2026-03-30T00:30Z', '2026-03-31T00:30Z'],
    ],
    [
      'a time in the doubled hour runs once',
      cron('30 2 * * *', 'Europe/Berlin'),
      '2026-10-24T12:00Z',
      ['2026-10-25T00:30Z', '2026-10-26T01:30Z', '2026-10-27T01:30Z'],
    ],
    [
      'half hours run in both doubled hours',
      cron('*/30 * * * *', 'Europe/Berlin'),
      '2026-10-24T23:40Z',
      [
        '2026-10-25T00:00Z',
        '2026-10-25T00:30Z',
        '2026-10-25T01:00Z',
        '2026-10-25T01:30Z',
        '2026-10-25T02:00Z',
      ],
    ],
    [
      'half hours run across the gap',
      cron('*/30 * * * *', 'Europe/Berlin'),
      '2026-03-29T00:10Z',
      ['2026-03-29T00:30Z', '2026-03-29T01:00Z', '2026-03-29T01:30Z'],
    ],
    [
      'New York, spring',
      cron('15 2 * * *', 'America/New_York'),
      '2026-03-07T12:00Z',
      ['2026-03-08T07:00Z', '2026-03-09T06:15Z'],
    ],
    [
      'New York, autumn',
      cron('15 1 * * *', 'America/New_York'),
      '2026-10-31T12:00Z',
      ['2026-11-01T05:15Z', '2026-11-02T06:15Z'],
    ],
    [
      'half an hour of daylight saving time',
      cron('0 9 * * *', 'Australia/Lord_Howe'),
      '2026-04-03T12:00Z',
      ['2026-04-03T22:00Z', '2026-04-04T22:30Z'],
    ],
    ['leap days', cron('0 0 29 2 *'), '2026-01-01T00:00Z', ['2028-02-29T00:00Z', '2032-02-29T00:00Z']],
    ['weekdays', cron('0 7 * * 1-5', 'Europe/Berlin'), '2026-11-27T12:00Z', ['2026-11-30T06:00Z']],
    [
      'the last day of short months',
      cron('0 0 31 * *'),
      '2026-02-01T00:00Z',
      ['2026-03-31T00:00Z', '2026-05-31T00:00Z'],
    ],
    ['a name', cron('@monthly'), '2026-11-27T12:00Z', ['2026-12-01T00:00Z', '2027-01-01T00:00Z']],
    [
      'an interval counts from 1970',
      every(600_000),
      '2026-11-27T12:03Z',
      ['2026-11-27T12:10Z', '2026-11-27T12:20Z'],
    ],
    ['the time itself is not after itself', every(600_000), '2026-11-27T12:10Z', ['2026-11-27T12:20Z']],
  ])('%s', (_name, timing, after, expected) => {
    expect(nextTimes(timing, after, expected.length)).toEqual(expected);
  });
});

describe('runs after a downtime', () => {
  const plan = (
    timing: Timing,
    dueAt: string,
    now: string,
    missed: 'once' | 'skip' | 'all',
  ): { runs: Array<[string, number]>; skipped: [string, number] | undefined; nextAt: string | undefined } => {
    const { runs, skipped, nextAt } = planRuns(timing, {
      dueAt: new Date(dueAt),
      now: new Date(now),
      missed,
    });
    const short = ({ scheduledFor, missed: count }: (typeof runs)[number]): [string, number] => [
      scheduledFor.toISOString(),
      count,
    ];
    return { runs: runs.map(short), skipped: skipped && short(skipped), nextAt: nextAt?.toISOString() };
  };
  const hourly = cron('0 * * * *');

  test('without one, there is one run', () => {
    for (const missed of ['once', 'skip', 'all'] as const)
      expect(plan(hourly, '2026-11-27T12:00:00Z', '2026-11-27T12:00:00.004Z', missed)).toEqual({
        runs: [['2026-11-27T12:00:00.000Z', 0]],
        skipped: undefined,
        nextAt: '2026-11-27T13:00:00.000Z',
      });
  });

  test('once: one run for the latest time', () => {
    expect(plan(hourly, '2026-11-27T08:00:00Z', '2026-11-27T12:30:00Z', 'once')).toEqual({
      runs: [['2026-11-27T12:00:00.000Z', 4]],
      skipped: undefined,
      nextAt: '2026-11-27T13:00:00.000Z',
    });
  });

  test('skip: none, unless the latest time has just passed', () => {
    expect(plan(hourly, '2026-11-27T08:00:00Z', '2026-11-27T12:30:00Z', 'skip')).toEqual({
      runs: [],
      skipped: ['2026-11-27T12:00:00.000Z', 4],
      nextAt: '2026-11-27T13:00:00.000Z',
    });
    expect(plan(hourly, '2026-11-27T08:00:00Z', '2026-11-27T12:01:00Z', 'skip').runs).toEqual([
      ['2026-11-27T12:00:00.000Z', 4],
    ]);
  });

  test('all: each, oldest first, at most the latest 100', () => {
    expect(plan(hourly, '2026-11-27T10:00:00Z', '2026-11-27T12:30:00Z', 'all').runs).toEqual([
      ['2026-11-27T10:00:00.000Z', 0],
      ['2026-11-27T11:00:00.000Z', 0],
      ['2026-11-27T12:00:00.000Z', 0],
    ]);
    const { runs } = plan(every(10_000), '2026-11-27T00:00:00Z', '2026-11-27T00:30:00Z', 'all');
    expect(runs).toHaveLength(100);
    expect(runs[0]).toEqual(['2026-11-27T00:13:30.000Z', 81]);
    expect(runs.at(-1)).toEqual(['2026-11-27T00:30:00.000Z', 0]);
  });

  test('across a change of the clock, each time counts once', () => {
    const daily = cron('30 2 * * *', 'Europe/Berlin');
    expect(plan(daily, '2026-03-28T01:30:00Z', '2026-03-31T12:00:00Z', 'all').runs).toEqual([
      ['2026-03-28T01:30:00.000Z', 0],
      ['2026-03-29T01:00:00.000Z', 0],
      ['2026-03-30T00:30:00.000Z', 0],
      ['2026-03-31T00:30:00.000Z', 0],
    ]);
    expect(plan(daily, '2026-10-24T00:30:00Z', '2026-10-26T12:00:00Z', 'once').runs).toEqual([
      ['2026-10-26T01:30:00.000Z', 2],
    ]);
  });

  test('years of a short interval are counted up to 1000', () => {
    expect(plan(every(10_000), '2016-01-01T00:00:00Z', '2026-01-01T00:00:00Z', 'once').runs).toEqual([
      ['2026-01-01T00:00:00.000Z', 999],
    ]);
  });

  test('forward and backward, the times are the same', () => {
    for (const [expression, zone, from, to] of [
      ['*/20 * * * *', 'Europe/Berlin', '2026-10-24T20:00Z', '2026-10-25T04:00Z'],
      ['*/20 * * * *', 'America/New_York', '2026-03-08T02:00Z', '2026-03-08T12:00Z'],
      ['5 1,2,3 * * *', 'Europe/Berlin', '2026-03-25T00:00Z', '2026-04-02T00:00Z'],
      ['5 1,2,3 * * *', 'Europe/Berlin', '2026-10-22T00:00Z', '2026-10-29T00:00Z'],
    ] as const) {
      const timing = cron(expression, zone);
      const forward: number[] = [];
      for (
        let time = nextDueTime(timing, new Date(from));
        time && time <= new Date(to);
        time = nextDueTime(timing, time)
      )
        forward.push(time.getTime());
      const { runs } = planRuns(timing, {
        dueAt: new Date(Date.parse(from) + 1),
        now: new Date(to),
        missed: 'all',
      });
      expect(runs.map(({ scheduledFor }) => scheduledFor.getTime())).toEqual(forward);
    }
  });
});

test('the times of a schedule identify it, and not the order of its keys', () => {
  expect(describeTiming(cron('@daily'))).toBe('UTC @daily');
  expect(describeTiming(every(10_000))).toBe('every 10s');
});
