import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Openings } from './openings.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const later = (ms: number): void => void vi.advanceTimersByTime(ms);

function open(openings: Openings, size: number): void {
  openings.started();
  openings.succeeded(size);
}

function fail(openings: Openings, size: number): void {
  openings.started();
  const startedAt = performance.now();
  later(1);
  openings.failed(size, startedAt, new Error('too many'));
}

test('as many as may be, counting those under way', () => {
  const openings = new Openings(2);
  expect(openings.canStart(0)).toBe(true);
  openings.started();
  expect(openings.canStart(0)).toBe(true);
  openings.started();
  expect(openings.canStart(0)).toBe(false);
});

test('where one more is refused is the ceiling: asked again after 1, 2, 4 … 60 s, by one at a time', () => {
  const openings = new Openings(20);
  for (let size = 1; size <= 4; size += 1) open(openings, size);
  const waits: number[] = [];
  for (let round = 0; round < 8; round += 1) {
    fail(openings, 4);
    let waited = 0;
    while (!openings.canStart(4)) {
      later(500);
      waited += 500;
    }
    waits.push(waited / 1_000);
  }
  expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
  openings.started();
  expect(openings.canStart(4)).toBe(false);
});

test('what is lost below the ceiling is replaced at once', () => {
  const openings = new Openings(20);
  for (let size = 1; size <= 4; size += 1) open(openings, size);
  fail(openings, 4);
  expect(openings.canStart(4)).toBe(false);
  expect(openings.canStart(3)).toBe(true);
});

test('several refusals of one moment are one', () => {
  const openings = new Openings(20);
  open(openings, 1);
  const startedAt = performance.now();
  for (let number = 0; number < 5; number += 1) openings.started();
  later(1);
  for (let number = 0; number < 5; number += 1) openings.failed(1, startedAt, new Error('too many'));
  later(1_000);
  expect(openings.canStart(1)).toBe(true);
});

test('the ceiling rises with each that succeeds, and is forgotten at the top', () => {
  const openings = new Openings(3);
  open(openings, 1);
  fail(openings, 1);
  later(1_000);
  open(openings, 2);
  expect(openings.canStart(2)).toBe(true);
  open(openings, 3);
  expect(openings.nextAt).toBeUndefined();
});

test('with none open the database is away: one attempt at a time until one succeeds', () => {
  const openings = new Openings(5);
  fail(openings, 0);
  expect([openings.isAway, openings.canStart(0)]).toEqual([true, false]);
  later(50);
  expect(openings.canStart(0)).toBe(true);
  openings.started();
  expect(openings.canStart(0)).toBe(false);
  openings.succeeded(1);
  expect([openings.isAway, openings.awaySince, openings.canStart(1)]).toEqual([false, undefined, true]);
});
