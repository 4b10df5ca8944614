// Links of the docs lead to existing files and headings.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const PAGES = [
  'README.md',
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'CODE_OF_CONDUCT.md',
  'CONTRIBUTING.md',
  'GOVERNANCE.md',
  'SECURITY.md',
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

describe('links between pages have targets', () => {
  test.each(PAGES)('%s', (page) => {
    expect(findLinks(read(page)).filter((link) => !hasTarget(page, link))).toEqual([]);
  });

  test('links without a target are found', () => {
    const text = '[a](rest.md) [b](nowhere.md) [c](rest.md#nowhere) [d](#nowhere) `[e](nowhere.md)`';
    expect(findLinks(text).filter((link) => !hasTarget('docs/auth.md', link))).toEqual([
      'nowhere.md',
      'rest.md#nowhere',
      '#nowhere',
    ]);
  });
});

/** Returns the link targets of a page, except those in code. */
function findLinks(text: string): string[] {
  const prose = withoutBlocks(text).replaceAll(/`[^`\n]*`/g, 'code');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target ?? '');
}

/** Links to other sites are not checked. */
function hasTarget(page: string, link: string): boolean {
  if (/^[a-z]+:/.test(link)) return true;
  const [file = '', anchor] = link.split('#');
  const target = file === '' ? page : relative(ROOT, join(ROOT, dirname(page), file));
  if (!existsSync(join(ROOT, target))) return false;
  return anchor === undefined || !target.endsWith('.md') || findAnchors(read(target)).has(anchor);
}

/** Anchors as forges create them: a repeated heading gets a number. */
function findAnchors(text: string): Set<string> {
  const times = new Map<string, number>();
  const anchors = new Set<string>();
  for (const [, heading = ''] of withoutBlocks(text).matchAll(/^#{1,6} (.*?) *$/gm)) {
    const anchor = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-');
    const before = times.get(anchor) ?? 0;
    times.set(anchor, before + 1);
    anchors.add(before === 0 ? anchor : `${anchor}-${before}`);
  }
  return anchors;
}

function withoutBlocks(text: string): string {
  return text.replaceAll(/^( *)(`{3,})[^\n]*\n.*?^ *\2 *$/gms, '');
}

function read(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8');
}
