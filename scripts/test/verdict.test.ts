import { expect, test } from 'vitest';
import type { Failure, RunReport } from '../../test/support/run/report.ts';
import { judge } from './verdict.ts';

const failure = (name: string): Failure => ({
  project: 'postgres',
  file: 'test/a.pg.test.ts',
  name,
  message: 'expected 1 to be 2 (a.pg.test.ts:3)',
});

const part = (...failures: Failure[]): { name: string; report: RunReport } => ({
  name: 'tests',
  report: { passed: 10, failed: failures.length, skipped: 2, ms: 90_000, failures, files: [] },
});

test('a run without failures is green and ends with its counts', () => {
  const verdict = judge([part(), part()], () => undefined);
  expect(verdict.isGreen).toBe(true);
  expect(verdict.lines.at(-1)).toBe('20 passed, 0 failed, 4 skipped');
});

test('a test that fails again is a failure with its name', () => {
  const verdict = judge([part(failure('adds'))], () => [failure('adds')]);
  expect(verdict.isGreen).toBe(false);
  expect(verdict.lines).toContain(
    'FAILED [postgres] test/a.pg.test.ts > adds: expected 1 to be 2 (a.pg.test.ts:3)',
  );
  expect(verdict.lines.at(-1)).toBe('10 passed, 1 failed, 2 skipped');
});

test('a test that passes alone is flaky: the run is green and the test is named', () => {
  const verdict = judge([part(failure('adds'))], () => []);
  expect(verdict.isGreen).toBe(true);
  expect(verdict.lines).toContain(
    'FLAKY [postgres] test/a.pg.test.ts > adds: expected 1 to be 2 (a.pg.test.ts:3)',
  );
  expect(verdict.lines.at(-1)).toBe('11 passed, 0 failed, 2 skipped');
});

test('four flaky tests fail the run', () => {
  const verdict = judge([part(...['a', 'b', 'c', 'd'].map((name) => failure(name)))], () => []);
  expect(verdict.isGreen).toBe(false);
  expect(verdict.lines.at(-1)).toBe('10 passed, 4 failed, 2 skipped');
});

test.each([
  ['the second run of its file did not load', [failure('(file)')]],
  ['the second run ended before its report', [{ ...failure('run'), file: undefined }]],
  ['it was not run again', undefined],
])('a failure stays one if %s', (_, again) => {
  expect(judge([part(failure('adds'))], () => again).isGreen).toBe(false);
});
