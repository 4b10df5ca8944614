import { expect, test } from 'vitest';
import { TokenBucket, TokenBuckets } from './token-bucket.ts';

test('a full bucket gives its burst at once, then one token for each refill', () => {
  let now = 0;
  const bucket = new TokenBucket(() => now);
  const consume = (): boolean => bucket.tryConsume(10, 3);
  expect([consume(), consume(), consume(), consume()]).toEqual([true, true, true, false]);
  now = 100;
  expect([consume(), consume()]).toEqual([true, false]);
  now = 10_000;
  expect([consume(), consume(), consume(), consume()]).toEqual([true, true, true, false]);
});

test('work that cost more than the bucket held is paid back before the next', () => {
  let now = 0;
  const bucket = new TokenBucket(() => now);
  const rate = { perSecond: 100, burst: 1_000 };
  expect(bucket.level(rate)).toBe(1_000);
  bucket.spend(1_500);
  expect(bucket.level(rate)).toBe(-500);
  now = 5_000;
  expect(bucket.level(rate)).toBe(0);
  now = 60_000;
  expect(bucket.level(rate)).toBe(1_000);
});

test('a new key beyond the bound resets the bucket that is not in use, and no other', () => {
  const buckets = new TokenBuckets(2);
  const used = buckets.get('used');
  buckets.get('idle');
  expect(buckets.get('used')).toBe(used);
  buckets.get('new');
  expect(buckets.get('used')).toBe(used);
});
