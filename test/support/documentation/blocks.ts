// The fenced blocks of a page, in their order.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

export type Block = {
  readonly page: string;
  /** Of the fence, from 1. */
  readonly line: number;
  /** Empty where the fence names none. */
  readonly language: string;
  /** Without the indentation that its fence has. */
  readonly code: string;
  /** The path in backticks and with a colon that is alone in the line above. */
  readonly file: string | undefined;
  /** What an HTML comment in the line above says. */
  readonly comment: string | undefined;
};

/** `page` is a path from the root, such as `docs/rest.md`. */
export function blocksOf(page: string, text = readFileSync(join(ROOT, page), 'utf8')): Block[] {
  return [...text.matchAll(/^( *)(`{3,})([^\n`]*)\n(.*?)^ *\2 *$/gms)].map(
    ({ 1: indent = '', 3: info = '', 4: body = '', index }) => {
      const before = text.slice(0, index).trimEnd();
      const above = before.slice(before.lastIndexOf('\n') + 1).trim();
      return {
        page,
        line: text.slice(0, index).split('\n').length,
        language: info.trim(),
        code: body.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
        file: /^`([^`]+)`:$/.exec(above)?.[1],
        comment: /^<!-- (.*) -->$/.exec(above)?.[1],
      };
    },
  );
}
