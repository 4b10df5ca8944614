// The documentation that comes with svc, for a reader without a network.
import { Problem } from '../../problem/problem.ts';
import { asObject, explainedCodes, pageNames, readPage } from '../docs/documentation.ts';

const MOST_FOUND = 12;
const AROUND = 240;

type Found = {
  readonly page: string;
  readonly heading: string;
  readonly text: string;
  readonly hits: number;
};

/** Sections with most of the words first. */
export function searchPages(words: string): readonly Found[] {
  const wanted = words
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  const found: Found[] = [];
  for (const page of pageNames()) {
    for (const section of readPage(page).split(/^(?=#+ )/m)) {
      const text = section.toLowerCase();
      const hits = wanted.filter((word) => text.includes(word)).length;
      if (hits === 0) continue;
      const at = Math.max(0, text.indexOf(wanted.find((word) => text.includes(word)) ?? '') - AROUND / 2);
      found.push({
        page,
        heading: /^#+ (.+)/.exec(section)?.[1] ?? '',
        text: section.slice(at, at + AROUND).trim(),
        hits,
      });
    }
  }
  return found.toSorted((a, b) => b.hits - a.hits).slice(0, MOST_FOUND);
}

export function readPageNamed(name: string): string {
  const page = name.replace(/^docs\//, '');
  if (pageNames().includes(page)) return readPage(page);
  throw new Problem('not_found', 404, `There is no page ${name}`, {
    hint: `There are: ${pageNames().join(', ')}.`,
  });
}

export function explainCode(code: string): object {
  const lines = explainedCodes().filter((line) => line.code.toLowerCase() === code.toLowerCase());
  if (lines.length === 0) throw new Problem('not_found', 404, `There is no code ${code}`);
  return lines.map(asObject);
}
