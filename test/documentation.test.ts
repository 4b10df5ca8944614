// Paths and commands in the docs exist, and decisions stay short.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const DECISIONS = join(ROOT, 'docs/decisions');
const MAX_WORDS = 300;

describe('paths in the docs exist', () => {
  const pages = [
    'README.md',
    'ARCHITECTURE.md',
    'CONTRIBUTING.md',
    ...list('docs'),
    ...list('docs/how-to'),
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

/**
 * Files in which `npx svc` runs this product and not another package named svc: in a project that has it, or in a
 * clone.
 */
const HAS_SVC: Readonly<Record<string, string>> = {
  'docs/tutorial.md': 'in the project of its first step',
  'docs/package.md': 'after npm install svcyaml',
  'packages/svcyaml/README.md': 'after npm install svcyaml',
  'docs/from-pocketbase.md': 'in the project of its first step',
  'docs/from-firebase.md': 'in the project of its first step',
  'docs/shop.md': 'in the clone',
  'docs/migrations.md': 'in an image, after npm ci',
  'docs/operations/releases.md': 'in an image, after npm ci',
  'src/cli/stamp/stamp.ts': 'in an image, after npm ci',
  'src/cli/init/init.ts': 'when a script of npm runs it',
  'docs/running.md': 'explains that completion does not support it',
};

test('the README is short, and needs no package that is not published', () => {
  const text = readFileSync(join(ROOT, 'README.md'), 'utf8');
  expect(text.split('\n').length).toBeLessThanOrEqual(120);
  expect(text).not.toMatch(/not published|npm create|npx/);
});

test('npx svc is used only where it runs this product', () => {
  const files = [
    'README.md',
    ...list('docs'),
    ...list('docs/how-to'),
    ...list('docs/operations'),
    ...below('packages', /\.(?:md|js|jsx|ts|json|yaml)$/),
    ...below('src', /(?<!\.test)\.ts$/),
    ...below('dashboard/src', /\.tsx?$/),
  ];
  const matching = files.filter((file) => /npx svc\b(?!yaml)/.test(readFileSync(join(ROOT, file), 'utf8')));
  expect(matching.toSorted()).toEqual(Object.keys(HAS_SVC).toSorted());
  for (const file of matching.filter((path) => HAS_SVC[path]?.includes('after npm'))) {
    const text = readFileSync(join(ROOT, file), 'utf8');
    const installed = text.search(/npm (?:ci|install svcyaml)/);
    expect(installed, file).toBeGreaterThan(-1);
    expect(installed, file).toBeLessThan(text.search(/npx svc\b(?!yaml)/));
  }
});

test('docs/index.md lists every page once, with a description', () => {
  const text = readFileSync(join(ROOT, 'docs/index.md'), 'utf8');
  const named = [...text.matchAll(/^- \[.+?\]\((.+?)\)(?:: .+)$/gm)].map(([, page = '']) => `docs/${page}`);
  const pages = [...list('docs'), ...list('docs/how-to'), ...list('docs/operations')].filter(
    (page) => page !== 'docs/index.md',
  );
  expect(named.toSorted()).toEqual(pages.toSorted());
});

describe('a decision has context, choice and consequences, and is short', () => {
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

describe.each(['chat', 'documents', 'shop'])('docs/%s.md matches the code of its example', (name) => {
  const text = readFileSync(join(ROOT, `docs/${name}.md`), 'utf8');
  const blocks = [...text.matchAll(/^ *`([^`\n]+)`:\n\n *```\w+\n(.*?)\n *```$/gms)].map(
    ([, path = '', code = '']) => ({ path, code }),
  );

  test('each block names its file', () => {
    // Commands have no file.
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

/** Returns files of a folder, recursively, by the end of their names. */
function below(folder: string, named: RegExp): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => named.test(name) && !name.includes('node_modules'))
    .map((name) => `${folder}/${name}`);
}

function list(folder: string): string[] {
  return readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`);
}
