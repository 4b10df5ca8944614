import { relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import type { Reporter, TestCase, TestModule, TestSuite, Vitest } from 'vitest/node';
import {
  closingLine,
  failureLine,
  slowestLines,
  writeReport,
  type Failure,
  type FileTimes,
} from './report.ts';

/**
 * Writes the JSON report of a run, and prints every failure, the slowest files and the closing line.
 * Counts failures that Vitest does not attribute to a test: modules that do not load, hooks of suites, errors
 * outside of tests, tests that a crashed worker never finished, and runs without tests.
 */
export default class RunReporter implements Reporter {
  #root = process.cwd();
  #startedAt = performance.now();

  onInit(vitest: Vitest): void {
    this.#root = vitest.config.root;
  }

  onTestRunStart(): void {
    this.#startedAt = performance.now();
  }

  onTestRunEnd(modules: ReadonlyArray<TestModule>, unhandledErrors: ReadonlyArray<unknown>): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const failures: Failure[] = [
      ...unhandledErrors.map((error) => unhandledFailure(error)),
      ...modules.flatMap((module) => this.#failuresIn(module)),
    ];
    if (modules.length === 0 || (tests.length === 0 && failures.length === 0)) {
      failures.push({ project: 'vitest', file: undefined, name: 'run', message: 'no tests found' });
    }
    const report = {
      passed: tests.filter((test) => test.result().state === 'passed').length,
      failed: failures.length,
      skipped: tests.filter((test) => test.result().state === 'skipped').length,
      ms: Math.round(performance.now() - this.#startedAt),
      failures,
      files: modules.map((module) => this.#times(module)),
    };
    writeReport(report);
    if (failures.length > 0) process.exitCode = 1;
    // A run that is a part of a larger one is summed up by its parent.
    if (process.env['SVC_TEST_REPORT'] !== undefined) return;
    const lines = [
      '',
      'slowest files:',
      ...slowestLines(report.files),
      '',
      ...failures.map((failure) => `FAILED ${failureLine(failure)}`),
      '',
      closingLine(report),
    ];
    process.stdout.write(`${lines.join('\n')}\n`);
  }

  #path(module: TestModule): string {
    return relative(this.#root, module.moduleId);
  }

  #failuresIn(module: TestModule): Failure[] {
    const project = module.project.name;
    const file = this.#path(module);
    const failure = (name: string, error: unknown): Failure => ({
      project,
      file,
      name,
      message: firstLine(error),
    });
    const suites = [...module.children.allSuites()];
    const tests = [...module.children.allTests()];
    const failures = [
      ...module.errors().map((error) => failure('(file)', error)),
      ...suites.flatMap((suite) =>
        suite.errors().map((error) => failure(`${suite.fullName} > (hook)`, error)),
      ),
      ...tests.flatMap((test) => testFailure(test, failure)),
    ];
    if (failures.length === 0 && hasFailedSilently(module, suites)) {
      failures.push(failure('(file)', new Error(`ended in state "${module.state()}" without an error`)));
    }
    return failures;
  }

  #times(module: TestModule): FileTimes {
    const { collectDuration, setupDuration, duration } = module.diagnostic();
    const tests = [...module.children.allTests()].map((test) => ({
      name: test.fullName,
      ms: Math.round(test.diagnostic()?.duration ?? 0),
    }));
    return {
      project: module.project.name,
      file: this.#path(module),
      ms: Math.round(collectDuration + setupDuration + duration),
      tests,
    };
  }
}

function testFailure(test: TestCase, failure: (name: string, error: unknown) => Failure): Failure[] {
  const { state, errors } = test.result();
  if (state === 'failed') return [failure(test.fullName, errors[0])];
  if (state === 'pending') return [failure(test.fullName, new Error('did not finish: its worker ended'))];
  return [];
}

function hasFailedSilently(module: TestModule, suites: readonly TestSuite[]): boolean {
  const state = module.state();
  return !['passed', 'skipped'].includes(state) || suites.some((suite) => suite.state() === 'failed');
}

function unhandledFailure(error: unknown): Failure {
  const { VITEST_TEST_PATH: path, type } = (error ?? {}) as {
    readonly VITEST_TEST_PATH?: string;
    readonly type?: string;
  };
  return {
    project: 'vitest',
    file: path === undefined ? undefined : relative(process.cwd(), path),
    name: type ?? 'unhandled error',
    message: firstLine(error),
  };
}

const MAX_MESSAGE_LENGTH = 200;

/** First line of an error, the condition that a browser test was waiting for, and the position in a test file. */
function firstLine(error: unknown): string {
  const { message, stack } = (error ?? {}) as { readonly message?: unknown; readonly stack?: unknown };
  const text = stripVTControlCharacters(typeof message === 'string' ? message : 'an error without a message');
  const [first = '', ...rest] = text.split('\n');
  const awaited = rest.map((line) => line.trim()).find((line) => line.startsWith('- waiting for'));
  const place = typeof stack === 'string' ? /[\w.-]+\.test\.ts:\d+/.exec(stack)?.[0] : undefined;
  return [first, awaited?.slice(2), place && `(${place})`]
    .flatMap((part) => (part ? [part.slice(0, MAX_MESSAGE_LENGTH)] : []))
    .join(' ');
}
