// Checks the English of comments, names, messages and pages. `english-baseline.json` has the accepted number of
// findings per room and rule: a higher number fails, and so does a lower one, until `--update` has lowered it.
//
//   npm run english                            check
//   npm run english -- --list realtime         print all findings of a room
//   npm run english -- --update                lower the numbers of the baseline
//   npm run english -- --rebase                write all numbers again, also higher ones
//   npm run english -- --commits main..HEAD    check the subjects of commits, too
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { compareCounts, countKeys, findRoom, lowerCounts, type Counts } from './english/baseline.ts';
import { extractTexts } from './english/extract.ts';
import { applyRules } from './english/rules.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const BASELINE = join(ROOT, 'scripts/english-baseline.json');
/** Files that quote the rejected words. */
const SKIPPED = new Set(['scripts/english/rules.ts', 'scripts/check-english.test.ts']);

const { values } = parseArgs({
  options: {
    list: { type: 'string' },
    update: { type: 'boolean', default: false },
    rebase: { type: 'boolean', default: false },
    commits: { type: 'string' },
  },
});

const findings = listFiles().flatMap((path) => {
  const extracts = extractTexts(path, readFileSync(join(ROOT, path), 'utf8'));
  return applyRules(extracts).map((finding) => ({ ...finding, path, room: findRoom(path) }));
});
const counts = countKeys(findings.map(({ room, rule }) => `${room} ${rule}`));
if (values.list !== undefined) {
  for (const { path, line, rule, text, room } of findings) {
    if (room === values.list || path === values.list) print(`${path}:${line} ${rule} ${text}`);
  }
} else if (values.rebase) {
  writeBaseline(counts);
} else if (values.update) {
  writeBaseline(lowerCounts(counts, readBaseline()));
} else {
  const problems = [...compareCounts(counts, readBaseline()), ...checkCommits(values.commits)];
  for (const problem of problems) print(problem);
  process.exitCode = problems.length === 0 ? 0 : 1;
}

/** Returns tracked TypeScript and Markdown files that exist. */
function listFiles(): readonly string[] {
  const tracked = git('ls-files', '*.ts', '*.tsx', '*.md');
  return tracked.filter((path) => !SKIPPED.has(path) && existsSync(join(ROOT, path)));
}

/** Checks the subjects of a range of commits. They have no baseline. */
function checkCommits(range: string | undefined): readonly string[] {
  if (range === undefined) return [];
  return git('log', '--no-merges', '--format=%h %s', range).flatMap((entry) => {
    const [hash = '', subject = ''] = entry.split(/ (.*)/);
    const texts = applyRules([{ kind: 'commit', line: 1, text: subject }]);
    return texts.map(({ rule, text }) => `${hash} ${rule} ${text}`);
  });
}

function git(...args: readonly string[]): readonly string[] {
  const output = execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', maxBuffer: Infinity });
  return output.split('\n').filter((line) => line !== '');
}

/** A missing file accepts no findings. */
function readBaseline(): Counts {
  return existsSync(BASELINE) ? (JSON.parse(readFileSync(BASELINE, 'utf8')) as Counts) : {};
}

function writeBaseline(counts: Counts): void {
  writeFileSync(BASELINE, `${JSON.stringify(counts, undefined, 2)}\n`);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
