// Whether a condition holds for a value of the write-ahead log. Most are `id=eq.7`, of which there may be thousands for one
// table: those are decided here, where text decides; the rest is decided by PostgreSQL.
import { ident, raw, sql, type Sql } from '../../postgres/sql.ts';
import type { Condition } from './filter.ts';

/** Types whose values are equal exactly if their texts are. */
const BY_TEXT: ReadonlySet<string> = new Set([
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

/** Undefined where only PostgreSQL can tell. `type` as `pg_type.typname` has it. */
export function localTest({ operator, values, isNegated }: Condition, type: string): ValueTest | undefined {
  const holds = plainTest(operator, values, type);
  if (!holds) return undefined;
  if (operator === 'is' || operator === 'isdistinct') return isNegated ? (value) => !holds(value) : holds;
  // Whatever compares with null is neither true nor false.
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
  if (!BY_TEXT.has(type)) return undefined;
  const canonical = values.map((value) => canonicalText(value, type));
  if (!canonical.every((value) => value !== undefined)) return undefined;
  const [wanted] = canonical;
  switch (operator) {
    case 'eq':
      return (value) => value === wanted;
    case 'neq':
    case 'isdistinct':
      return (value) => value !== wanted;
    case 'in': {
      const all: ReadonlySet<string | null> = new Set(canonical);
      return (value) => all.has(value);
    }
    case 'lt':
    case 'lte':
    case 'gt':
    case 'gte':
      return INTEGERS.has(type) && wanted !== undefined ? comparison(operator, BigInt(wanted)) : undefined;
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

/** As PostgreSQL prints the value; undefined for a spelling that it would have to read. */
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

/** The condition in SQL over `row`, an alias. `type` is a type in SQL. */
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

/** Their right side is text, whatever the left is. */
const PATTERNS: ReadonlySet<string> = new Set(['like', 'ilike', 'match', 'imatch']);

function inserts(values: readonly string[]): Sql {
  return values.map((value) => sql`${value}::text`).reduce((all, one) => sql`${all}, ${one}`);
}
