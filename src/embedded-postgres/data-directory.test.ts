import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { removeUnfinished } from './data-directory.ts';

test('only what an interrupted first start has left is removed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-data-'));
  const kept = ['postgres', 'postgres-before', 'postgres.new', 'postgres.old-1', 'storage'];
  try {
    for (const name of [...kept, 'postgres.new-x1Y2z3'])
      mkdirSync(join(folder, name, 'data'), { recursive: true });
    await removeUnfinished(join(folder, 'postgres'));
    expect(readdirSync(folder)).toEqual(kept);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
