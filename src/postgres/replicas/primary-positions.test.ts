import { expect, test } from 'vitest';
import { RecentWriters } from './recent-writers.ts';
import { parsePosition } from './position.ts';
import { PrimaryPositions } from './primary-positions.ts';

test('positions are compared as numbers and not as texts', () => {
  expect(parsePosition('A/1')).toBeGreaterThan(parsePosition('9/FFFFFFFF'));
  expect(parsePosition('1/10')).toBeGreaterThan(parsePosition('1/F'));
});

test('the newest position of the primary that a replica has', () => {
  const positions = new PrimaryPositions(1_000);
  positions.add('0/10', 0);
  positions.add('0/20', 250);
  positions.add('0/30', 500);
  expect(positions.newestIn(parsePosition('0/F'))).toBeUndefined();
  expect(positions.newestIn(parsePosition('0/2F'))).toMatchObject({ text: '0/20', at: 250 });
  expect(positions.newestIn(parsePosition('0/30'))).toMatchObject({ at: 500 });
});

test('a replica that has replayed an idle primary completely does not become stale', () => {
  const positions = new PrimaryPositions(1_000);
  for (let at = 0; at <= 10_000; at += 250) positions.add('0/10', at);
  expect(positions.newestIn(parsePosition('0/10'))).toMatchObject({ at: 10_000 });
});

test('what is older than the span is forgotten', () => {
  const positions = new PrimaryPositions(1_000);
  for (let at = 0; at <= 10_000; at += 250) positions.add(`0/${at.toString(16)}`, at);
  expect(positions.newestIn(parsePosition('0/1'))).toBeUndefined();
});

test('a primary that has lost the end of its log is followed from where it is', () => {
  const positions = new PrimaryPositions(1_000);
  positions.add('0/30', 0);
  positions.add('0/20', 250);
  expect(positions.newestIn(parsePosition('0/20'))).toMatchObject({ at: 250 });
});

test('who has written counts as such for the span, by the last write', () => {
  let now = 0;
  const writes = new RecentWriters(100, { now: () => now });
  writes.note('a');
  now = 60;
  writes.note('a');
  now = 150;
  writes.note('b');
  expect([writes.has('a'), writes.has('b'), writes.has('c')]).toEqual([true, true, false]);
  now = 160;
  expect([writes.has('a'), writes.has('b')]).toEqual([false, true]);
});

test('above the limit of writers every caller counts as a writer', () => {
  let now = 0;
  const writes = new RecentWriters(100, { most: 2, now: () => now });
  for (const writer of ['a', 'b', 'c']) writes.note(writer);
  expect(writes.has('a')).toBe(true);
  now = 100;
  expect(writes.has('a')).toBe(false);
});
