// The checklist of behaviours the hosted original shows: every row is named by a test, or has its reason here.
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const ROWS: Readonly<Record<string, number>> = {
  SU: 34,
  AN: 17,
  PW: 18,
  RF: 17,
  OT: 15,
  VF: 29,
  RC: 7,
  RS: 7,
  RE: 3,
  US: 25,
  ID: 8,
  LO: 7,
  AZ: 7,
  CB: 15,
  PK: 8,
  MF: 19,
  AD: 37,
  MT: 19,
  SQL: 7,
};

/** Rows without a test of their own, and why. */
const REASONS: Readonly<Record<string, string>> = {};

const FOLDERS = ['.', '../../attack'].map((folder) => fileURLToPath(new URL(`${folder}/`, import.meta.url)));

/** Ids in a title: `SU-01`, `SU-01, SU-04`, `SU-01 to SU-04`. */
function idsIn(text: string): string[] {
  const ids: string[] = [];
  for (const match of text.matchAll(/\b([A-Z]{2,3})-(\d\d)(?: to \1-(\d\d))?/g)) {
    const [, family = '', first = '', last = first] = match;
    for (let row = Number(first); row <= Number(last); row++)
      ids.push(`${family}-${String(row).padStart(2, '0')}`);
  }
  return ids;
}

function titles(): string[] {
  return FOLDERS.flatMap((folder) =>
    readdirSync(folder)
      .filter((name) => name.endsWith('.test.ts') && !name.startsWith('parity'))
      .flatMap((name) => {
        const text = readFileSync(`${folder}${name}`, 'utf8');
        return [...text.matchAll(/(['"`])([^'"`\n]*[A-Z]{2,3}-\d\d[^'"`\n]*)\1/g)].map(
          (match) => match[2] ?? '',
        );
      }),
  );
}

test('every row of the checklist has a test or a reason', () => {
  const tested = new Set(titles().flatMap(idsIn));
  const missing = Object.entries(ROWS).flatMap(([family, count]) =>
    Array.from({ length: count }, (_, index) => `${family}-${String(index + 1).padStart(2, '0')}`).filter(
      (id) => !tested.has(id) && !(id in REASONS),
    ),
  );
  expect(missing).toEqual([]);
});

test('no test names a row that does not exist', () => {
  const unknown = titles()
    .flatMap(idsIn)
    .filter((id) => {
      const [family = '', row = ''] = id.split('-');
      return family in ROWS && Number(row) > (ROWS[family] ?? 0);
    });
  expect(unknown).toEqual([]);
});
