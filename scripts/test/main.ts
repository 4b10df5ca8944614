// Runs the tests. A failed test file runs once more, alone, after all others.
//
//   npm test                                   all but slow tests, browsers and other versions
//   npm run test:all                           everything, with all rounds of the random tests
//   npm run test:all -- postgres-16 cluster    some projects
//   npm run test:landing                       what lands a change: the hash of the commit rotates a part of it
//   npm run test:slowest                       the slowest files of the last run
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import {
  readReport,
  REPORT_FILE,
  slowestLines,
  writeReport,
  type Failure,
  type RunReport,
} from '../../test/support/run/report.ts';
import { ALL, CLUSTER, QUICK, selectForLanding, type Selection } from './selection.ts';
import { judge, type Part } from './verdict.ts';
import { installVersions } from './versions.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Limit for reruns. If more files fail, the failures are real and no file runs again. */
const MAX_RERUN_FILES = 8;
/** Commits this much older than the last one belong to an earlier landing. */
const SAME_CHANGE_HOURS = 6;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    all: { type: 'boolean', default: false },
    landing: { type: 'boolean', default: false },
    slowest: { type: 'boolean', default: false },
  },
});
const folder = mkdtempSync(join(tmpdir(), 'svc-tests-'));
try {
  process.exitCode = values.slowest ? printSlowest() : run(select());
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function select(): Selection {
  if (positionals.length > 0) {
    const unknown = positionals.filter((name) => !ALL.projects.includes(name));
    if (unknown.length > 0) {
      throw new Error(`unknown project: ${unknown.join(', ')}. Projects: ${ALL.projects.join(', ')}`);
    }
    return { ...ALL, projects: positionals };
  }
  if (values.all) return ALL;
  if (!values.landing) return QUICK;
  const git = (...args: string[]): string =>
    execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();
  const since = new Date(Number(git('log', '-1', '--format=%ct')) * 1000 - SAME_CHANGE_HOURS * 3_600_000);
  const changed = git('log', `--since=${since.toISOString()}`, '--name-only', '--format=').split('\n');
  return selectForLanding(git('rev-parse', 'HEAD'), [...new Set(changed)]);
}

function run({ projects, long, notes }: Selection): number {
  for (const note of notes) print(`chosen by the commit: ${note}`);
  const env = {
    ...installVersions(projects, ROOT),
    ...(long === undefined ? {} : { SVC_TEST_LONG: process.env['SVC_TEST_LONG'] ?? long }),
  };
  const vitestProjects = projects.filter((project) => project !== CLUSTER);
  const parts: Part[] = [];
  if (vitestProjects.length > 0) parts.push({ name: 'tests', report: runVitest(vitestProjects, [], env) });
  if (projects.includes(CLUSTER)) parts.push({ name: CLUSTER, report: runCluster([]) });
  const again = rerunFailures(parts, env);
  const verdict = judge(parts, again);
  writeMerged(parts, verdict.failures);
  for (const line of ['', ...verdict.lines]) print(line);
  return verdict.isGreen ? 0 : 1;
}

function runVitest(
  projects: readonly string[],
  files: readonly string[],
  env: Readonly<Record<string, string>>,
): RunReport {
  const entry = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');
  const workers = files.length > 0 ? ['--maxWorkers=1'] : [];
  return execute(
    [entry, 'run', ...projects.flatMap((name) => ['--project', name]), ...workers, ...files],
    env,
  );
}

function runCluster(scenarios: readonly string[]): RunReport {
  return execute([join('test', 'cluster', 'main.ts'), '--optional', ...scenarios], {});
}

function execute(args: readonly string[], env: Readonly<Record<string, string>>): RunReport {
  const path = join(mkdtempSync(join(folder, 'run-')), 'report.json');
  const { status, signal } = spawnSync(process.execPath, args, {
    cwd: ROOT,
    env: { ...process.env, ...env, SVC_TEST_REPORT: path },
    stdio: 'inherit',
  });
  const report = readReport(path);
  const code = signal ?? status;
  if (report !== undefined && (code === 0 || report.failures.length > 0)) return report;
  const failure: Failure = {
    project: 'run',
    file: undefined,
    name: args.slice(1).join(' '),
    message:
      report === undefined ? `ended with ${code} before its report` : `ended with ${code} after its report`,
  };
  const empty: RunReport = { passed: 0, failed: 0, skipped: 0, ms: 0, failures: [], files: [] };
  return { ...(report ?? empty), failures: [failure] };
}

/** Runs each file that has failed once more, alone. Returns the failures of that second run. */
function rerunFailures(
  parts: readonly Part[],
  env: Readonly<Record<string, string>>,
): (failure: Failure) => readonly Failure[] | undefined {
  const key = ({ project, file, name }: Failure): string => `${project} ${project === CLUSTER ? name : file}`;
  const failures = new Map(
    parts
      .flatMap(({ report }) => report.failures)
      .filter(({ file, project }) => file !== undefined || project === CLUSTER)
      .map((failure) => [key(failure), failure]),
  );
  if (failures.size > MAX_RERUN_FILES) return () => undefined;
  const again = new Map<string, readonly Failure[]>();
  for (const [id, { project, file, name }] of failures) {
    print(`\nonce more, alone: [${project}] ${file ?? name}`);
    const report = project === CLUSTER ? runCluster([name]) : runVitest([project], [file ?? ''], env);
    again.set(id, report.failures);
  }
  return (failure) => again.get(key(failure));
}

function writeMerged(parts: readonly Part[], failures: readonly Failure[]): void {
  const sum = (count: 'passed' | 'skipped' | 'ms'): number =>
    parts.reduce((total, { report }) => total + report[count], 0);
  mkdirSync(join(ROOT, '.vitest'), { recursive: true });
  process.chdir(ROOT);
  writeReport({
    passed: sum('passed'),
    failed: failures.length,
    skipped: sum('skipped'),
    ms: sum('ms'),
    failures,
    files: parts.flatMap(({ report }) => report.files),
  });
}

function printSlowest(): number {
  const report = readReport(join(ROOT, REPORT_FILE));
  if (report === undefined) {
    print(`there is no ${REPORT_FILE}: run the tests first`);
    return 1;
  }
  for (const line of slowestLines(report.files)) print(line);
  return 0;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
