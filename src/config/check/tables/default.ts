// Defaults: words that are calls, and values that cannot be valid for the type of the column.
import type { KeyPath } from '../../mistakes/mistake.ts';
import { toDecimal } from '../../schema/scalar.ts';
import type { CheckContext } from '../context.ts';
import { didYouMean } from '../context.ts';
import { typeFamily, isZoned, type TypeFamily } from './type-family.ts';

/** Values that are calls in columns of one family of types. In other columns they are text. */
const CALLS: ReadonlyMap<string, TypeFamily> = new Map([
  ['now()', 'time'],
  ['current_date', 'time'],
  ['current_time', 'time'],
  ['uuid_v4()', 'uuid'],
  ['uuid_v7()', 'uuid'],
  ['gen_random_uuid()', 'uuid'],
]);

const CORRECT_EITHER = 'Correct the type or the default.';
const SQL_WORDS = /^(current_timestamp|localtimestamp|localtime|current_user|session_user|now|today)$/i;
const CALL_PATTERN = /^[\w."]+\(.*\)$/s;
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
      context.badValue(path, `a list is not a valid value of type ${type}`, CORRECT_EITHER);
    const empty = value.indexOf(null);
    if (family === 'array' && empty >= 0)
      context.badValue([...path, empty], 'the list contains null', 'Write the default as { sql: … }.');
    return;
  }
  if (typeof value === 'object') {
    const keys = Object.keys(value);
    if (family === 'json' || (keys.length === 1 && keys[0] === 'sql')) return;
    context.badValue(
      path,
      `a map is not a valid value of type ${type}`,
      'For an expression write { sql: … }.',
    );
    return;
  }
  if (typeof value === 'string') checkText(context, path, type, family, value);
  else if (typeof value === 'number' && (family === 'boolean' || family === 'uuid' || family === 'array'))
    context.badValue(
      path,
      `${context.quote(path, value)} is not a valid value of type ${type}`,
      family === 'boolean' ? 'Write true or false.' : CORRECT_EITHER,
    );
  else if (typeof value === 'boolean' && family !== 'boolean' && family !== 'text' && family !== 'json')
    context.badValue(
      path,
      `${context.quote(path, value)} is not a valid value of type ${type}`,
      CORRECT_EITHER,
    );
}

function checkText(
  context: CheckContext,
  path: KeyPath,
  type: string,
  family: TypeFamily,
  value: string,
): void {
  const callFamily = CALLS.get(value);
  if (callFamily === family) return;
  const shown = context.show(path, value);
  if (family === 'text' || family === 'json') {
    if (callFamily === undefined) return;
    context.report({
      code: 'conflict',
      path,
      message: `in a column of type ${type}, ${shown} is a text and not a call`,
      severity: 'warning',
      hint: 'For a call write { sql: … }.',
    });
    return;
  }
  if (CALL_PATTERN.test(value) || SQL_WORDS.test(value) || callFamily !== undefined) {
    context.badValue(
      path,
      `${shown} would be a text and not a call`,
      () => hintForCall(value, family) ?? `Write default: { sql: ${shown} }.`,
    );
  } else if (family === 'number' && toDecimal(value) === undefined && !/^-?(Infinity|NaN)$/i.test(value)) {
    context.badValue(
      path,
      `${context.quote(path, value)} is not a valid value of type ${type}`,
      CORRECT_EITHER,
    );
  } else if (family === 'uuid' && !UUID.test(value)) {
    const hint = didYouMean(value, callsFor(family)) ?? 'For a random UUID write uuid_v7().';
    context.badValue(path, `${context.quote(path, value)} is not a valid value of type ${type}`, hint);
  } else if (isZoned(type) && /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(value)) {
    context.report({
      code: 'conflict',
      path,
      message: `${shown} has no time zone and is read as UTC`,
      severity: 'warning',
      hint: `Write ${shown}Z.`,
    });
  }
}

/** Suggests a call for words of SQL and for misspelt calls. */
function hintForCall(value: string, family: TypeFamily): string | undefined {
  if (family === 'time' && /timestamp|^now/i.test(value)) return 'Did you mean now()?';
  if (family === 'time' && /^today/i.test(value)) return 'Did you mean current_date?';
  if (family === 'uuid' && /uuid/i.test(value)) return 'Did you mean uuid_v4()?';
  return didYouMean(value, callsFor(family));
}

function callsFor(family: TypeFamily): string[] {
  return [...CALLS].filter(([, callFamily]) => callFamily === family).map(([call]) => call);
}
