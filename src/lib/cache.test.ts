import { expect, test } from 'vitest';
import { Cache } from './cache.ts';

test('evicts the entry that was not read, not the oldest one', () => {
  const cache = new Cache<string, number>(2);
  cache.set('a', 1);
  cache.set('b', 2);
  cache.get('a');
  cache.set('c', 3);
  expect([cache.get('a'), cache.get('b'), cache.get('c'), cache.size]).toEqual([1, undefined, 3, 2]);
});

test('with every entry in use the oldest one goes', () => {
  const cache = new Cache<string, number>(2);
  cache.set('a', 1);
  cache.set('b', 2);
  cache.get('b');
  cache.get('a');
  cache.set('c', 3);
  expect([cache.get('a'), cache.get('b'), cache.get('c'), cache.size]).toEqual([undefined, 2, 3, 2]);
});

test('a value set again replaces the one before', () => {
  const cache = new Cache<string, number>(2);
  cache.set('a', 1);
  cache.set('a', 2);
  expect([cache.get('a'), cache.size]).toEqual([2, 1]);
});
