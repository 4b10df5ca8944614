// The kinds of values that keys of svc.yaml take: each makes a zod type with its description, its default and,
// where the file writes a unit, the conversion to milliseconds or bytes.
import { z } from 'zod';
import { parseBytes } from '../../lib/bytes.ts';
import { formatDuration, parseDuration } from '../../lib/duration.ts';
import { toDecimal } from './scalar.ts';

/** Marks SQL text in the JSON Schema; `${…}` is read there with PostgreSQL's dollar quotes in mind. */
export const SQL_MEDIA_TYPE = 'application/sql';
/** Marks a common key, which the reference prints first and `svc schema --common` contains. */
export const COMMON = { common: true } as const;
/** Excludes a shape that several keys share, although keys inside it are marked as common. */
export const RARE = { common: false } as const;
/** Names the unit of a text. Not `format`: editors would check `duration` as ISO 8601. */
export const UNIT = 'x-unit';
/** Scalars that are taken as text the way they are written, so that `true` and `1.10` need no quotes. */
const AS_WRITTEN = { type: ['string', 'number', 'boolean'] };
/** The longest a timer of Node can wait is 2^31 - 1 ms. */
const MAX_TIMER_MS = 24 * 86_400_000;
const MAX_DURATION_MS = 3650 * 86_400_000;
const NOT_EMPTY = 'must not be empty';

export const text = (description: string, ...examples: string[]): z.ZodString =>
  z
    .string()
    .min(1, NOT_EMPTY)
    .meta({ description, ...(examples.length > 0 ? { examples } : {}) });

export const flag = (description: string, absent = false): z.ZodDefault<z.ZodBoolean> =>
  z.boolean().default(absent).meta({ description });

/** One word of several; an absent key means the first. */
export function choice<const T extends readonly [string, ...string[]]>(
  description: string,
  words: T,
): z.ZodDefault<z.ZodEnum<{ [Word in T[number]]: Word }>> {
  return z
    .enum(words)
    .default(words[0] as never)
    .meta({ description });
}

export const count = (
  description: string,
  { absent, least, most = 1_000_000 }: { absent: number; least: number; most?: number },
): z.ZodDefault<z.ZodNumber> =>
  z
    .number()
    .int('must be a whole number')
    .min(least, `must be at least ${least}`)
    .max(most, `must be at most ${most}`)
    .default(absent)
    .meta({ description });

/** A text in a unit, as a number. */
type Measure = z.ZodPrefault<z.ZodPipe<z.ZodString, z.ZodTransform<number, string>>>;

/** `30s`, as milliseconds. */
export function duration(
  description: string,
  absent: string,
  { least = 1, most = MAX_DURATION_MS }: { least?: number; most?: number } = {},
): Measure {
  return z
    .string()
    .regex(/^\d+(\.\d+)?(ms|s|m|h|d)$/, {
      message: 'is not a duration such as 30s, 5m, 1h or 7d',
      abort: true,
    })
    .meta({ [UNIT]: 'duration' })
    .transform((written) => parseDuration(written) ?? NaN)
    .refine((ms) => ms >= least, `must be at least ${formatDuration(least)}`)
    .refine((ms) => ms <= most, `must be at most ${formatDuration(most)}`)
    .prefault(absent)
    .meta({ description });
}

export const timer = (description: string, absent: string): Measure =>
  duration(description, absent, { most: MAX_TIMER_MS });

/** `5MB`, as bytes. */
export const size = (description: string, absent: string, most?: string): Measure =>
  z
    .string()
    .regex(/^\d+(\.\d+)?\s*([KMGTkmgt]?[Bb])?$/, {
      message: 'is not a size such as 500KB, 5MB or 1GB',
      abort: true,
    })
    .meta({ ...AS_WRITTEN, [UNIT]: 'size' })
    .transform((written) => parseBytes(written) ?? NaN)
    .refine((bytes) => bytes > 0, 'must be more than nothing')
    .refine((bytes) => Number.isSafeInteger(bytes), 'is more than any store holds')
    .refine((bytes) => most === undefined || bytes <= (parseBytes(most) ?? NaN), `must be at most ${most}`)
    .prefault(absent)
    .meta({ description });

