// Loads rows that are already complete: disables triggers and removes foreign keys for the duration.
import { ident, join, literal, raw, sql } from '../sql.ts';
import type { Queryable } from '../owner-database.ts';

type TableName = { readonly schema: string; readonly name: string };

const qualifiedNames = (tables: readonly TableName[]): string[] =>
  tables.map(({ schema, name }) => `${schema}.${name}`);

/** Runs `work` with the triggers of the tables disabled, then restores the state of each. */
export async function withoutTriggers(
  target: Queryable,
  tables: readonly TableName[],
  work: () => Promise<void>,
): Promise<void> {
  const triggers = await target.query<{ schema: string; table: string; name: string; always: boolean }>(sql`
    select n.nspname as schema, c.relname as table, t.tgname as name, t.tgenabled = 'A' as always
    from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
    where not t.tgisinternal and t.tgenabled in ('O', 'A') and t.tgparentid = 0
      and n.nspname || '.' || c.relname = any (${qualifiedNames(tables)})
    order by 1, 2, 3`);
  for (const { schema, table, name } of triggers)
    await target.query(sql`alter table ${ident(schema, table)} disable trigger ${ident(name)}`);
  await work();
  // A table with pending deferred constraints cannot be altered.
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

type ForeignKey = TableName & {
  readonly constraint: string;
  readonly definition: string;
  readonly comment: string | null;
};

/** Runs `work` without the foreign keys from and to the tables, then restores and checks them. */
export async function withoutForeignKeys(
  target: Queryable,
  tables: readonly TableName[],
  work: () => Promise<void>,
): Promise<void> {
  const names = qualifiedNames(tables);
  const keys = await target.query<ForeignKey>(sql`
    select n.nspname as schema, c.relname as name, k.conname as constraint, pg_get_constraintdef(k.oid) as definition,
      obj_description(k.oid, 'pg_constraint') as comment
    from pg_constraint k join pg_class c on c.oid = k.conrelid join pg_namespace n on n.oid = c.relnamespace
      join pg_class f on f.oid = k.confrelid join pg_namespace fn on fn.oid = f.relnamespace
    where k.contype = 'f' and k.conparentid = 0
      and (n.nspname || '.' || c.relname = any (${names}) or fn.nspname || '.' || f.relname = any (${names}))
    order by 1, 2, 3`);
  for (const { schema, name, constraint } of keys)
    await target.query(sql`alter table ${ident(schema, name)} drop constraint ${ident(constraint)}`);
  await work();
  await target.query(raw('set constraints all immediate'));
  for (const { schema, name, constraint, definition, comment } of keys) {
    const table = ident(schema, name);
    await target.query(sql`alter table ${table} add constraint ${ident(constraint)} ${raw(definition)}`);
    if (comment !== null)
      await target.query(sql`comment on constraint ${ident(constraint)} on ${table} is ${literal(comment)}`);
  }
}
