// Which files columns name.
import { sql } from '../postgres/sql.ts';
import type { Connected } from '../postgres/bulk/one-transaction.ts';
import { qualifiedName, type Table } from './tables.ts';

/**
 * Records the files that columns refer to. Triggers normally record them, but did not fire during the copy.
 */
export async function adoptReferences(
  target: Connected,
  tables: readonly Pick<Table, 'schema' | 'name'>[],
): Promise<void> {
  const triggers = await target.query<{ relation: number; arguments: Buffer }>(sql`
    select t.tgrelid as relation, t.tgargs as arguments
    from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
    where not t.tgisinternal and t.tgfoid = to_regproc('storage.track_ref')
      and n.nspname || '.' || c.relname = any (${tables.map(qualifiedName)})`);
  for (const { relation, arguments: bytes } of triggers) {
    const [column = '', bucket = '', onDelete = '', ...key] = bytes.toString().split('\0').slice(0, -1);
    await target.query(sql`select storage.forget_refs(${relation}::oid, ${column})`);
    await target.query(sql`
      select storage.adopt_refs(${relation}::oid::regclass, ${column}, ${bucket}, ${onDelete}, ${key}::text[])`);
  }
}
