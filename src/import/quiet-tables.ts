// Tables whose triggers do not fire for what is imported: it was done at the source, with all that followed from it.
import { ident, join, raw, sql } from '../postgres/sql.ts';
import type { Connected } from './source.ts';

type TableName = { readonly schema: string; readonly name: string };

/** Works with the triggers of the tables switched off, and leaves each as it was. */
export async function withoutTriggers(
  target: Connected,
  tables: readonly TableName[],
  work: () => Promise<void>,
): Promise<void> {
  const triggers = await target.query<{ schema: string; table: string; name: string; always: boolean }>(sql`
    select n.nspname as schema, c.relname as table, t.tgname as name, t.tgenabled = 'A' as always
    from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
    where not t.tgisinternal and t.tgenabled in ('O', 'A') and t.tgparentid = 0
      and n.nspname || '.' || c.relname = any (${tables.map(({ schema, name }) => `${schema}.${name}`)})
    order by 1, 2, 3`);
  for (const { schema, table, name } of triggers)
    await target.query(sql`alter table ${ident(schema, table)} disable trigger ${ident(name)}`);
  await work();
  // A table cannot be altered while something of it waits for the commit.
  await target.query(raw('set constraints all immediate'));
  for (const { schema, table, name, always } of triggers) {
    await target.query(
      join(
        [
          sql`alter table ${ident(schema, table)} enable`,
          ...(always ? [raw('always')] : []),
          sql`trigger ${ident(name)}`,
        ],
        ' ',
      ),
    );
  }
}
