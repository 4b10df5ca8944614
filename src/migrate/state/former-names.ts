// Reads and writes the renames of the applied file, for instances that still serve an older file. They are written in
// the transaction that renames, so that an instance that reads a new name in the catalog can look up its earlier name.
import type { Rename } from '../../catalog/catalog.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw, sql } from '../../postgres/sql.ts';
import { type SchemaModel, declaredViews } from '../schema/model.ts';

/** Lists every `renamed_from` of a file. */
export function listRenames(model: SchemaModel): Rename[] {
  const renames: Rename[] = [];
  const add = (
    kind: Rename['kind'],
    schema: string,
    of: string | null,
    { name, renamedFrom = null }: { readonly name: string; readonly renamedFrom?: string | null },
  ): void => {
    if (renamedFrom !== null && renamedFrom !== name)
      renames.push({ kind, schema, of, from: renamedFrom, to: name });
  };
  for (const table of model.tables) {
    add('relation', table.schema, null, table);
    for (const column of table.columns) add('relation', table.schema, table.name, column);
  }
  for (const view of declaredViews(model)) add('relation', view.schema, null, view);
  for (const fn of model.functions) {
    add('routine', fn.schema, null, fn);
    for (const arg of fn.args) add('routine', fn.schema, fn.name, arg);
  }
  return renames;
}

/** Returns true if the renames have changed. */
export async function writeRenames(session: Queryable, model: SchemaModel): Promise<boolean> {
  const wanted = JSON.stringify(
    listRenames(model).map(({ kind, schema, of, from, to }) => [kind, schema, of ?? '', from, to]),
  );
  const [row] = await session.query<{ changed: boolean }>(sql`
    with wanted as (
      select e ->> 0 as kind, e ->> 1 as schema_name, e ->> 2 as of_name, e ->> 3 as from_name, e ->> 4 as to_name
      from jsonb_array_elements(${wanted} :: jsonb) e
    ), gone as (
      delete from svc_meta.rename r where not exists (select from wanted w where w = r) returning 1
    ), new as (
      insert into svc_meta.rename
      select distinct * from wanted w where not exists (select from svc_meta.rename r where w = r) returning 1
    )
    select exists (select from gone) or exists (select from new) as changed`);
  return row?.changed === true;
}

export async function readRenames(db: Queryable): Promise<Rename[]> {
  return db.query<Rename>(
    raw(
      `select kind, schema_name as schema, nullif(of_name, '') as of, from_name as "from", to_name as "to"
       from svc_meta.rename`,
    ),
  );
}