/** A condition may be `true`: the word is SQL too. */
export const sqlExpression = (description: string): z.ZodString =>
  sqlBody(description).meta({ description, ...AS_WRITTEN, contentMediaType: SQL_MEDIA_TYPE });

export const sqlBody = (description: string): z.ZodString =>
  z.string().regex(/\S/, NOT_EMPTY).meta({ description, contentMediaType: SQL_MEDIA_TYPE });

/** Empty where a function may do nothing, which the checks decide. */
export const functionBody = (description: string): z.ZodString =>
  z.string().meta({ description, contentMediaType: SQL_MEDIA_TYPE });

export const secret = (description: string): z.ZodString =>
  z
    .string()
    .min(1, NOT_EMPTY)
    .meta({ description, ...AS_WRITTEN, writeOnly: true });

/** A number whose digits are kept as written. */
export const bound = (description: string): z.ZodString =>
  z
    .string()
    .refine((value) => toDecimal(value) !== undefined, 'is not a number')
    .meta({ description, type: ['number', 'string'] });

/** Text taken as it is written: `1.10` keeps its zero. */
export const asWritten = (description?: string): z.ZodString =>
  z.string().meta(description === undefined ? AS_WRITTEN : { description, ...AS_WRITTEN });

/** A literal, a list, a map, or `{ sql: expression }`. Which literals fit depends on the column's type. */
export const anyDefault = z
  .unknown()
  .meta({
    description:
      'Literal of the column’s type, `now()`, `current_date`, `current_time`, `uuid_v7()` or `uuid_v4()` (both become `gen_random_uuid()`), or `{ sql: <expression> }` for any other expression',
    examples: ['open', 0, true, 'now()', { sql: 'auth.uid()' }],
    properties: {
      sql: { ...AS_WRITTEN, contentMediaType: SQL_MEDIA_TYPE, description: 'Any SQL expression' },
    },
  })
  .optional();

export function list<T extends z.ZodType>(
  description: string,
  items: T,
  examples?: unknown[],
): z.ZodPrefault<z.ZodArray<T>> {
  return z
    .array(items)
    .prefault([])
    .meta({ description, ...(examples ? { examples } : {}) });
}

/** A map of keys. Absent, it is what it would be if it were there and empty. */
export function section<T extends z.ZodRawShape>(
  description: string,
  shape: T,
): z.ZodPipe<z.ZodOptional<z.ZodObject<T, z.core.$strict>>, z.ZodTransform<z.output<z.ZodObject<T>>>> {
  const present = z.strictObject(shape).meta({ description });
  return present.optional().transform((found) => found ?? present.parse({}));
}

/** A map of names. Absent, or with nothing behind its key, it is empty. */
export function named<T extends z.ZodType>(
  description: string,
  entry: T,
): z.ZodPipe<
  z.ZodOptional<z.ZodNullable<z.ZodRecord<z.ZodString, T>>>,
  z.ZodTransform<Record<string, z.output<T>>>
> {
  return z
    .record(z.string(), entry)
    .nullable()
    .meta({ description })
    .optional()
    .transform((found) => found ?? {});
}

/** A list, or its only entry. */
export function oneOrMore<T extends z.ZodType<string>>(
  item: T,
  what: string,
): z.ZodPipe<
  z.ZodUnion<readonly [T, z.ZodArray<T>]>,
  z.ZodTransform<z.output<T>[], z.output<T> | z.output<T>[]>
> {
  return z
    .union([item, z.array(item).min(1, `must name at least one ${what}`)])
    .transform((given) => (Array.isArray(given) ? given : [given]));
}
