import { expect, test } from 'vitest';
import * as problems from './problem.ts';

test.each([
  [problems.functionNotFound('f'), 404, 'function_not_found', false],
  [problems.signInRequired(), 401, 'unauthorized', false],
  [problems.functionFailed('bad-json', 'x', undefined), 400, 'invalid_json', false],
  [problems.bodyTooSlow(), 408, 'body_timeout', false],
  [problems.functionFailed('threw', 'x', undefined), 500, 'function_error', false],
  [problems.functionFailed('load', 'x', undefined), 500, 'function_load_error', false],
  [problems.functionFailed('bad-answer', 'x', undefined), 500, 'function_bad_response', false],
  [problems.workerDied(), 502, 'worker_died', true],
  [problems.noWorker(), 502, 'no_worker', true],
  [problems.saturated(), 503, 'saturated', true],
  [problems.draining(), 503, 'draining', true],
  [problems.timedOut(1500), 504, 'function_timeout', false],
])('%s', (problem, status, code, relayed) => {
  expect([problem.status, problem.code]).toEqual([status, code]);
  expect(problem.headers['x-relay-error']).toBe(relayed ? 'true' : undefined);
  const wire = problems.toWire(problem);
  expect(wire).toMatchObject({ code, message: problem.message });
  expect(Object.keys(wire).every((key) => ['code', 'message', 'hint'].includes(key))).toBe(true);
});
