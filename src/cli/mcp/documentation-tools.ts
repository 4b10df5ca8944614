// The documentation in the package, for a reader without a network.
import { Problem } from '../../problem/problem.ts';
import { asObject, explainedCodes, pageNames, readPage, readSearchWords } from '../docs/documentation.ts';

const MAX_FOUND = 12;
const EXCERPT_LENGTH = 240;

type Found = {
  readonly page: string;
  readonly heading: string;
  readonly text: string;
  readonly hits: number;
};

/** Returns sections that match words of the query, those with most of them first. */
export function searchPages(query: string): readonly Found[] {
  const searched = query
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  const found: Found[] = [];
  for (const page of pageNames()) {
    for (const [index, section] of readPage(page)
      .split(/^(?=#+ )/m)
      .entries()) {
      const text = section.toLowerCase();
      // The words of its front matter belong to the beginning of a page, and count twice where the text has them too.
      const texts = index === 0 ? [text, readSearchWords(page).toLowerCase()] : [text];
      const hits = texts.flatMap((part) => searched.filter((word) => part.includes(word))).length;
      if (hits === 0) continue;
      const at = Math.max(
        0,
        text.indexOf(searched.find((word) => text.includes(word)) ?? '') - EXCERPT_LENGTH / 2,
      );
      found.push({
        page,
        heading: /^#+ (.+)/.exec(section)?.[1] ?? '',
        text: section.slice(at, at + EXCERPT_LENGTH).trim(),
        hits,
      });
    }
  }
  return found.toSorted((a, b) => b.hits - a.hits).slice(0, MAX_FOUND);
}

export function readPageNamed(name: string): string {
  const page = name.replace(/^docs\//, '');
  if (pageNames().includes(page)) return readPage(page);
  throw new Problem('not_found', 404, `there is no page ${name}`, {
    hint: `Pages: ${pageNames().join(', ')}.`,
  });
}

export function explainCode(code: string): object {
  const lines = explainedCodes().filter((line) => line.code.toLowerCase() === code.toLowerCase());
  if (lines.length === 0) throw new Problem('not_found', 404, `there is no code ${code}`);
  return lines.map(asObject);
}
