// Tests the metrics that are read from the tables of auth, storage and backups.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startOwnerWorld, type OwnerWorld } from '../../../test/support/owner-world.ts';
import { Metrics } from '../../log/metrics.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import { StoredFigures } from './stored-figures.ts';

let world: OwnerWorld;
let owner: OwnerDatabase;

beforeAll(async () => {
  world = await startOwnerWorld();
  ({ owner } = world);
});
afterAll(() => world.close());

test('a resumable upload that is complete is not counted as open', async () => {
  await owner.query(
    raw(`insert into storage.resumable_uploads
      (version, bucket_id, name, raw_metadata, file_metadata, upsert, expires_at, completed_at)
    values ('open', 'files', 'a', '', '{}', false, now() + interval '1 day', null),
      ('complete', 'files', 'b', '', '{}', false, now() + interval '1 day', now())`),
  );
  const metrics = new Metrics();
  const figures = new StoredFigures(owner);
  figures.measure(metrics);
  await expect
    .poll(async () => {
      await figures.refresh();
      return metrics.text().split('\n');
    })
    .toContain('svc_storage_uploads_open 1');
});
