// The report of one test run as JSON: counts, every failure by name, and the duration of each file and test.
// The reporter of this folder and the cluster rig write it, and scripts/test/ merges it.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

export type Failure = {
  /** Vitest project, or the name of the program that is not Vitest. */
  readonly project: string;
  /** Path from the root of the repository. Undefined if the error belongs to no file. */
  readonly file: string | undefined;
  /** Full name of the test, hook, or kind of error. */
  readonly name: string;
  /** First line of the error, with file and line where they are known. */
  readonly message: string;
};

export type FileTimes = {
  readonly project: string;
  readonly file: string;
  /** Milliseconds for imports, hooks and tests. */
  readonly ms: number;
  readonly tests: ReadonlyArray<{ readonly name: string; readonly ms: number }>;
};

export type RunReport = {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** Wall-clock duration of the run in milliseconds. */
  readonly ms: number;
  readonly failures: readonly Failure[];
  readonly files: readonly FileTimes[];
};

/** Path of the report, from the root of the repository, when `SVC_TEST_REPORT` does not name another one. */
export const REPORT_FILE = join('.vitest', 'report.json');

export function writeReport(report: RunReport): void {
  const path = process.env['SVC_TEST_REPORT'] ?? REPORT_FILE;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, JSON.stringify(report));
}

/** Returns undefined if the run ended before it wrote a report. */
export function readReport(path: string): RunReport | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as RunReport;
  } catch {
    return undefined;
  }
}

/** Formats one line per failure: project, file, name and message. */
export function failureLine({ project, file, name, message }: Failure): string {
  return `[${project}] ${[file, name].filter(Boolean).join(' > ')}: ${message}`;
}

/** The plain line that CI reads. */
export function closingLine(counts: Pick<RunReport, 'passed' | 'failed' | 'skipped'>): string {
  const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : '';
  return `${counts.passed} passed, ${counts.failed} failed${skipped}`;
}

const SLOWEST = 20;

/** The slowest files, one line each, slowest first. */
export function slowestLines(files: readonly FileTimes[]): string[] {
  return files
    .toSorted((a, b) => b.ms - a.ms)
    .slice(0, SLOWEST)
    .map(({ project, file, ms }) => `${(ms / 1000).toFixed(1).padStart(7)} s  [${project}] ${file}`);
}
