// Records backups in the database, as the source of their metrics.
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';
import type { Manifest } from './manifest.ts';

export type Kept = {
  /** The place, as metrics name it. */
  readonly target: string;
  readonly id: string;
  readonly manifest: Manifest;
};

/** Records the last complete backup of its target. */
export async function recordBackup(owner: OwnerDatabase, { target, id, manifest }: Kept): Promise<void> {
  const { parts, blobs, takenAt } = manifest;
  const bytes = Object.values(parts).reduce((sum, part) => sum + part.bytes, blobs.bytes);
  await owner.query(sql`
    insert into svc_meta.backup (target, id, taken_at, bytes) values (${target}, ${id}, ${takenAt}, ${bytes})
    on conflict (target) do update set id = excluded.id, taken_at = excluded.taken_at, bytes = excluded.bytes`);
}

/** Records that a backup was read and matches its hashes. */
export async function recordVerified(
  owner: OwnerDatabase,
  { target, id }: Pick<Kept, 'target' | 'id'>,
): Promise<void> {
  await owner.query(
    sql`update svc_meta.backup set verified_at = now() where target = ${target} and id = ${id}`,
  );
}
