// Evaluates conditions on values of the write-ahead log. One table may have thousands of conditions such as `id=eq.7`.
// They are evaluated here if comparing text is enough, otherwise by PostgreSQL.
import { ident, raw, sql, type Sql } from '../../../postgres/sql.ts';
import type { Condition } from './filter.ts';

/** Types whose values are equal if and only if their texts are equal. */
const COMPARABLE_TYPES: ReadonlySet<string> = new Set([
  'text',
  'varchar',
  'uuid',
  'bool',
  'int2',
  'int4',
  'int8',
  'oid',
]);
const INTEGERS: ReadonlySet<string> = new Set(['int2', 'int4', 'int8', 'oid']);
const BOOLEANS: Readonly<Record<string, string>> = {
  t: 't',
  true: 't',
  yes: 't',
  on: 't',
  1: 't',
  f: 'f',
  false: 'f',
  no: 'f',
  off: 'f',
  0: 'f',
};

export type ValueTest = (value: string | null) => boolean;

/** Returns undefined where only PostgreSQL can evaluate the condition. `type`: `pg_type.typname`. */
export function localTest({ operator, values, isNegated }: Condition, type: string): ValueTest | undefined {
  const holds = plainTest(operator, values, type);
  if (!holds) return undefined;
  if (operator === 'is' || operator === 'isdistinct') return isNegated ? (value) => !holds(value) : holds;
  // A comparison with null is neither true nor false.
  return (value) => value !== null && holds(value) !== isNegated;
}

function plainTest(
  operator: Condition['operator'],
  values: readonly string[],
  type: string,
): ValueTest | undefined {
  const [first = ''] = values;
  if (operator === 'is') {
    const word = first.toLowerCase();
    if (word === 'null') return (value) => value === null;
    if (type !== 'bool') return undefined;
    return word === 'unknown'
      ? (value) => value === null
      : (value) => value === (word === 'true' ? 't' : 'f');
  }
  if (!COMPARABLE_TYPES.has(type)) return undefined;
  const canonical = values.map((value) => canonicalText(value, type));
  if (!canonical.every((value) => value !== undefined)) return undefined;
  const [expected] = canonical;
  switch (operator) {
    case 'eq':
      return (value) => value === expected;
    case 'neq':
    case 'isdistinct':
      return (value) => value !== expected;
    case 'in': {
      const all: ReadonlySet<string | null> = new Set(canonical);
      return (value) => all.has(value);
    }
    case 'lt':
    case 'lte':
    case 'gt':
    case 'gte':
      return INTEGERS.has(type) && expected !== undefined
        ? comparison(operator, BigInt(expected))
        : undefined;
    case 'like':
    case 'ilike':
    case 'match':
    case 'imatch':
      return undefined;
  }
}

function comparison(operator: 'lt' | 'lte' | 'gt' | 'gte', bound: bigint): ValueTest {
  const tests = {
    lt: (value: bigint): boolean => value < bound,
    lte: (value: bigint): boolean => value <= bound,
    gt: (value: bigint): boolean => value > bound,
    gte: (value: bigint): boolean => value >= bound,
  };
  return (value) => value !== null && tests[operator](BigInt(value));
}

/** Returns the value as PostgreSQL prints it. Undefined for a spelling that PostgreSQL has to parse. */
function canonicalText(value: string, type: string): string | undefined {
  if (type === 'text' || type === 'varchar') return value;
  if (type === 'bool') return BOOLEANS[value.trim().toLowerCase()];
  if (type === 'uuid') {
    return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value) ? value.toLowerCase() : undefined;
  }
  return /^\s*[+-]?\d{1,18}\s*$/.test(value) ? String(BigInt(value.trim().replace(/^\+/, ''))) : undefined;
}

const SIGNS: Readonly<Record<Exclude<Condition['operator'], 'in' | 'is'>, string>> = {
  eq: '=',
  neq: '<>',
  lt: '<',
  lte: '<=',
  gt: '>',
  gte: '>=',
  like: '~~',
  ilike: '~~*',
  match: '~',
  imatch: '~*',
  isdistinct: 'is distinct from',
};

/** Renders the condition as SQL. `row`: alias of the row. `type`: SQL type of the column. */
export function toSql({ column, operator, values, isNegated }: Condition, row: string, type: string): Sql {
  const left = ident(row, column);
  const cast = raw(type);
  const [first = ''] = values;
  const holds =
    operator === 'is'
      ? sql`${left} is ${raw(first.toLowerCase())}`
      : operator === 'in'
        ? sql`${left} = any (array[${inserts(values)}]::${cast}[])`
        : sql`${left} ${raw(SIGNS[operator])} ${PATTERNS.has(operator) ? first : sql`${first}::${cast}`}`;
  return isNegated ? sql`not (${holds})` : holds;
}

/** Operators whose right operand is text for every type of the left operand. */
const PATTERNS: ReadonlySet<string> = new Set(['like', 'ilike', 'match', 'imatch']);
/** Length of the text on which a pattern is tested. */
const LONG_TEXT_LENGTH = 2_000;

/**
 * Returns expressions that raise the errors of a condition without a row: casts of the values, and the pattern on an
 * empty and a long text.
 */
export function valueChecks({ operator, values }: Condition, { type, sqlType }: ColumnType): Sql[] {
  const [first = ''] = values;
  const cast = raw(sqlType);
  if (operator === 'is') return [];
  if (operator === 'in') return [sql`array[${inserts(values)}]::${cast}[] is null`];
  if (!PATTERNS.has(operator)) return [sql`${first}::${cast} is null`];
  if (type === 'bytea') return [];
  const sign = raw(SIGNS[operator]);
  return [
    sql`''::text ${sign} ${first}`,
    sql`repeat('ab', ${LONG_TEXT_LENGTH / 2}::integer) ${sign} ${first}`,
  ];
}

export type ColumnType = { readonly type: string; readonly sqlType: string };

function inserts(values: readonly string[]): Sql {
  return values.map((value) => sql`${value}::text`).reduce((all, item) => sql`${all}, ${item}`);
}
