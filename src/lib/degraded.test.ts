import { expect, test } from 'vitest';
import { Degraded } from './degraded.ts';

test('reasons last as long as their cause', () => {
  const degraded = new Degraded();
  let isLocked = false;
  const stop = degraded.watch('locked', () => (isLocked ? 'a lock is held' : undefined));
  expect(degraded.reasons).toEqual([]);
  isLocked = true;
  degraded.report('old', 'the catalog is old');
  degraded.report('old', 'the catalog is older');
  expect(degraded.reasons).toEqual([
    { code: 'locked', reason: 'a lock is held' },
    { code: 'old', reason: 'the catalog is older' },
  ]);
  stop();
  degraded.clear('old');
  expect(degraded.reasons).toEqual([]);
});

test('one who watches under a code that another has taken over removes nothing', () => {
  const degraded = new Degraded();
  const stop = degraded.watch('a', () => 'first');
  degraded.watch('a', () => 'second');
  stop();
  expect(degraded.reasons).toEqual([{ code: 'a', reason: 'second' }]);
});
