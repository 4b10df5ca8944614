// Where sequences stand: the next row of the application gets a number that the source has not given.
import { join, literal, sql } from '../postgres/sql.ts';
import type { Connected } from './source.ts';
import { NOT_OF_THE_PROJECT } from './tables.ts';

type Sequence = { readonly key: string; readonly oid: number; readonly last: string | null };

/** One that a column owns is known by its column: its own name may be another here. */
async function readSequences(db: Connected): Promise<Sequence[]> {
  return await db.query<Sequence>(sql`
    select c.oid, s.last_value::text as last,
      case when a.attname is not null then json_build_array(tn.nspname, t.relname, a.attname)::text
        else json_build_array(s.schemaname, s.sequencename)::text end as key
    from pg_sequences s
    join pg_namespace n on n.nspname = s.schemaname
    join pg_class c on c.relnamespace = n.oid and c.relname = s.sequencename
    left join (
      pg_depend d join pg_class t on t.oid = d.refobjid join pg_namespace tn on tn.oid = t.relnamespace
      join pg_attribute a on a.attrelid = t.oid and a.attnum = d.refobjsubid
    ) on d.classid = 'pg_class'::regclass and d.objid = c.oid and d.refclassid = 'pg_class'::regclass
      and d.deptype in ('a', 'i')
    where s.schemaname not in (${join(NOT_OF_THE_PROJECT.map(literal))})`);
}

export type Standing = { readonly oid: number; readonly last: string };

/** Those here that stand elsewhere than there. */
export async function compareSequences(source: Connected, target: Connected): Promise<readonly Standing[]> {
  const there = new Map((await readSequences(source)).map(({ key, last }) => [key, last]));
  return (await readSequences(target)).flatMap(({ key, oid, last: here }) => {
    const last = there.get(key);
    return last === undefined || last === null || last === here ? [] : [{ oid, last }];
  });
}

export async function moveSequences(target: Connected, standings: readonly Standing[]): Promise<void> {
  for (const { oid, last } of standings)
    await target.query(sql`select setval(${oid}::oid::regclass, ${last}::bigint)`);
}
