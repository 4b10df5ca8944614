import { expect, test } from 'vitest';
import { readRecord } from './record-text.ts';

test.each([
  ['(7,"a, b",)', ['7', 'a, b', null]],
  ['("",x)', ['', 'x']],
  ['("call ""hi""","back\\\\slash","(x)")', ['call "hi"', 'back\\slash', '(x)']],
  ['("{""a"": [1, 2]}","line\nbreak")', ['{"a": [1, 2]}', 'line\nbreak']],
  ['("{""a \\\\""quoted\\\\"" b""}")', ['{"a \\"quoted\\" b"}']],
  ['(,)', [null, null]],
  ['()', [null]],
])('%s is read as PostgreSQL wrote it', (text, values) => {
  expect(readRecord(text)).toEqual(values);
});

test('a text that is not a row is rejected', () => {
  expect(() => readRecord('7,8')).toThrow(RangeError);
});
