import { expect, test } from 'vitest';
import { silentLog } from '../log/log.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { ImportWatch } from './import-watch.ts';

test('a notification whose state cannot be read at once is not lost', async () => {
  let state = 'copied';
  let failures = 0;
  const owner = {
    query: async () => {
      if (failures > 0) {
        failures -= 1;
        throw new Error('the connection broke');
      }
      return [{ state }];
    },
  } as unknown as OwnerDatabase;
  const watch = new ImportWatch(owner, silentLog);
  await watch.look();
  expect(watch.refusal?.status).toBe(503);
  state = 'cut over';
  failures = 2;
  watch.heard();
  await expect.poll(() => watch.refusal, { timeout: 5000 }).toBeUndefined();
  watch.close();
});
