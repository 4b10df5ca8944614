// Evaluates a run: failures, flaky tests, and its duration.
import {
  closingLine,
  failureLine,
  slowestLines,
  type Failure,
  type RunReport,
} from '../../test/support/run/report.ts';

/** More flaky tests than this fail the run. */
export const MAX_FLAKY = 3;

export type Part = {
  readonly name: string;
  readonly report: RunReport;
};

export type Verdict = {
  readonly isGreen: boolean;
  readonly failures: readonly Failure[];
  /** Failed once and passed alone, or vice versa. */
  readonly flaky: readonly Failure[];
  /** The last lines of the run. */
  readonly lines: readonly string[];
};

/**
 * `reruns`: failures of the second, separate run of each file that failed; undefined for a file that was not run again.
 */
export function judge(
  parts: readonly Part[],
  rerun: (failure: Failure) => readonly Failure[] | undefined,
): Verdict {
  const failures: Failure[] = [];
  const flaky: Failure[] = [];
  for (const failure of parts.flatMap(({ report }) => report.failures)) {
    const again = rerun(failure);
    const isConstant =
      again === undefined || again.some((repeated) => isSame(failure, repeated) || isOfWholeFile(repeated));
    (isConstant ? failures : flaky).push(failure);
  }
  const sum = (count: 'passed' | 'skipped'): number =>
    parts.reduce((total, { report }) => total + report[count], 0);
  const isGreen = failures.length === 0 && flaky.length <= MAX_FLAKY;
  const counts = {
    passed: sum('passed') + (isGreen ? flaky.length : 0),
    failed: failures.length + (isGreen ? 0 : flaky.length),
    skipped: sum('skipped'),
  };
  const files = parts.flatMap(({ report }) => report.files);
  const lines = [
    'slowest files:',
    ...slowestLines(files),
    '',
    ...failures.map((failure) => `FAILED ${failureLine(failure)}`),
    ...flaky.map((failure) => `FLAKY ${failureLine(failure)}`),
    ...(flaky.length > MAX_FLAKY ? [`more than ${MAX_FLAKY} flaky tests fail the run`] : []),
    ...parts.map(({ name, report }) => `${name}: ${minutes(report.ms)} min`),
    ...perProject(files).map(([project, ms]) => `  ${project}: ${minutes(ms)} min of all workers`),
    '',
    closingLine(counts),
  ];
  return { isGreen, failures, flaky, lines };
}

function isSame(a: Failure, b: Failure): boolean {
  return a.project === b.project && a.file === b.file && a.name === b.name;
}

/** An error of a file or a run hides the result of its tests. */
function isOfWholeFile({ name, file }: Failure): boolean {
  return file === undefined || name === '(file)';
}

function perProject(files: RunReport['files']): Array<readonly [string, number]> {
  const times = new Map<string, number>();
  for (const { project, ms } of files) times.set(project, (times.get(project) ?? 0) + ms);
  return [...times].toSorted(([, a], [, b]) => b - a);
}

function minutes(ms: number): string {
  return (ms / 60_000).toFixed(1);
}
