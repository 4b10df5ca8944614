// The lease on a resumable upload, as two instances see it.
import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { provisionAt } from '../../../test/support/provision.ts';
import { parseAddress } from '../../postgres/address/parse-address.ts';
import { OwnerDatabase } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import { UploadLeases } from './lease.ts';

let database: TestDatabase;
let owner: OwnerDatabase;

beforeAll(async () => {
  database = await createDatabase();
  const { ownerUrl } = await provisionAt(database.url);
  owner = new OwnerDatabase({
    address: parseAddress(ownerUrl),
    applicationName: 'test',
    max: 4,
    idleTimeoutMs: 1000,
  });
  await owner.query(
    raw(`insert into storage.resumable_uploads
      (version, bucket_id, name, raw_metadata, file_metadata, upsert, expires_at)
    values ('v', 'files', 'a', '', '{}', false, now() + interval '1 day')`),
  );
});
afterAll(async () => {
  await owner.close();
  await database.drop();
});

const leasedUntil = async (): Promise<unknown> =>
  await owner.query(raw('select writer_until from storage.resumable_uploads'));

test('a request that has taken the lease over keeps it when it renews it', async () => {
  const held = Promise.withResolvers<void>();
  const first = new UploadLeases(owner).hold('v', async ({ signal }) => {
    held.resolve();
    await once(signal, 'abort');
  });
  await held.promise;
  const wasStopped = await new UploadLeases(owner).hold('v', async ({ signal }) => {
    for (let renewals = 0; renewals < 2; renewals++) {
      const before = await leasedUntil();
      await expect.poll(leasedUntil).not.toEqual(before);
    }
    return signal.aborted;
  });
  await first;
  expect(wasStopped).toBe(false);
});
