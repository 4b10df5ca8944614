// Parses the filter of a binding: `column=op.value`, conditions joined by commas. All conditions must hold.
//
//   cond  = column "=" [ "not." ] op "." value
//   value = bare | DQUOTE escaped DQUOTE      quoted only right after  .  (  or  ,
//   in    = "(" value *( "," value ) ")"
//
// Conditions mean the same as in PostgreSQL. A comparison with null does not hold.

const OPERATORS = [
  'eq',
  'neq',
  'lt',
  'lte',
  'gt',
  'gte',
  'in',
  'like',
  'ilike',
  'is',
  'match',
  'imatch',
  'isdistinct',
] as const;
export type Operator = (typeof OPERATORS)[number];

export type Condition = {
  readonly column: string;
  readonly isNegated: boolean;
  readonly operator: Operator;
  /** Exactly one value, except for `in`. */
  readonly values: readonly string[];
};

const IS_WORDS: ReadonlySet<string> = new Set(['null', 'true', 'false', 'unknown']);
const MAX_CONDITIONS = 100;
const MAX_VALUES = 100;

/** Error whose message is sent to the client. */
export class FilterError extends Error {}

/** Throws `FilterError`. A blank text has no conditions. */
export function parseFilter(text: string): Condition[] {
  if (text.trim() === '') return [];
  const conditions: Condition[] = [];
  const cursor = { at: 0 };
  do {
    if (conditions.length > 0) cursor.at += 1;
    conditions.push(readCondition(text, cursor));
    if (conditions.length > MAX_CONDITIONS) throw new FilterError('more than 100 conditions');
  } while (cursor.at < text.length);
  return conditions;
}

type Cursor = { at: number };

function readCondition(text: string, cursor: Cursor): Condition {
  const equals = text.indexOf('=', cursor.at);
  if (equals < 0) throw new FilterError(`expected column=operator.value in "${text.slice(cursor.at)}"`);
  const column = text.slice(cursor.at, equals).trim();
  if (column === '') throw new FilterError(`there is no column before "${text.slice(equals)}"`);
  cursor.at = equals + 1;
  const isNegated = text.startsWith('not.', cursor.at);
  if (isNegated) cursor.at += 'not.'.length;
  const dot = text.indexOf('.', cursor.at);
  const word = dot < 0 ? text.slice(cursor.at) : text.slice(cursor.at, dot);
  const operator = OPERATORS.find((known) => known === word);
  if (!operator || dot < 0) throw new FilterError(`unknown operator "${word}"`);
  cursor.at = dot + 1;
  const values = operator === 'in' ? readList(text, cursor) : [readValue(text, cursor, ',')];
  if (cursor.at < text.length && text[cursor.at] !== ',') {
    throw new FilterError(`unexpected "${text.slice(cursor.at)}"`);
  }
  if (operator === 'is' && !IS_WORDS.has(values[0]?.toLowerCase() ?? '')) {
    throw new FilterError('`is` takes null, true, false or unknown');
  }
  // PostgreSQL raises this error only when a row matches the rest of the pattern.
  if (isLike(operator) && endsWithEscape(values[0] ?? '')) {
    throw new FilterError(`the pattern of \`${operator}\` ends with an escape character`);
  }
  return { column, isNegated, operator, values };
}

function isLike(operator: Operator): boolean {
  return operator === 'like' || operator === 'ilike';
}

function endsWithEscape(pattern: string): boolean {
  const [backslashes = ''] = /\\*$/.exec(pattern) ?? [];
  return backslashes.length % 2 === 1;
}

function readList(text: string, cursor: Cursor): string[] {
  if (text[cursor.at] !== '(') throw new FilterError('`in` takes a list in parentheses');
  const values: string[] = [];
  do {
    cursor.at += 1;
    values.push(readValue(text, cursor, ',)'));
    if (values.length > MAX_VALUES) throw new FilterError('more than 100 values');
  } while (text[cursor.at] === ',');
  if (text[cursor.at] !== ')') throw new FilterError('a list is not closed');
  cursor.at += 1;
  return values;
}

/** Reads up to a character of `ends` outside parentheses. */
function readValue(text: string, cursor: Cursor, ends: string): string {
  if (text[cursor.at] === '"') return readQuoted(text, cursor);
  const from = cursor.at;
  let depth = 0;
  for (; cursor.at < text.length; cursor.at++) {
    const char = text[cursor.at] ?? '';
    if (depth === 0 && ends.includes(char)) break;
    if (char === '(') depth += 1;
    else if (char === ')' && depth > 0) depth -= 1;
  }
  return text.slice(from, cursor.at);
}

function readQuoted(text: string, cursor: Cursor): string {
  let value = '';
  for (cursor.at += 1; cursor.at < text.length; cursor.at++) {
    const char = text[cursor.at] ?? '';
    if (char === '"') {
      cursor.at += 1;
      return value;
    }
    if (char === '\\') cursor.at += 1;
    value += text[cursor.at] ?? '';
  }
  throw new FilterError('a quote is not closed');
}
