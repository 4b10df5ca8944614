import { appendFileSync } from 'node:fs';
import { stripVTControlCharacters } from 'node:util';
import type { Reporter, TestModule } from 'vitest/node';

/** What one run adds to the file of SVC_TEST_TALLY, as a line of JSON. */
export type Tally = {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** One line for each failure: its test, the first line of its error, and where in the file it came from. */
  readonly failures: readonly string[];
};

/**
 * Prints the plain closing line that CI reads: `N passed, N failed[, N skipped]`. One run of several adds its counts
 * to the file of SVC_TEST_TALLY; the last run prints the sum, and what has failed.
 */
export default class ClosingLineReporter implements Reporter {
  onTestRunEnd(modules: ReadonlyArray<TestModule>, unhandledErrors: ReadonlyArray<unknown>): void {
    const count = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    const failures = unhandledErrors.map((error) => `not handled: ${summary(error)}`);
    for (const module of modules) {
      // A module that failed to load has no tests to count, yet it is a failure.
      if (module.errors().length > 0) count.failed += 1;
      failures.push(...module.errors().map((error) => `${module.relativeModuleId}: ${summary(error)}`));
      for (const test of module.children.allTests()) {
        const { state, errors } = test.result();
        if (state === 'passed') count.passed += 1;
        else if (state === 'failed') count.failed += 1;
        else count.skipped += 1;
        if (state === 'failed') {
          failures.push(`${module.relativeModuleId} > ${test.fullName}: ${summary(errors[0])}`);
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

function summary(error: unknown): string {
  const { message, stack } = (error ?? {}) as { readonly message?: unknown; readonly stack?: unknown };
  const [first = '', ...rest] = (typeof message === 'string' ? message : 'an error without a message').split(
    '\n',
  );
  // What a browser test waited for stands below the first line.
  const awaited = rest
    .map((line) => stripVTControlCharacters(line).trim())
    .find((line) => line.startsWith('- waiting for'));
  const place = typeof stack === 'string' ? /[\w.-]+\.test\.ts:\d+/.exec(stack)?.[0] : undefined;
  return [first.slice(0, LONGEST), awaited?.slice(2, LONGEST), place && `(${place})`]
    .filter(Boolean)
    .join(' ');
}
