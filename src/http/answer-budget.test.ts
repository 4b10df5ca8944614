import { describe, expect, test } from 'vitest';
import { AnswerBudget, type AnswerCharge } from './answer-budget.ts';

const MB = 1024 * 1024;

/** An answer that is being built. */
function building(budget: AnswerBudget, key: string, megabytes: number): AnswerCharge {
  const charge = budget.open(key);
  charge.stop = () => {};
  charge.growTo(megabytes * MB);
  return charge;
}

function sent(budget: AnswerBudget, key: string, megabytes: number): AnswerCharge {
  const charge = building(budget, key, megabytes);
  charge.stop = undefined;
  return charge;
}

describe('when there is no room', () => {
  test('the largest response of the largest caller is cancelled', () => {
    const budget = new AnswerBudget(() => 100 * MB);
    const [small, large] = [building(budget, 'many', 10), building(budget, 'many', 35)];
    const few = building(budget, 'few', 40);
    const late = building(budget, 'late', 20);
    expect([small, large, few, late].map(({ isStopped }) => isStopped)).toEqual([false, true, false, false]);
    expect(budget.bytes).toBe(70 * MB);
  });

  test('a caller with less than a megabyte is never rejected', () => {
    const budget = new AnswerBudget(() => 10 * MB);
    for (const key of ['a', 'b']) sent(budget, key, 5);
    for (let n = 0; n < 20; n++) expect(building(budget, `small ${n}`, 0.9).isStopped).toBe(false);
    expect(building(budget, 'large', 2).isStopped).toBe(true);
  });

  test('a response in transit is not cancelled before its deadline', () => {
    const budget = new AnswerBudget(() => 10 * MB);
    const slow = sent(budget, 'slow', 5);
    sent(budget, 'other', 5);
    expect(building(budget, 'late', 3).isStopped).toBe(true);
    let stopped = 0;
    slow.stop = () => (stopped += 1);
    expect(building(budget, 'late', 3).isStopped).toBe(false);
    expect(stopped).toBe(1);
  });
});

test('a caller holds half at most', () => {
  const budget = new AnswerBudget(() => 100 * MB);
  expect(sent(budget, 'a', 40).isStopped).toBe(false);
  expect(building(budget, 'a', 15).isStopped).toBe(true);
  expect(building(budget, 'a', 9).isStopped).toBe(false);
  expect(building(budget, 'b', 40).isStopped).toBe(false);
});

test('what is released is free again, in whichever order and only once', () => {
  const budget = new AnswerBudget(() => 10 * MB);
  const stopped = building(budget, 'a', 6);
  const kept = building(budget, 'a', 2);
  expect([stopped.isStopped, kept.isStopped]).toEqual([true, false]);
  stopped.release();
  kept.shrinkTo(MB);
  expect(budget.bytes).toBe(MB);
  kept.release();
  expect(budget.bytes).toBe(0);
  expect(kept.growTo(9 * MB)).toBe(true);
  expect(budget.bytes).toBe(0);
});

test('one result for several callers counts once, until the last has taken it', () => {
  const budget = new AnswerBudget(() => 100 * MB);
  const result = {};
  const [first, second] = [building(budget, 'a', 10), building(budget, 'b', 10)];
  expect(budget.share(result, first)).toBe(first);
  expect(budget.share(result, second)).toBe(first);
  expect(budget.bytes).toBe(10 * MB);
  first.release();
  expect(budget.bytes).toBe(10 * MB);
  first.release();
  expect(budget.bytes).toBe(0);
});
