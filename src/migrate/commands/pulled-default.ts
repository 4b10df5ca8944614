// Converts the default of a column to a plain value with the same meaning, or to SQL.
import { unwrapCallerHelpers } from '../../lib/sql/sql-text.ts';
import type { LiveColumn } from '../schema/live/live-schema.ts';

const PLAIN_DEFAULTS = new Set(['now()', 'gen_random_uuid()']);
const LITERAL = /^'((?:[^'\\]|'')*)'::((?:[\w.]|"(?:[^"]|"")+"| |\[\])+)$/;
const TEXT_LIST = /^ARRAY\[((?:'(?:[^'\\]|'')*'::text(?:, )?)+)\]$/;
const TEXT_ITEM = /'((?:[^']|'')*)'::text/g;

/** Types whose printed literals have the same meaning without their cast. */
const TEXT_TYPES: Readonly<Record<string, RegExp>> = {
  text: /^text$/,
  'character varying': /^character varying(?:\(\d+\))?$/,
  bpchar: /^character(?:\(\d+\))?$/,
};

/** Types whose printed values can be parsed again. PostgreSQL parses a plain text of the file as such a value. */
const ROUND_TRIP_TYPES =
  /^(?:date|interval|inet|cidr|uuid|macaddr|(?:time|timestamp) with(?:out)? time zone)$/;

const NUMBERS = /^(?:smallint|integer|bigint|numeric|real|double precision)$/;

/** Returns the value of `default`. `enums` contains the printed names of enum types. */
export function pulledDefault(
  column: Pick<LiveColumn, 'default' | 'type'>,
  enums: ReadonlySet<string>,
): unknown {
  const text = column.default ?? '';
  return plainValue(text, column.type, enums) ?? { sql: unwrapCallerHelpers(text) };
}

function plainValue(text: string, type: string, enums: ReadonlySet<string>): unknown {
  if (PLAIN_DEFAULTS.has(text) && (text === 'now()' ? /^(timestamp|date)/.test(type) : type === 'uuid'))
    return text;
  if (text === 'CURRENT_DATE') return 'current_date';
  if (text === 'true' || text === 'false') return text === 'true';
  // Other numeric types would print the literal of the file with a cast, which this default does not have.
  if (/^-?\d{1,9}$/.test(text) && type === 'integer') return Number(text);
  if (/^[1-9]?\d\.\d{0,8}[1-9]$/.test(text) && type.startsWith('numeric')) return Number(text);
  if (text.includes('${')) return undefined;
  const list = type === 'text[]' ? TEXT_LIST.exec(text)?.[1] : undefined;
  if (list !== undefined)
    return [...list.matchAll(TEXT_ITEM)].map(([, item = '']) => item.replaceAll("''", "'"));
  const [, quoted, cast = ''] = LITERAL.exec(text) ?? [];
  if (quoted === undefined) return undefined;
  const value = quoted.replaceAll("''", "'");
  if (cast === type && value === '{}' && type.endsWith('[]')) return [];
  if (cast === type && /^jsonb?$/.test(type)) return emptyJson(value);
  if (cast === type && NUMBERS.test(type) && String(Number(value)) === value) return Number(value);
  const isSame =
    TEXT_TYPES[cast]?.test(type) ?? (cast === type && (enums.has(cast) || ROUND_TRIP_TYPES.test(type)));
  return isSame ? value : undefined;
}

/** Converts only empty JSON, because the file would not keep the exact text of other JSON. */
function emptyJson(text: string): unknown {
  if (text === '{}') return {};
  return text === '[]' ? [] : undefined;
}
