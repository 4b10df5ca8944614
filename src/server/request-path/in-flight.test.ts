import { expect, test } from 'vitest';
import { RequestScope } from '../../http/request-scope.ts';
import { InFlight } from './in-flight.ts';

const ids = (inFlight: InFlight): string[] => [...inFlight].map((scope) => scope.id).toSorted();

test('requests can be deleted in any order, and a second delete has no effect', () => {
  const inFlight = new InFlight();
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((id) => new RequestScope(id)) as [
    RequestScope,
    RequestScope,
    RequestScope,
    RequestScope,
  ];
  for (const scope of [a, b, c]) inFlight.add(scope);
  inFlight.delete(a);
  inFlight.delete(a);
  expect(ids(inFlight)).toEqual(['b', 'c']);
  inFlight.add(d);
  inFlight.delete(c);
  expect(ids(inFlight)).toEqual(['b', 'd']);
  inFlight.delete(d);
  inFlight.delete(b);
  inFlight.delete(b);
  expect(inFlight.size).toBe(0);
});

test('deleting a request that was never added has no effect', () => {
  const inFlight = new InFlight();
  inFlight.add(new RequestScope('a'));
  inFlight.delete(new RequestScope('b'));
  expect(ids(inFlight)).toEqual(['a']);
});

test('the last quarter of the limit is for networks without a request', () => {
  const inFlight = new InFlight();
  const fits = (address: string, max = 8): boolean => {
    const scope = new RequestScope('x', address);
    inFlight.add(scope);
    const hasRoom = inFlight.hasRoomFor(scope, max);
    if (!hasRoom) inFlight.delete(scope);
    return hasRoom;
  };
  const greedy = Array.from({ length: 10 }, () => fits('192.0.2.1'));
  expect(greedy).toEqual([...Array(6).fill(true), ...Array(4).fill(false)]);
  expect([fits('2001:db8::1'), fits('2001:db8::2')]).toEqual([true, false]);
  expect([fits('198.51.100.7'), fits('198.51.100.8')]).toEqual([true, false]);
  expect(fits('192.0.2.1', Number.POSITIVE_INFINITY)).toBe(true);
});

test('all requests can be deleted during the iteration', () => {
  const inFlight = new InFlight();
  for (const id of ['a', 'b', 'c']) inFlight.add(new RequestScope(id));
  const seen: string[] = [];
  for (const scope of inFlight) {
    seen.push(scope.id);
    inFlight.delete(scope);
  }
  expect(seen).toEqual(['c', 'b', 'a']);
  expect(inFlight.size).toBe(0);
});
