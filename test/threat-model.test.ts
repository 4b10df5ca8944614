// Each actor of the threat model names tests that exist.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const PAGE = readFileSync(join(ROOT, 'docs/threat-model.md'), 'utf8');

test('each actor names an existing test', () => {
  const section = PAGE.split(/^## /m).find((text) => text.startsWith('Actors and boundaries')) ?? '';
  const [header = '', , ...rows] = section.split('\n').filter((line) => line.startsWith('|'));
  expect(header).toMatch(/\| Tests \|$/);
  expect(rows.length).toBeGreaterThan(10);
  for (const row of rows) {
    const cells = row.split(' | ');
    const paths = [...(cells.at(-1) ?? '').matchAll(/`([^`]+)`/g)].map(([, path = '']) => path);
    expect(
      paths.filter((path) => path.endsWith('.test.ts') && existsSync(join(ROOT, path))),
      cells[0],
    ).toEqual(paths);
    expect(paths.length, cells[0]).toBeGreaterThan(0);
  }
});
