import { expect, test } from 'vitest';
import { silentLog } from '../log/log.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { ImportState } from './import-state.ts';

test('a notification is not lost if the state cannot be read at first', async () => {
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
  const watch = new ImportState(owner, silentLog);
  await watch.read();
  expect(watch.refusal?.status).toBe(503);
  state = 'cut over';
  failures = 2;
  watch.onNotification();
  await expect.poll(() => watch.refusal).toBeUndefined();
  watch.close();
});
