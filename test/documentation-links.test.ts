// A link of a page leads to a file that is there, and to a heading that it has.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const PAGES = [
  'README.md',
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

describe('links between pages lead somewhere', () => {
  test.each(PAGES)('%s', (page) => {
    expect(linksOf(read(page)).filter((link) => !leadsSomewhere(page, link))).toEqual([]);
  });

  test('links to what is not there are found', () => {
    const text = '[a](rest.md) [b](nowhere.md) [c](rest.md#nowhere) [d](#nowhere) `[e](nowhere.md)`';
    expect(linksOf(text).filter((link) => !leadsSomewhere('docs/auth.md', link))).toEqual([
      'nowhere.md',
      'rest.md#nowhere',
      '#nowhere',
    ]);
  });
});

/** Targets of the links of a page, without those in code. */
function linksOf(text: string): string[] {
  const prose = withoutBlocks(text).replaceAll(/`[^`\n]*`/g, 'code');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target ?? '');
}

/** Links to other sites are not followed. */
function leadsSomewhere(page: string, link: string): boolean {
  if (/^[a-z]+:/.test(link)) return true;
  const [file = '', anchor] = link.split('#');
  const target = file === '' ? page : relative(ROOT, join(ROOT, dirname(page), file));
  if (!existsSync(join(ROOT, target))) return false;
  return anchor === undefined || !target.endsWith('.md') || anchorsOf(read(target)).has(anchor);
}

/** As forges make them: a heading that occurs again gets a number. */
function anchorsOf(text: string): Set<string> {
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
