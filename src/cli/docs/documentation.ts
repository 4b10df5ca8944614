// Reads the documentation that is part of the package.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ownFile } from '../../lib/package-files.ts';

/** Pages in order. A code that is in two of them is explained by both. */
const PAGES = ['errors.md', 'migrations.md', 'from-supabase.md'];

export type Line = { readonly code: string; readonly where: string; readonly cells: readonly string[] };

export function explainedCodes(): Line[] {
  return PAGES.flatMap(readCodeLines);
}

/** Returns the rows of tables whose first column is `Code`, with the heading above them. */
function readCodeLines(page: string): Line[] {
  let where = '';
  let isCodeTable = false;
  return readFileSync(ownFile(join('docs', page)), 'utf8')
    .split('\n')
    .flatMap((text): Line[] => {
      where = /^##+ (.+)$/.exec(text)?.[1] ?? where;
      const [, first, ...cells] = text.split(/(?<!\\)\|/).slice(0, -1);
      if (first === undefined) isCodeTable = false;
      else if (first.trim() === 'Code') isCodeTable = true;
      const code = isCodeTable ? /^ `?([A-Za-z][\w-]*|\d{5})`? $/.exec(first ?? '')?.[1] : undefined;
      if (code === undefined || code === 'Code') return [];
      return [{ code, where: plain(where), cells: cells.map(plain) }];
    });
}

/** Removes Markdown syntax. */
function plain(text: string): string {
  return text
    .replaceAll('\\|', '|')
    .replaceAll('`', '')
    .replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1')
    .trim();
}

export type Explained = {
  readonly code: string;
  /** Page on the documentation site. */
  readonly page: string;
  readonly where: string;
  readonly status?: string;
  readonly means: string;
  readonly repair?: string;
};

/** Returns the page of a code. Codes that differ only in case share one page. */
export function codePage(code: string): string {
  return `errors/${code.toLowerCase()}`;
}

export function asObject({ code, where, cells }: Line): Explained {
  const page = codePage(code);
  if (cells.length === 1) return { code, page, where, means: cells[0] ?? '' };
  const [status = '', means = '', repair = ''] = cells;
  return { code, page, where, ...(status === '' ? {} : { status }), means, repair };
}

/** Returns the names of all pages, without `docs/`. */
export function pageNames(): string[] {
  return readdirSync(ownFile('docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !name.startsWith('decisions'))
    .toSorted((a, b) => (a < b ? -1 : 1));
}

/** Returns the text of a page, without its front matter. */
export function readPage(name: string): string {
  return splitPage(name).text;
}

/** Returns the words that people search for to find a page: the list `search` of its front matter. */
export function readSearchWords(name: string): string {
  return /^search: \[(.*)\]$/m.exec(splitPage(name).frontMatter)?.[1] ?? '';
}

function splitPage(name: string): { readonly frontMatter: string; readonly text: string } {
  const page = readFileSync(ownFile(join('docs', name)), 'utf8');
  const [all = '', frontMatter = ''] = /^---\n(.*?)^---\n\s*/ms.exec(page) ?? [];
  return page.startsWith('---\n')
    ? { frontMatter, text: page.slice(all.length) }
    : { frontMatter: '', text: page };
}
