// One good and one bad example for each rule, and the comparison with the baseline.
import { describe, expect, test } from 'vitest';
import { compareCounts, findRoom, lowerCounts } from './english/baseline.ts';
import { extractTexts } from './english/extract.ts';
import { applyRules, RULES } from './english/rules.ts';

const LONG = 'word '.repeat(30);

/** Each rule with a file, a text that it accepts and a text that it rejects. */
const EXAMPLES: ReadonlyArray<readonly [rule: string, path: string, good: string, bad: string]> = [
  ['opener', 'a.ts', '// Returns the rows of a table.', '// Of a table that exists.'],
  ['opener', 'a.md', '## Upload a file', '## Who may upload'],
  ['subject', 'a.ts', '/** Bytes per second. */', '/** To another session. */'],
  ['word', 'a.ts', '// Notifies `told` subscribers.', '// The client is told.'],
  ['word', 'a.ts', "fail('the name is too long');", "fail('nobody is there');"],
  ['word', 'a.md', '```\ntold\n```', 'The client is told.'],
  ['litotes', 'a.ts', "fail('there is no table, and it is no longer used');", "fail('this is no URL');"],
  ['limit-name', 'a.ts', 'export const MAX_ROWS = 3;', 'export const MOST_ROWS = 3;'],
  ['verb-name', 'a.ts', 'function takeover(): void {}', '  async #takeRow(row: Row): Promise<void> {'],
  ['of-name', 'a.ts', 'const hash = (text: string) => text;', 'const hashOf = (text: string) => text;'],
  ['filler-name', 'a.ts', 'rows.filter((row) => row.id);', 'rows.filter((one) => one.id);'],
  ['filler-name', 'a.ts', 'function read(row: Row) {}', 'function read(row: Row, other: Row) {}'],
  ['length', 'a.ts', `// ${LONG.slice(0, 100)}`, `// ${LONG}`],
];
const COMMITS = [
  ['realtime: read queued changes in one batch', 'A busy database is no fault of a binding'],
  ['auth: look up unknown keys', `auth: look up ${LONG}`],
] as const;

function brokenRules(path: string, text: string): readonly string[] {
  return applyRules(extractTexts(path, text)).map(({ rule }) => rule);
}

describe('each rule accepts one text and rejects the other', () => {
  test.each(EXAMPLES)('%s in %s: %s', (rule, path, good, bad) => {
    expect(brokenRules(path, good)).toEqual([]);
    expect(brokenRules(path, bad)).toContain(rule);
  });

  test.each(COMMITS)('commit: %s', (good, bad) => {
    const check = (text: string): number => applyRules([{ kind: 'commit', line: 1, text }]).length;
    expect(check(good)).toBe(0);
    expect(check(bad)).toBeGreaterThan(0);
  });

  test('no rule lacks an example', () => {
    const shown = new Set([...EXAMPLES.map(([rule]) => rule), 'commit']);
    expect(RULES.map(({ name }) => name).filter((name) => !shown.has(name))).toEqual([]);
  });
});

test('names of files are checked', () => {
  expect(brokenRules('lib/told-twice.ts', '')).toEqual(['word']);
  expect(brokenRules('lib/sent-twice.ts', '')).toEqual([]);
});

test('SQL, identifiers and stored names are not checked', () => {
  const code =
    "const told = 'svc_untold';\nrun(sql`select * from a where nobody = ${told}`, 'told', /it's told/);";
  expect(brokenRules('a.ts', code)).toEqual([]);
});

test('a finding has the line of its text', () => {
  const [finding] = applyRules(extractTexts('a.ts', "const a = 1;\n\nfail('nobody is there');\n"));
  expect(finding).toMatchObject({ line: 3, rule: 'word' });
});

test('rooms are folders of src and of the root', () => {
  const paths = ['src/auth/a.ts', 'docs/a.md', 'docs/decisions/a.md', 'bin/a.ts', 'README.md', 'test/a.ts'];
  expect(paths.map(findRoom)).toEqual(['auth', 'docs', 'docs/decisions', 'root', 'root', 'test']);
});

test('higher and lower numbers are reported; only lower ones enter the baseline', () => {
  const baseline = { 'auth word': 2, 'docs word': 2, 'rest word': 1 };
  const counts = { 'auth word': 3, 'docs word': 1 };
  expect(compareCounts(counts, baseline)).toEqual([
    'auth word: 3 findings, 2 accepted → npm run english -- --list auth',
    'docs word: 1 findings, 2 accepted → npm run english -- --update',
    'rest word: 0 findings, 1 accepted → npm run english -- --update',
  ]);
  expect(lowerCounts(counts, baseline)).toEqual({ 'auth word': 2, 'docs word': 1 });
  expect(compareCounts(counts, counts)).toEqual([]);
});
