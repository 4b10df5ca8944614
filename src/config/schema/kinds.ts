// Kinds of values in svc.yaml. Each returns a zod type with a description and a default, and converts units to
// milliseconds or bytes.
import { z } from 'zod';
import { parseBytes } from '../../lib/bytes.ts';
import { formatDuration, parseDuration } from '../../lib/duration.ts';
import { toDecimal } from './scalar.ts';

/** Marks SQL text in the JSON Schema. Interpolation of `${…}` leaves dollar quotes in such text. */
export const SQL_MEDIA_TYPE = 'application/sql';
/** Marks a common key, which the reference prints first and `svc schema --common` contains. */
export const COMMON = { common: true } as const;
/** Excludes a shape that several keys share, although it contains common keys. */
export const RARE = { common: false } as const;
/** Names the unit of a text. Not `format`: editors would check `duration` as ISO 8601. */
export const UNIT = 'x-unit';
/** Scalars that are read as text in their written form, so that `true` and `1.10` need no quotes. */
const AS_WRITTEN = { type: ['string', 'number', 'boolean'] };
/** Maximum delay of a timer in Node, rounded down from 2^31 - 1 ms. */
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

/** An enum whose first value is the default. */
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

/** A text with a unit, parsed as a number. */
type Measure = z.ZodPrefault<z.ZodPipe<z.ZodString, z.ZodTransform<number, string>>>;

/** Parses `30s` into milliseconds. */
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

/** Parses `5MB` into bytes. */
export const size = (description: string, absent: string, most?: string): Measure =>
  z
    .string()
    .regex(/^\d+(\.\d+)?\s*([KMGTkmgt]?[Bb])?$/, {
      message: 'is not a size such as 500KB, 5MB or 1GB',
      abort: true,
    })
    .meta({ ...AS_WRITTEN, [UNIT]: 'size' })
    .transform((written) => parseBytes(written) ?? NaN)
    .refine((bytes) => bytes > 0, 'must be greater than 0')
    .refine((bytes) => Number.isSafeInteger(bytes), 'is too large')
    .refine((bytes) => most === undefined || bytes <= (parseBytes(most) ?? NaN), `must be at most ${most}`)
    .prefault(absent)
    .meta({ description });

/** Also accepts `true`, which is a valid SQL condition. */
export const sqlExpression = (description: string): z.ZodString =>
  sqlBody(description).meta({ description, ...AS_WRITTEN, contentMediaType: SQL_MEDIA_TYPE });

export const sqlBody = (description: string): z.ZodString =>
  z.string().regex(/\S/, NOT_EMPTY).meta({ description, contentMediaType: SQL_MEDIA_TYPE });

/** Can be empty. The checks decide which functions may have an empty body. */
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

/** Text in its written form: `1.10` keeps its zero. */
export const asWritten = (description?: string): z.ZodString =>
  z.string().meta(description === undefined ? AS_WRITTEN : { description, ...AS_WRITTEN });

/** A literal, a list, a map, or `{ sql: expression }`. The type of the column determines the valid literals. */
export const anyDefault = z
  .unknown()
  .meta({
    description:
      'Literal of the column’s type, `now()`, `current_date`, `current_time`, `uuid_v7()` or `uuid_v4()` ' +
      '(both become `gen_random_uuid()`), or `{ sql: <expression> }` for any other expression',
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

/** A map of keys. An absent section is parsed like an empty one. */
export function section<T extends z.ZodRawShape>(
  description: string,
  shape: T,
): z.ZodPipe<z.ZodOptional<z.ZodObject<T, z.core.$strict>>, z.ZodTransform<z.output<z.ZodObject<T>>>> {
  const present = z.strictObject(shape).meta({ description });
  return present.optional().transform((found) => found ?? present.parse({}));
}

/** A map of names. Empty if the key is absent or has no value. */
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

/** A list, or a single entry. */
export function oneOrMore<T extends z.ZodType<string>>(
  item: T,
  label: string,
): z.ZodPipe<
  z.ZodUnion<readonly [T, z.ZodArray<T>]>,
  z.ZodTransform<z.output<T>[], z.output<T> | z.output<T>[]>
> {
  return z
    .union([item, z.array(item).min(1, `must name at least one ${label}`)])
    .transform((given) => (Array.isArray(given) ? given : [given]));
}
