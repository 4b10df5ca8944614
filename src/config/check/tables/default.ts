// Defaults: which words are calls, and which values cannot fit the column's type whatever the server thinks.
import type { KeyPath } from '../../mistakes/mistake.ts';
import { toDecimal } from '../../schema/scalar.ts';
import type { CheckContext } from '../context.ts';
import { didYouMean } from '../context.ts';
import { typeFamily, isZoned, type TypeFamily } from './type-family.ts';

/** Words that stand for a call in columns of a family of types; in other columns they are text. */
const CALLS: ReadonlyMap<string, TypeFamily> = new Map([
  ['now()', 'time'],
  ['current_date', 'time'],
  ['current_time', 'time'],
  ['uuid_v4()', 'uuid'],
  ['uuid_v7()', 'uuid'],
  ['gen_random_uuid()', 'uuid'],
]);

const CORRECT_ONE = 'Correct one of the two.';
const SQL_WORDS = /^(current_timestamp|localtimestamp|localtime|current_user|session_user|now|today)$/i;
const SOME_CALL = /^[\w."]+\(.*\)$/s;
const UUID = /^\{?[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}\}?$/i;

export function isCall(value: unknown, type: string | undefined): boolean {
  return typeof value === 'string' && type !== undefined && CALLS.get(value) === typeFamily(type);
}

export function checkDefault(
  context: CheckContext,
  path: KeyPath,
  type: string | undefined,
  value: unknown,
): void {
  if (value === undefined || value === null || type === undefined) return;
  const family = typeFamily(type);
  if (family === undefined) return;
  if (Array.isArray(value)) {
    if (family !== 'array' && family !== 'json')
      context.badValue(path, `a list is no value of ${type}`, CORRECT_ONE);
    const empty = value.indexOf(null);
    if (family === 'array' && empty >= 0)
      context.badValue([...path, empty], 'a list default holds no null', 'Write { sql: … } for that.');
    return;
  }
  if (typeof value === 'object') {
    const keys = Object.keys(value);
    if (family === 'json' || (keys.length === 1 && keys[0] === 'sql')) return;
    context.badValue(path, `a map is no value of ${type}`, 'For an expression write { sql: … }.');
    return;
  }
  if (typeof value === 'string') checkText(context, path, type, family, value);
  else if (typeof value === 'number' && (family === 'boolean' || family === 'uuid' || family === 'array'))
    context.badValue(
      path,
      `${context.quote(path, value)} is no value of ${type}`,
      family === 'boolean' ? 'Write true or false.' : CORRECT_ONE,
    );
  else if (typeof value === 'boolean' && family !== 'boolean' && family !== 'text' && family !== 'json')
    context.badValue(path, `${context.quote(path, value)} is no value of ${type}`, CORRECT_ONE);
}

function checkText(
  context: CheckContext,
  path: KeyPath,
  type: string,
  family: TypeFamily,
  value: string,
): void {
  const wanted = CALLS.get(value);
  if (wanted === family) return;
  const shown = context.show(path, value);
  if (family === 'text' || family === 'json') {
    if (wanted === undefined) return;
    context.report({
      code: 'conflict',
      path,
      message: `in a column of ${type}, ${shown} is the text itself, not a call`,
      severity: 'warning',
      hint: 'For the call write { sql: … }.',
    });
    return;
  }
  if (SOME_CALL.test(value) || SQL_WORDS.test(value) || wanted !== undefined) {
    context.badValue(
      path,
      `${shown} would be taken as text, not called`,
      () => hintForCall(value, family) ?? `Write default: { sql: ${shown} }.`,
    );
  } else if (family === 'number' && toDecimal(value) === undefined && !/^-?(Infinity|NaN)$/i.test(value)) {
    context.badValue(path, `${context.quote(path, value)} is no value of ${type}`, CORRECT_ONE);
  } else if (family === 'uuid' && !UUID.test(value)) {
    const hint = didYouMean(value, callsFor(family)) ?? 'For a random one write uuid_v7().';
    context.badValue(path, `${context.quote(path, value)} is no value of ${type}`, hint);
  } else if (isZoned(type) && /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(value)) {
    context.report({
      code: 'conflict',
      path,
      message: `${shown} names no time zone; it is read as UTC`,
      severity: 'warning',
      hint: `Write ${shown}Z.`,
    });
  }
}

/** Words of SQL that have a call here, and calls that are nearly right. */
function hintForCall(value: string, family: TypeFamily): string | undefined {
  if (family === 'time' && /timestamp|^now/i.test(value)) return 'Did you mean now()?';
  if (family === 'time' && /^today/i.test(value)) return 'Did you mean current_date?';
  if (family === 'uuid' && /uuid/i.test(value)) return 'Did you mean uuid_v4()?';
  return didYouMean(value, callsFor(family));
}

function callsFor(family: TypeFamily): string[] {
  return [...CALLS].filter(([, wanted]) => wanted === family).map(([call]) => call);
}
