// `schedules`: functions that run at set times.
import { z } from 'zod';
import { formatDuration, parseDuration } from '../../../lib/duration.ts';
import { choice, COMMON, count, flag, named, text, UNIT } from '../kinds.ts';

export const MIN_INTERVAL_MS = 10_000;
const MAX_INTERVAL_MS = 366 * 86_400_000;

const interval = z
  .string()
  .regex(/^\d+(\.\d+)?(ms|s|m|h|d)$/, {
    message: 'is not a duration such as 30s, 5m, 1h or 7d',
    abort: true,
  })
  .meta({ [UNIT]: 'duration' })
  .transform((written) => parseDuration(written) ?? NaN)
  .refine((ms) => ms >= MIN_INTERVAL_MS, `must be at least ${formatDuration(MIN_INTERVAL_MS)}`)
  .refine((ms) => ms <= MAX_INTERVAL_MS, `must be at most ${formatDuration(MAX_INTERVAL_MS)}`)
  .meta({
    description: 'Interval between two runs, at least 10s, counted from 1970 in UTC; instead of `cron`',
  });

const schedule = z
  .strictObject({
    cron: text(
      'Times in five fields (minute, hour, day of the month, month, day of the week), or `@hourly`, `@daily`, ' +
        '`@weekly`, `@monthly`, `@yearly`',
      '0 7 * * 1-5',
    )
      .meta(COMMON)
      .optional(),
    every: interval.optional(),
    timezone: text('IANA name of the time zone of `cron`', 'Europe/Berlin')
      .meta({ default: 'UTC' })
      .optional(),
    function: text('Code function to call, a key of `functions`').meta(COMMON).optional(),
    rpc: text('SQL function to call as `service_role`, a key of `rpc`; instead of `function`').optional(),
    payload: z.unknown().optional().meta({
      description: 'JSON value for the function; for an SQL function, its arguments by name',
      default: {},
    }),
    overlap: choice(
      'Action when the previous run has not ended: leave the new run out, run it afterwards, or run both',
      ['skip', 'wait', 'allow'],
    ),
    missed: choice(
      'Runs for times that passed while no instance was running: one for the latest time, none, or one for each ' +
        'of the latest 100',
      ['once', 'skip', 'all'],
    ),
    retries: count('Further attempts after a failure', { absent: 0, least: 0, most: 20 }),
    enabled: flag('`false`: does not run', true),
  })
  .transform(({ every: everyMs, ...same }) => ({ ...same, everyMs }));

export const schedules = named('Functions that run at set times, by name', schedule);

export type RawSchedule = z.infer<typeof schedule>;
