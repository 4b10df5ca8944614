// While a backup reads, no bytes are deleted: what its snapshot names stays until the hold ends. A hold that nobody renews
// ends by itself, so a backup that was killed holds nothing for long.
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
    // Those who had begun to delete before they could see the hold have their rows locked until they are done.
    await owner.query(raw('select from storage.blob_gc for share'));
    return await work();
  } finally {
    clearInterval(timer);
    await owner
      .query(sql`delete from storage.deletion_hold where id = ${id} or expires_at < now()`)
      .catch(() => {});
  }
}
