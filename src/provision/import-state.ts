// State of an import from another product.
import type { Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';

/** NOTIFY channel for changes of the state. */
export const IMPORT_CHANNEL = 'svc_import';

/** `ready` means that a comparison found no differences. */
export type ImportState = 'copied' | 'ready' | 'cut over';

/** Returns undefined if the database has no import. */
export async function readImportState(db: Queryable): Promise<ImportState | undefined> {
  const [row] = await db.query<{ state: ImportState }>(sql`select state from svc_meta.import`);
  return row?.state;
}

/** Sets the state and notifies running instances when the transaction commits. */
export async function setImportState(transaction: Queryable, state: ImportState): Promise<void> {
  await transaction.query(sql`
    update svc_meta.import set state = ${state}, changed_at = now() where state <> ${state}`);
  await announceImport(transaction);
}

export async function announceImport(transaction: Queryable): Promise<void> {
  await transaction.query(sql`select pg_notify(${IMPORT_CHANNEL}, '')`);
}
