// A running backup holds back the deletion of bytes, so that every file of its snapshot stays readable. A hold
// expires unless it is renewed, so a killed backup does not block deletions for long.
import { randomUUID } from 'node:crypto';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { raw, sql } from '../postgres/sql.ts';

const LASTS_SECONDS = 600;
const RENEWED_EVERY_MS = 60_000;

export async function whileHeld<T>(owner: OwnerDatabase, work: () => Promise<T>): Promise<T> {
  const id = randomUUID();
  const hold = (): Promise<unknown> =>
    owner.query(sql`
      insert into storage.deletion_hold (id, expires_at) values (${id}, now() + make_interval(secs => ${LASTS_SECONDS}))
      on conflict (id) do update set expires_at = excluded.expires_at`);
  await hold();
  const timer = setInterval(() => void hold().catch(() => {}), RENEWED_EVERY_MS);
  try {
    // Wait for deletions that started before the hold was visible. They lock their rows.
    await owner.query(raw('select from storage.blob_gc for share'));
    return await work();
  } finally {
    clearInterval(timer);
    await owner
      .query(sql`delete from storage.deletion_hold where id = ${id} or expires_at < now()`)
      .catch(() => {});
  }
}
