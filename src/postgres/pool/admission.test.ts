import { expect, test } from 'vitest';
import { WaitEstimate, type QueueState } from './admission.ts';

const places = (changes: Partial<QueueState>): QueueState => ({
  waiting: 100,
  own: 0,
  before: () => 100,
  running: 10,
  patienceMs: 10_000,
  ...changes,
});

test('a full queue, or half of it for one caller, is refused', () => {
  const admission = new WaitEstimate(200);
  expect(admission.refusal(places({ waiting: 199 }), 0)).toBeUndefined();
  expect(admission.refusal(places({ waiting: 200 }), 0)).toMatchObject({
    code: 'overloaded',
    status: 503,
    headers: { 'retry-after': '1' },
  });
  expect(admission.refusal(places({ own: 100 }), 0)).toMatchObject({ code: 'overloaded' });
});

test('a quarter of the queue is for callers without a place', () => {
  const admission = new WaitEstimate(200);
  expect(admission.refusal(places({ waiting: 149, own: 1 }), 0)).toBeUndefined();
  expect(admission.refusal(places({ waiting: 150, own: 1 }), 0)).toMatchObject({ code: 'overloaded' });
  expect(admission.refusal(places({ waiting: 150, own: 0 }), 0)).toBeUndefined();
});

test('a burst is not judged by the moment before anything could end', () => {
  const admission = new WaitEstimate(10_000);
  admission.queued(0);
  expect(admission.refusal(places({ waiting: 5_000 }), 500)).toBeUndefined();
  // Ten statements that began together are still running.
  expect(admission.refusal(places({ waiting: 90, before: () => 90 }), 1_000)).toBeUndefined();
});

test('a request that would time out in the queue is rejected at once with a retry time', () => {
  const admission = new WaitEstimate(10_000);
  admission.queued(0);
  for (let n = 0; n < 10; n++) admission.ended();
  // Ten have ended and ten run: ten a second.
  expect(admission.refusal(places({ waiting: 300, before: () => 300 }), 2_000)).toMatchObject({
    headers: { 'retry-after': '30' },
  });
  expect(admission.refusal(places({ waiting: 300, before: () => 150 }), 2_000)).toMatchObject({
    headers: { 'retry-after': '15' },
  });
  // Its turn comes soon, however many others wait.
  expect(admission.refusal(places({ waiting: 300, before: () => 3 }), 2_000)).toBeUndefined();
  // Its own deadline is sooner.
  expect(admission.refusal(places({ before: () => 30, patienceMs: 2_000 }), 2_000)).toBeDefined();
});

test('a queue that was empty restarts the estimate', () => {
  const admission = new WaitEstimate(10_000);
  admission.queued(0);
  admission.queued(60_000);
  expect(admission.refusal(places({ waiting: 5_000 }), 60_500)).toBeUndefined();
});
