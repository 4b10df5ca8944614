import { expect, test } from 'vitest';
import { RequestScope } from '../../http/request-scope.ts';
import { InFlight } from './in-flight.ts';

const ids = (inFlight: InFlight): string[] => [...inFlight].map((scope) => scope.id).toSorted();

test('what ends is gone, in whichever order, and ending twice takes nobody else along', () => {
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

test('a request that was never in it takes nobody out', () => {
  const inFlight = new InFlight();
  inFlight.add(new RequestScope('a'));
  inFlight.delete(new RequestScope('b'));
  expect(ids(inFlight)).toEqual(['a']);
});

test('all can be taken out while they are gone through', () => {
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
