import { expect, test } from 'vitest';
import { closest } from './suggest.ts';

test.each([
  ['bookss', 'books'],
  ['book', 'books'],
  ['genre', 'genres'],
  ['user', 'users'],
  ['zebra', undefined],
  ['books', undefined],
])('%s', (name, expected) => {
  expect(closest(name, ['books', 'genres', 'users', 'accounts'], 0.6)).toBe(expected);
});
