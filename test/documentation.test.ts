// What the pages about the code say must be there, and decisions stay short.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const DECISIONS = join(ROOT, 'docs/decisions');
const MAX_WORDS = 300;

describe('paths that are named exist', () => {
  const pages = [
    'README.md',
    'ARCHITECTURE.md',
    'CONTRIBUTING.md',
    ...list('docs'),
    ...list('docs/decisions'),
  ];
  test.each(pages)('%s', (page) => {
    const text = readFileSync(join(ROOT, page), 'utf8');
    const named = [...text.matchAll(/`((?:[a-z-]+\/)+[a-z0-9.-]*\.(?:test\.)?ts)`/g)].map(
      ([, path]) => path ?? '',
    );
    const missing = named.filter(
      (path) => !existsSync(join(ROOT, path)) && !existsSync(join(ROOT, 'src', path)),
    );
    expect(missing).toEqual([]);
  });
});

test('docs/index.md has every page once, and says what it is about', () => {
  const text = readFileSync(join(ROOT, 'docs/index.md'), 'utf8');
  const named = [...text.matchAll(/^- \[.+?\]\((.+?)\)(?:: .+)$/gm)].map(([, page = '']) => `docs/${page}`);
  const pages = [...list('docs'), ...list('docs/operations')].filter((page) => page !== 'docs/index.md');
  expect(named.toSorted()).toEqual(pages.toSorted());
});

describe('a decision is context, choice and consequences, in few words', () => {
  test.each(readdirSync(DECISIONS))('%s', (page) => {
    const text = readFileSync(join(DECISIONS, page), 'utf8');
    expect(text).toMatch(new RegExp(`^# ${page.slice(0, 4)} `));
    expect([...text.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading)).toEqual([
      'Context',
      'Choice',
      'Consequences',
    ]);
    const words = text
      .replaceAll(/[#|*`-]/g, ' ')
      .split(/\s+/)
      .filter(Boolean);
    expect(words.length).toBeLessThanOrEqual(MAX_WORDS);
  });
});

describe.each(['chat', 'documents', 'shop'])('docs/%s.md is the code of its example', (name) => {
  const text = readFileSync(join(ROOT, `docs/${name}.md`), 'utf8');
  const blocks = [...text.matchAll(/^ *`([^`\n]+)`:\n\n *```\w+\n(.*?)\n *```$/gms)].map(
    ([, path = '', code = '']) => ({ path, code }),
  );

  test('each block says which file it is from', () => {
    // Commands are from none.
    expect(text.match(/^ *```(?!sh$)\w+$/gm)).toHaveLength(blocks.length);
  });

  test.each(blocks)('$path', ({ path, code }) => {
    const file = readFileSync(join(ROOT, path), 'utf8').split('\n');
    const lines = code.split('\n');
    const isAt = (at: number): boolean => outdented(file.slice(at, at + lines.length)) === outdented(lines);
    expect(file.some((_, at) => isAt(at)) ? 'in the file' : code).toBe('in the file');
  });
});

function outdented(lines: readonly string[]): string {
  const depth = Math.min(...lines.filter((line) => line.trim() !== '').map((line) => line.search(/\S/)));
  return lines.map((line) => line.slice(depth)).join('\n');
}

function list(folder: string): string[] {
  return readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`);
}
