import { appendFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';

/** What one run adds to the file of SVC_TEST_TALLY, as a line of JSON. */
export type Tally = {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** One line for each failure: its place, and the first line of its error. */
  readonly failures: readonly string[];
};

/**
 * Prints the plain closing line that CI reads: `N passed, N failed[, N skipped]`. One run of several adds its counts
 * to the file of SVC_TEST_TALLY; the last run prints the sum, and what has failed.
 */
export default class ClosingLineReporter implements Reporter {
  onTestRunEnd(modules: ReadonlyArray<TestModule>, unhandledErrors: ReadonlyArray<unknown>): void {
    const count = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    const failures = unhandledErrors.map((error) => `not handled: ${firstLine(error)}`);
    for (const module of modules) {
      // A module that failed to load has no tests to count, yet it is a failure.
      if (module.errors().length > 0) count.failed += 1;
      failures.push(...module.errors().map((error) => `${module.relativeModuleId}: ${firstLine(error)}`));
      for (const test of module.children.allTests()) {
        const { state, errors } = test.result();
        if (state === 'passed') count.passed += 1;
        else if (state === 'failed') count.failed += 1;
        else count.skipped += 1;
        if (state === 'failed') {
          failures.push(`${module.relativeModuleId} > ${test.fullName}: ${firstLine(errors[0])}`);
        }
      }
    }
    const tally = process.env['SVC_TEST_TALLY'];
    if (tally) {
      appendFileSync(tally, `${JSON.stringify({ ...count, failures } satisfies Tally)}\n`);
      return;
    }
    const skipped = count.skipped > 0 ? `, ${count.skipped} skipped` : '';
    process.stdout.write(`\n${count.passed} passed, ${count.failed} failed${skipped}\n`);
  }
}

const LONGEST = 200;

function firstLine(error: unknown): string {
  const { message } = (error ?? {}) as { readonly message?: unknown };
  const text = typeof message === 'string' ? message : 'an error without a message';
  return (text.split('\n')[0] ?? '').slice(0, LONGEST);
}
