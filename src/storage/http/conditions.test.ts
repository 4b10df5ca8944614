import { expect, test } from 'vitest';
import { evaluate, selectRange } from './conditions.ts';

const modified = new Date('2026-03-01T10:00:00.500Z');
const later = new Date('2026-03-01T10:00:01Z').toUTCString();
const earlier = new Date('2026-03-01T09:59:59Z').toUTCString();
const same = modified.toUTCString();
const file = { etag: '"tag"', lastModified: modified, size: 10 };

test.each([
  [{}, 'serve'],
  [{ 'if-none-match': '"tag"' }, 'not-modified'],
  [{ 'if-none-match': 'W/"tag"' }, 'not-modified'],
  [{ 'if-none-match': '"a", "tag"' }, 'not-modified'],
  [{ 'if-none-match': '*' }, 'not-modified'],
  [{ 'if-none-match': '"other"' }, 'serve'],
  [{ 'if-none-match': '"other"', 'if-modified-since': later }, 'serve'],
  [{ 'if-modified-since': same }, 'not-modified'],
  [{ 'if-modified-since': earlier }, 'serve'],
  [{ 'if-modified-since': 'yesterday' }, 'serve'],
  [{ 'if-match': '"tag"' }, 'serve'],
  [{ 'if-match': 'W/"tag"' }, 'failed'],
  [{ 'if-match': '*' }, 'serve'],
  [{ 'if-match': '"other"' }, 'failed'],
  [{ 'if-unmodified-since': earlier }, 'failed'],
  [{ 'if-unmodified-since': later }, 'serve'],
  [{ 'if-match': '"tag"', 'if-unmodified-since': earlier }, 'serve'],
] as const)('%j: %s', (headers, verdict) => {
  expect(evaluate(headers, file)).toBe(verdict);
});

test.each([
  ['bytes=0-0', { start: 0, end: 0 }],
  ['bytes=2-5', { start: 2, end: 5 }],
  ['bytes=5-', { start: 5, end: 9 }],
  ['bytes=5-500', { start: 5, end: 9 }],
  ['bytes=-3', { start: 7, end: 9 }],
  ['bytes=-500', { start: 0, end: 9 }],
  ['bytes=10-', 'unsatisfiable'],
  ['bytes=5-2', 'unsatisfiable'],
  ['bytes=-0', 'unsatisfiable'],
  ['bytes=-', 'unsatisfiable'],
  ['bytes=0-1,3-4', 'unsatisfiable'],
  ['lines=1-2', 'unsatisfiable'],
] as const)('%s', (range, expected) => {
  expect(selectRange({ range }, file)).toEqual(expected);
});

test('every range of nothing is unsatisfiable', () => {
  expect(selectRange({ range: 'bytes=0-' }, { ...file, size: 0 })).toBe('unsatisfiable');
  expect(selectRange({ range: 'bytes=-1' }, { ...file, size: 0 })).toBe('unsatisfiable');
});

test.each([
  ['"tag"', true],
  ['W/"tag"', false],
  ['"other"', false],
  [same, true],
  [earlier, false],
])('If-Range %s', (ifRange, applies) => {
  expect(selectRange({ range: 'bytes=0-1', 'if-range': ifRange }, file) !== undefined).toBe(applies);
});
