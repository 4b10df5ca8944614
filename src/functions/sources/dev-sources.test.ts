import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { watchSources } from './dev-sources.ts';

test('reports a change as soon as it watches: the sources may have changed since they were read', async () => {
  const root = mkdtempSync(join(tmpdir(), 'svc-sources-'));
  const notified = Promise.withResolvers<void>();
  const watch = watchSources(root, [root], () => notified.resolve());
  await notified.promise;
  expect(watch.roots).toEqual([root]);
  await watch.close();
  rmSync(root, { recursive: true, force: true });
});
