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
    // What a variable holds is not looked at again, nor taken as a pattern.
    ['${DOLLAR} ${NESTED}', '$1 ${NAME}'],
    ['$${not a name}', '${not a name}'],
  ])('%s → %s', (written, wanted) => expect(text(written)).toBe(wanted));
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
  ])('%s → %s', (written, wanted) => expect(text(written, { sql: true })).toBe(wanted));
});

describe('what is refused', () => {
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
  ])('%s', (written, wanted) => expect(failures(written).join(',')).toBe(wanted));

  test('a code function is given SVC_ENV_ variables and no others', () => {
    expect(text('${SVC_ENV_KEY}', { functionEnv: true })).toBe('k');
    expect(text('x-${SVC_ENV_NONE:-y}', { functionEnv: true })).toBe('x-y');
    expect(failures('${NAME}', { functionEnv: true })).toEqual(['forbidden-variable ${NAME}']);
    expect(failures('${SVC_ENV_}', { functionEnv: true })).toEqual(['forbidden-variable ${SVC_ENV_}']);
  });

  test('the hint names the variable that was meant', () => {
    const [failure] = interpolate('${NAMR}', VARIABLES, { sql: false, functionEnv: false }).failures;
    expect(failure?.hint).toMatch(/Did you mean NAME\?/);
  });
});

test('only what came from a variable counts as used', () => {
  const { used } = interpolate('${NAME} ${MISSING:-public}', VARIABLES, { sql: false, functionEnv: false });
  expect([...used]).toEqual([['app', '${NAME}']]);
});
