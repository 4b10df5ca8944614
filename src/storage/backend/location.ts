// Where the bytes of this database are stored, recorded at the first start: with another `providers.storage` every
// object would be a row without bytes, and the orphan scan of the new location would delete its blobs.
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import type { Backend } from './backend.ts';

/** Checks the backend and that it is the recorded one; records it while nothing is stored yet. */
export async function verifyLocation(owner: OwnerDatabase, backend: Backend): Promise<void> {
  await backend.check();
  const wanted = JSON.stringify(backend.location);
  const [row] = await owner.query<{ location: string }>(sql`
    insert into storage.settings as s (key, value) values ('location', ${wanted}::jsonb)
    on conflict (key) do update set value = case
      when exists (select from storage.objects) or exists (select from storage.blob_gc) then s.value
      else excluded.value end
    returning value #>> '{}' as location`);
  if (row && row.location !== backend.location) {
    throw new Problem(
      'storage_moved',
      500,
      `The files of this project are stored at ${row.location}, not at ${backend.location}`,
      {
        hint: "Copy the blobs to the new location, then: update storage.settings set value = to_jsonb('<new location>'::text) where key = 'location';",
      },
    );
  }
}
