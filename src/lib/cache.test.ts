import { expect, test } from 'vitest';
import { Lru } from './lru.ts';

test('forgets the least recently used entry, not the oldest one', () => {
  const lru = new Lru<string, number>(2);
  lru.set('a', 1);
  lru.set('b', 2);
  lru.get('a');
  lru.set('c', 3);
  expect([lru.get('a'), lru.get('b'), lru.get('c'), lru.size]).toEqual([1, undefined, 3, 2]);
});

test('with every entry in use the oldest one goes', () => {
  const lru = new Lru<string, number>(2);
  lru.set('a', 1);
  lru.set('b', 2);
  lru.get('b');
  lru.get('a');
  lru.set('c', 3);
  expect([lru.get('a'), lru.get('b'), lru.get('c'), lru.size]).toEqual([undefined, 2, 3, 2]);
});

test('a value set again replaces the one before', () => {
  const lru = new Lru<string, number>(2);
  lru.set('a', 1);
  lru.set('a', 2);
  expect([lru.get('a'), lru.size]).toEqual([2, 1]);
});
