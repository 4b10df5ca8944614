import { beforeEach, describe, expect, test } from 'vitest';
import { Job, type JobOptions } from './job.ts';
import { LatencyEstimate } from './latency-estimate.ts';
import { SingleFlight } from './single-flight.ts';

const ROLE = { text: 'select set_config', values: ['anon'], name: 's_settings' };
const read = (values: readonly string[], name = 's_todos') => ({ text: 'select', values, name });

type Answer = { readonly error: Error | undefined };

function job(options: Partial<JobOptions> = {}): { readonly job: Job; readonly answers: Answer[] } {
  const answers: Answer[] = [];
  const job = new Job({
    statements: [ROLE, read(['1'])],
    isRead: true,
    isPipelinable: true,
    isRepeatable: true,
    latency: new LatencyEstimate(),
    cancellable: undefined,
    settle: (error) => answers.push({ error }),
    ...options,
  });
  return { job, answers };
}

let flight: SingleFlight;
beforeEach(() => {
  flight = new SingleFlight();
});

test('an identical read is answered by the one that waits', () => {
  const first = job();
  const second = job();
  expect(flight.share(first.job, 10)).toBe(false);
  expect(flight.share(second.job, 20)).toBe(true);
  first.job.settle(undefined, []);
  expect([first.answers.length, second.answers.length]).toEqual([1, 1]);
});

describe('not shared', () => {
  const cases: ReadonlyArray<readonly [string, Partial<JobOptions>]> = [
    ['another value', { statements: [ROLE, read(['2'])] }],
    ['another statement', { statements: [ROLE, read(['1'], 's_others')] }],
    ['another caller', { statements: [{ ...ROLE, values: ['authenticated'] }, read(['1'])] }],
    ['more statements', { statements: [ROLE, read(['1']), read(['1'])] }],
    ['a statement without a name', { statements: [ROLE, { text: 'select', values: ['1'] }] }],
    ['a read that may answer differently each time', { isRepeatable: false }],
  ];
  test.each(cases)('%s', (_, options) => {
    flight.share(job().job, 10);
    expect(flight.share(job(options).job, 20)).toBe(false);
  });

  test('one that has been started: its snapshot may be older than the question', () => {
    const first = job();
    flight.share(first.job, 10);
    flight.remove(first.job);
    first.job.started({ cancel: () => {} });
    expect(flight.share(job().job, 20)).toBe(false);
  });

  test('a job whose callers have all left', () => {
    const cancellable: { cancel: (() => void) | undefined } = { cancel: undefined };
    flight.share(job({ cancellable }).job, 10);
    cancellable.cancel?.();
    expect(flight.share(job().job, 20)).toBe(false);
  });

  test('one that times out more than a second earlier', () => {
    flight.share(job().job, 10);
    expect(flight.share(job().job, 1_011)).toBe(false);
  });
});

test('a caller that leaves does not take the others along', () => {
  const cancellable: { cancel: (() => void) | undefined } = { cancel: undefined };
  const first = job({ cancellable });
  const second = job();
  flight.share(first.job, 10);
  flight.share(second.job, 20);
  cancellable.cancel?.();
  expect(first.answers).toHaveLength(1);
  expect(second.answers).toHaveLength(0);
  first.job.settle(undefined, []);
  expect(second.answers).toEqual([{ error: undefined }]);
});

test('removing one leaves the other that took its slot', () => {
  const first = job();
  flight.share(first.job, 10);
  const later = job();
  flight.share(later.job, 2_000);
  flight.remove(first.job);
  expect(flight.share(job().job, 2_100)).toBe(true);
});
