import { afterEach, beforeEach, describe, expect, it, test, vi } from 'vitest';
import { canTake, FairShare, defaultReserve, type FairShareOptions, type Release } from './fair-share.ts';

test.each([
  [0, 0],
  [1, 0],
  [2, 1],
  [3, 1],
  [4, 2],
  [5, 2],
  [8, 2],
  [10, 3],
  [20, 5],
  [100, 25],
  [Number.POSITIVE_INFINITY, 0],
])('of %s units, %s are kept for callers without a unit', (total, reserve) => {
  expect(defaultReserve(total)).toBe(reserve);
});

test('a caller that holds units can take more only above the reserve', () => {
  expect(canTake({ free: 6, reserve: 5, held: 14 })).toBe(true);
  expect(canTake({ free: 5, reserve: 5, held: 15 })).toBe(false);
  expect(canTake({ free: 5, reserve: 5, held: 0 })).toBe(true);
  expect(canTake({ free: 0, reserve: 5, held: 0 })).toBe(false);
});

const full = (): Error => new Error('full');

function newShare(options: Partial<FairShareOptions> = {}): FairShare {
  return new FairShare({ total: () => 8, refusal: full, ...options });
}

/** Takes units until there is no room. */
function acquireAll(share: FairShare, key: string): Release[] {
  const taken: Release[] = [];
  for (let next = share.tryTake(key); next; next = share.tryTake(key)) taken.push(next);
  return taken;
}

describe('without a queue', () => {
  it('gives one key at most three quarters, and the rest to other keys', () => {
    const share = newShare();
    expect(acquireAll(share, 'a')).toHaveLength(6);
    expect(acquireAll(share, 'b')).toHaveLength(1);
    expect(acquireAll(share, 'c')).toHaveLength(1);
    expect(acquireAll(share, 'd')).toHaveLength(0);
    expect(share.used).toBe(8);
  });

  it('gives two busy keys what is above the reserve', () => {
    const share = newShare();
    const [first] = [...acquireAll(share, 'a'), ...acquireAll(share, 'b')];
    first?.();
    // One unit is free. It belongs to the reserve again.
    expect(share.hasRoom('a')).toBe(false);
    expect(share.hasRoom('b')).toBe(false);
    expect(share.hasRoom('c')).toBe(true);
  });

  it('limits a key to its own maximum', () => {
    const share = newShare({ maxPerKey: () => 2 });
    expect(acquireAll(share, 'a')).toHaveLength(2);
    expect(acquireAll(share, 'b')).toHaveLength(2);
  });

  it('counts bytes', () => {
    const share = newShare({ total: () => 1000 });
    expect(share.tryTake('a', 751)).toBeDefined();
    expect(share.tryTake('a', 1)).toBeUndefined();
    expect(share.tryTake('b', 249)).toBeDefined();
    expect(share.tryTake('c', 1)).toBeUndefined();
  });

  it('releases units once', () => {
    const share = newShare();
    const release = share.tryTake('a', 3);
    release?.();
    release?.();
    expect(share.used).toBe(0);
    expect(share.heldBy('a')).toBe(0);
  });

  it('rejects `acquire` at once when there is no room', async () => {
    const share = newShare();
    acquireAll(share, 'a');
    await expect(share.acquire('a')).rejects.toThrow('full');
    await expect(share.acquire('b')).resolves.toBeTypeOf('function');
  });

  it('follows a total that changes', () => {
    let total = 4;
    const share = newShare({ total: () => total });
    expect(acquireAll(share, 'a')).toHaveLength(2);
    total = 8;
    expect(acquireAll(share, 'a')).toHaveLength(4);
  });
});

describe('with a queue', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const queued = { total: () => 4, maxWaitMs: 1_000 };

  /** Records the order in which waiting callers are served. */
  function wait(share: FairShare, key: string, served: string[]): Promise<Release> {
    const release = share.acquire(key);
    void release.then(
      () => served.push(key),
      () => served.push(`${key} refused`),
    );
    return release;
  }

  const settle = async (): Promise<unknown> => await vi.advanceTimersByTimeAsync(0);

  it('serves keys in turns, whatever one key has queued', async () => {
    const share = newShare({ ...queued, reserve: () => 0 });
    const running = acquireAll(share, 'a');
    const served: string[] = [];
    for (const key of ['a', 'a', 'a', 'b', 'b', 'c']) void wait(share, key, served);
    expect(share.waiting).toBe(6);
    for (const release of running) release();
    await settle();
    expect(served).toEqual(['a', 'b', 'c', 'a']);
  });

  it('serves a key without a unit before a key that waits for more', async () => {
    const share = newShare(queued);
    const [first] = acquireAll(share, 'a');
    const served: string[] = [];
    void wait(share, 'a', served);
    void wait(share, 'b', served);
    await settle();
    expect(served).toEqual(['b']);
    first?.();
    await settle();
    // `b` has a unit of the reserve, so the released unit refills the reserve.
    expect(served).toEqual(['b']);
  });

  it('rejects a caller after the maximum wait', async () => {
    const share = newShare(queued);
    acquireAll(share, 'a');
    const served: string[] = [];
    const late = wait(share, 'a', served);
    const rejected = expect(late).rejects.toThrow('full');
    await vi.advanceTimersByTimeAsync(999);
    expect(served).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    await rejected;
    expect(share.waiting).toBe(0);
  });

  it('rejects a caller that has too many waiting requests', async () => {
    const share = newShare({ ...queued, maxWaitingPerKey: 1 });
    acquireAll(share, 'a');
    void share.acquire('a').catch(() => {});
    await expect(share.acquire('a')).rejects.toThrow('full');
  });

  it('removes a caller that leaves', async () => {
    const share = newShare(queued);
    const [first] = acquireAll(share, 'a');
    const leaving = new AbortController();
    const left = expect(share.acquire('a', { signal: leaving.signal })).rejects.toThrow('full');
    leaving.abort();
    await left;
    expect(share.waiting).toBe(0);
    first?.();
    expect(share.used).toBe(1);
  });
});
