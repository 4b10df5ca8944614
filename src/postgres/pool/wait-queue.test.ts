// Tests the order of turns with minimal waiting entries.
import { beforeEach, describe, expect, test } from 'vitest';
import { isBefore, WaitQueue, type Waiting } from './wait-queue.ts';

let queue: WaitQueue;
let clock = 0;
beforeEach(() => {
  queue = new WaitQueue();
});

const refused: string[] = [];
function wait(user: string, into: WaitQueue = queue): Waiting {
  const waiting: Waiting = {
    job: undefined,
    sharer: { role: 'authenticated', user: { sub: user } },
    cancellable: undefined,
    until: ++clock,
    grant: () => {},
    refuse: () => refused.push(user),
  };
  into.push(waiting);
  return waiting;
}

function served(from: WaitQueue = queue): string[] {
  const order: string[] = [];
  for (let next = from.shift(); next; next = from.shift()) order.push(next.sharer?.user?.sub ?? '');
  return order;
}

test('one caller with hundreds of requests holds another up by one', () => {
  for (let n = 0; n < 500; n++) wait('many');
  wait('one');
  expect(served().slice(0, 3)).toEqual(['many', 'one', 'many']);
});

test('callers take turns, whenever they came', () => {
  for (const user of ['a', 'a', 'a', 'b', 'b', 'c']) wait(user);
  expect(served()).toEqual(['a', 'b', 'c', 'a', 'b', 'a']);
});

test('who comes again right after its turn comes after the others', () => {
  for (let n = 0; n < 4; n++) wait('many');
  wait('quick');
  const order: string[] = [];
  for (let n = 0; n < 6; n++) {
    const user = queue.shift()?.sharer?.user?.sub ?? '';
    order.push(user);
    if (user === 'quick') wait('quick');
  }
  expect(order).toEqual(['many', 'quick', 'many', 'quick', 'many', 'quick']);
});

test('within a caller the order is that of arrival', () => {
  const all = [wait('a'), wait('a'), wait('a')];
  expect([queue.shift(), queue.shift(), queue.shift()]).toEqual(all);
});

test('what has had its turn comes before everybody', () => {
  wait('a');
  wait('b');
  const [again] = [queue.shift(), queue.shift()];
  wait('b');
  queue.pushFront(again as Waiting);
  expect(served()).toEqual(['a', 'b']);
});

test('between two queues: the turn decides; of one caller, what came first', () => {
  const second = new WaitQueue();
  for (let n = 0; n < 3; n++) wait('many', second);
  second.shift();
  const read = wait('one');
  expect(isBefore(second.first(), read)).toBe(true);
  second.shift();
  expect(isBefore(second.first(), read)).toBe(false);
  const own = wait('many');
  expect(isBefore(own, second.first() as Waiting)).toBe(false);
});

describe('places', () => {
  test('a caller that leaves frees its place at once', () => {
    const all = Array.from({ length: 3 }, () => wait('a'));
    wait('b');
    for (const waiting of all) queue.remove(waiting);
    expect([queue.length, queue.heldBy('user a'), queue.heldBy('user b')]).toEqual([1, 0, 1]);
    expect(queue.first()?.sharer?.user?.sub).toBe('b');
  });

  test('before a newcomer there is one of each caller', () => {
    for (const user of ['a', 'a', 'a', 'b']) wait(user);
    expect([queue.before('user new'), queue.before('user a')]).toEqual([2, 4]);
  });

  test('a wait times out when its time is over, at any position', () => {
    refused.length = 0;
    wait('a');
    const b = wait('b');
    wait('a');
    expect(queue.timesOutAt).toBe(clock - 2);
    queue.refuseUntil(b.until, () => new Error('late'));
    expect(refused).toEqual(['a', 'b']);
    expect(served()).toEqual(['a']);
  });
});

test('a caller that waits for its share is passed over and keeps its turn', () => {
  for (const user of ['a', 'a', 'b', 'c']) wait(user);
  const withoutA = (key: string): boolean => key !== 'user a';
  expect(queue.shift(withoutA)?.sharer?.user?.sub).toBe('b');
  expect(queue.shift(withoutA)?.sharer?.user?.sub).toBe('c');
  expect(queue.first(withoutA)).toBeUndefined();
  wait('b');
  expect(served()).toEqual(['a', 'b', 'a']);
});
