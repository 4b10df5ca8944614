import { expect, test } from 'vitest';
import { Admission, type Places } from './admission.ts';

const places = (some: Partial<Places>): Places => ({
  waiting: 100,
  own: 0,
  before: () => 100,
  running: 10,
  patienceMs: 10_000,
  ...some,
});

test('a full queue, or half of it for one caller, is refused', () => {
  const admission = new Admission(200);
  expect(admission.refusal(places({ waiting: 199 }), 0)).toBeUndefined();
  expect(admission.refusal(places({ waiting: 200 }), 0)).toMatchObject({
    code: 'overloaded',
    status: 503,
    headers: { 'retry-after': '1' },
  });
  expect(admission.refusal(places({ own: 100 }), 0)).toMatchObject({ code: 'overloaded' });
});

test('a burst is not judged by the moment before anything could end', () => {
  const admission = new Admission(10_000);
  admission.queued(0);
  expect(admission.refusal(places({ waiting: 5_000 }), 500)).toBeUndefined();
  // Ten statements that began together are still running.
  expect(admission.refusal(places({ waiting: 90, before: () => 90 }), 1_000)).toBeUndefined();
});

test('who would time out in the queue is refused when it comes, and told when to come again', () => {
  const admission = new Admission(10_000);
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

test('a queue that had emptied begins anew', () => {
  const admission = new Admission(10_000);
  admission.queued(0);
  admission.queued(60_000);
  expect(admission.refusal(places({ waiting: 5_000 }), 60_500)).toBeUndefined();
});
