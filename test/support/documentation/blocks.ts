// Returns the fenced code blocks of a page, in order.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

export type Block = {
  readonly page: string;
  /** Line of the fence, from 1. */
  readonly line: number;
  /** Empty if the fence has no language. */
  readonly language: string;
  /** Text without the indentation of its fence. */
  readonly code: string;
  /** The path in backticks and with a colon that is alone above it. */
  readonly file: string | undefined;
  /** Text of the HTML comment above the block. */
  readonly comment: string | undefined;
};

/** `page` is a path from the root, such as `docs/rest.md`. */
export function readBlocks(page: string, text = readFileSync(join(ROOT, page), 'utf8')): Block[] {
  return [...text.matchAll(/^( *)(`{3,})([^\n`]*)\n(.*?)^ *\2 *$/gms)].map(
    ({ 1: indent = '', 3: info = '', 4: body = '', index }) => {
      const above = text
        .slice(0, index)
        .split('\n')
        .map((line) => line.trim())
        .filter((line) => line !== '');
      const file = /^`([^`]+)`:$/.exec(above.at(-1) ?? '')?.[1];
      const comment = /^<!-- (.*) -->$/.exec(above.at(file === undefined ? -1 : -2) ?? '')?.[1];
      return {
        page,
        line: text.slice(0, index).split('\n').length,
        language: info.trim(),
        code: body.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
        file,
        comment,
      };
    },
  );
}

/** Returns the lines of the block of a page that begins with `begin`. */
export function readLines(page: string, begin: string): readonly string[] {
  const block = readBlocks(page).find(({ code }) => code.startsWith(begin));
  if (!block) throw new Error(`${page} has no block that begins with ${begin}`);
  return block.code.trim().split('\n');
}

/** README, CONTRIBUTING and docs/, without the decisions. */
export const PAGES: readonly string[] = [
  'README.md',
  'CONTRIBUTING.md',
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !name.startsWith('decisions'))
    .map((name) => `docs/${name}`)
    .sort(),
];
