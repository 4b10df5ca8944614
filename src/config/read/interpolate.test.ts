import { describe, expect, test } from 'vitest';
import { interpolate } from './interpolate.ts';

const VARIABLES = { NAME: 'app', EMPTY: '', _x1: 'low', SVC_ENV_KEY: 'k', DOLLAR: '$1', NESTED: '${NAME}' };

function text(written: string, rules: Partial<{ sql: boolean; functionEnv: boolean }> = {}): string {
  const read = interpolate(written, VARIABLES, { sql: false, functionEnv: false, ...rules });
  expect(read.failures).toEqual([]);
  return read.text;
}

function failures(written: string, rules: Partial<{ sql: boolean; functionEnv: boolean }> = {}): string[] {
  return interpolate(written, VARIABLES, { sql: false, functionEnv: false, ...rules }).failures.map(
    ({ code, reference }) => `${code} ${reference}`,
  );
}

describe('text', () => {
  test.each([
    ['${NAME}', 'app'],
    ['a ${NAME}-${_x1} b', 'a app-low b'],
    ['${NAME:-other}', 'app'],
    ['${MISSING:-other}', 'other'],
    ['${MISSING:-}', ''],
    ['${EMPTY:-other}', 'other'],
    ['${EMPTY}', ''],
    ['${MISSING:-a:-b $ c}', 'a:-b $ c'],
    ['$${NAME}', '${NAME}'],
    ['$$${NAME}', '$$app'],
    ['$$$${NAME}', '$$${NAME}'],
    ['$NAME $ {NAME} {NAME}', '$NAME $ {NAME} {NAME}'],
    // Values of variables are neither substituted again nor used as a replacement pattern.
    ['${DOLLAR} ${NESTED}', '$1 ${NAME}'],
    ['$${not a name}', '${not a name}'],
  ])('%s → %s', (written, expected) => expect(text(written)).toBe(expected));
});

describe('SQL', () => {
  test.each([
    ['select $1, $2', 'select $1, $2'],
    ['$$ begin $$', '$$ begin $$'],
    ['$body$ x $body$', '$body$ x $body$'],
    ['$${"a": 1}$$::jsonb', '$${"a": 1}$$::jsonb'],
    ['${ not ours }', '${ not ours }'],
    ["'${'", "'${'"],
    ['tenant = ${NAME:-x}', 'tenant = app'],
    ['$$${NAME}$$', '$$app$$'],
    ["'$${NAME}'", "'${NAME}'"],
  ])('%s → %s', (written, expected) => expect(text(written, { sql: true })).toBe(expected));
});

describe('a mistake in a reference', () => {
  test.each([
    ['${MISSING}', 'missing-variable ${MISSING}'],
    ['a ${B}${C} d', 'missing-variable ${B},missing-variable ${C}'],
    ['${}', 'missing-variable ${}'],
    ['${1A}', 'missing-variable ${1A}'],
    ['${A-b}', 'missing-variable ${A-b}'],
    ['${A:?b}', 'missing-variable ${A:?b}'],
    ['${NAME', 'missing-variable ${NAME'],
    ['${__proto__}', 'missing-variable ${__proto__}'],
    ['${toString}', 'missing-variable ${toString}'],
  ])('%s', (written, expected) => expect(failures(written).join(',')).toBe(expected));

  test('a code function can only use SVC_ENV_ variables', () => {
    expect(text('${SVC_ENV_KEY}', { functionEnv: true })).toBe('k');
    expect(text('x-${SVC_ENV_NONE:-y}', { functionEnv: true })).toBe('x-y');
    expect(failures('${NAME}', { functionEnv: true })).toEqual(['forbidden-variable ${NAME}']);
    expect(failures('${SVC_ENV_}', { functionEnv: true })).toEqual(['forbidden-variable ${SVC_ENV_}']);
  });

  test('the hint suggests a similar variable', () => {
    const [failure] = interpolate('${NAMR}', VARIABLES, { sql: false, functionEnv: false }).failures;
    expect(failure?.hint).toMatch(/Did you mean NAME\?/);
  });
});

test('only values of variables count as used', () => {
  const { used } = interpolate('${NAME} ${MISSING:-public}', VARIABLES, { sql: false, functionEnv: false });
  expect([...used]).toEqual([['app', '${NAME}']]);
});
