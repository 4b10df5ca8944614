import fc from 'fast-check';
import { expect, test } from 'vitest';
import { diffLines } from './line-diff.ts';

const signs = (before: string, after: string, context?: number): string[] =>
  diffLines(before, after, context).map(({ sign, text }) => sign + text);

test('equal texts differ in nothing, also when one lacks the last line break', () => {
  expect(diffLines('a\nb\n', 'a\nb\n')).toEqual([]);
  expect(diffLines('a\nb', 'a\nb\n')).toEqual([]);
});

test('a changed line is shown with what is around it, and nothing farther', () => {
  const lines = Array.from({ length: 20 }, (_, index) => `line ${index + 1}`);
  const changed = lines.with(9, 'another');
  expect(diffLines(lines.join('\n'), changed.join('\n'), 1)).toEqual([
    { sign: ' ', text: 'line 9', line: 9 },
    { sign: '-', text: 'line 10', line: 10 },
    { sign: '+', text: 'another', line: 10 },
    { sign: ' ', text: 'line 11', line: 11 },
  ]);
});

test('the smallest change is found', () => {
  expect(signs('a\nb\nc\na\nb\nb\na', 'c\nb\na\nb\na\nc', 10).filter((line) => line[0] !== ' ')).toHaveLength(
    5,
  );
});

test('unrelated texts of many lines are answered whole and soon', () => {
  const before = Array.from({ length: 5_000 }, (_, index) => `before ${index}`).join('\n');
  const after = Array.from({ length: 5_000 }, (_, index) => `after ${index}`).join('\n');
  const lines = diffLines(before, after);
  expect(lines.filter(({ sign }) => sign === '-')).toHaveLength(5_000);
  expect(lines.filter(({ sign }) => sign === '+')).toHaveLength(5_000);
});

test('the lines transform one text into the other', () => {
  const text = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 30 });
  fc.assert(
    fc.property(text, text, (before, after) => {
      fc.pre(before.join('') !== after.join(''));
      const lines = diffLines(`${before.join('\n')}\n`, `${after.join('\n')}\n`, 100);
      const of = (sign: '-' | '+'): string[] =>
        lines.filter((line) => line.sign === sign || line.sign === ' ').map((line) => line.text);
      expect(of('-').join()).toBe(before.length === 0 ? '' : before.join());
      expect(of('+').join()).toBe(after.length === 0 ? '' : after.join());
      for (const { sign, text: shown, line } of lines)
        expect((sign === '-' ? before : after)[line - 1] ?? '').toBe(shown);
    }),
  );
});
