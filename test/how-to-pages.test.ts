// The contract of the pages in docs/how-to/: front matter, sections, length, and a test that runs them.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { readBlocks, ROOT } from './support/documentation/blocks.ts';

const MAX_LINES = 250;
const MAX_CODE_COLUMNS = 88;
const PAGES = readdirSync(join(ROOT, 'docs/how-to')).map((name) => `docs/how-to/${name}`);

describe.each(PAGES)('%s', (page) => {
  const text = readFileSync(join(ROOT, page), 'utf8');
  const [, matter = '', body = ''] = /^---\n(.*?)^---\n(.*)$/ms.exec(text) ?? [];

  test('has a title, words to search for, a version and a test', () => {
    const { title, search, needs, test: path } = parse(matter) as Record<string, unknown>;
    expect(
      body
        .trim()
        .split('\n', 1)[0]
        ?.startsWith(`# ${String(title)}`),
    ).toBe(true);
    expect(search).toEqual(expect.arrayContaining([expect.any(String)]));
    expect(needs).toEqual({ svc: expect.stringMatching(/^>=\d+\.\d+$/) });
    expect(existsSync(join(ROOT, String(path)))).toBe(true);
    expect(readFileSync(join(ROOT, String(path)), 'utf8')).toContain(`'${page}'`);
  });

  test('begins with its result, and ends with a check and likely failures', () => {
    expect(body.trim().split('\n')[2]).toMatch(/^After reading this page you can .*\.$/);
    const headings = [...body.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading);
    expect(headings.slice(-2)).toEqual(['Check it', 'If it fails']);
    expect(text.trim().split('\n').at(-1)).toMatch(/^Next: /);
  });

  test('is short, also its lines of code', () => {
    expect(text.split('\n').length).toBeLessThanOrEqual(MAX_LINES);
    const wide = readBlocks(page)
      .flatMap(({ code }) => code.split('\n'))
      .filter((line) => line.length > MAX_CODE_COLUMNS);
    expect(wide).toEqual([]);
  });
});
