import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readTextFile } from './text-file.ts';

test('a byte order mark is not part of the text', () => {
  const directory = mkdtempSync(join(tmpdir(), 'svc-text-'));
  const file = join(directory, 'a.sql');
  for (const text of ['select 1', '', '\ufeff', 'ü']) {
    writeFileSync(file, text);
    expect(readTextFile(file)).toBe(text.replace('\ufeff', ''));
    writeFileSync(file, `\ufeff${text}`);
    expect(readTextFile(file)).toBe(text);
  }
  rmSync(directory, { recursive: true });
});
