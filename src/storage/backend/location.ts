// Which store the bytes of this database are in. Recorded at the first start: with another `providers.storage`
// every object would be a row without bytes, and the sweeper of the new place would see nothing to keep.
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { Problem } from '../../problem/problem.ts';
import type { Backend } from './backend.ts';

export async function settleBackend(owner: OwnerDatabase, backend: Backend): Promise<void> {
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
      `The files of this project are in another place: ${row.location}, not ${backend.location}`,
      {
        hint: "Copy the blobs to the new place, then: update storage.settings set value = to_jsonb('<new place>'::text) where key = 'location';",
      },
    );
  }
}
