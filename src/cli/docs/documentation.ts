// The documentation that comes with svc, as its commands read it.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ownFile } from '../../lib/own-files.ts';

/** In their order: a code that has a line in two of them is explained by both. */
const PAGES = ['errors.md', 'migrations.md', 'from-supabase.md'];

export type Line = { readonly code: string; readonly where: string; readonly cells: readonly string[] };

export function explainedCodes(): Line[] {
  return PAGES.flatMap(linesOf);
}

/** Rows of tables whose first column is `Code`, with the heading they stand under. */
function linesOf(page: string): Line[] {
  let where = '';
  let isOfCodes = false;
  return readFileSync(ownFile(join('docs', page)), 'utf8')
    .split('\n')
    .flatMap((text): Line[] => {
      where = /^##+ (.+)$/.exec(text)?.[1] ?? where;
      const [, first, ...cells] = text.split(/(?<!\\)\|/).slice(0, -1);
      if (first === undefined) isOfCodes = false;
      else if (first.trim() === 'Code') isOfCodes = true;
      const code = isOfCodes ? /^ `?([A-Za-z][\w-]*|\d{5})`? $/.exec(first ?? '')?.[1] : undefined;
      if (code === undefined || code === 'Code') return [];
      return [{ code, where: plain(where), cells: cells.map(plain) }];
    });
}

/** Without the marks of Markdown. */
function plain(text: string): string {
  return text
    .replaceAll('\\|', '|')
    .replaceAll('`', '')
    .replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1')
    .trim();
}

export type Explained = {
  readonly code: string;
  /** Of the site. */
  readonly page: string;
  readonly where: string;
  readonly status?: string;
  readonly means: string;
  readonly repair?: string;
};

/** Codes that differ in capital letters only share one. */
export function pageOfCode(code: string): string {
  return `errors/${code.toLowerCase()}`;
}

export function asObject({ code, where, cells }: Line): Explained {
  const page = pageOfCode(code);
  if (cells.length === 1) return { code, page, where, means: cells[0] ?? '' };
  const [status = '', means = '', repair = ''] = cells;
  return { code, page, where, ...(status === '' ? {} : { status }), means, repair };
}

/** Names of all pages, without `docs/`. */
export function pageNames(): string[] {
  return readdirSync(ownFile('docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !name.startsWith('decisions'))
    .toSorted((a, b) => (a < b ? -1 : 1));
}

export function readPage(name: string): string {
  return readFileSync(ownFile(join('docs', name)), 'utf8');
}
