// Reads and sets sequence positions, so that the next row gets an unused number.
import type { Queryable } from '../owner-database.ts';
import { sql } from '../sql.ts';

export type Sequence = { readonly key: string; readonly oid: number; readonly last: string | null };

/**
 * Reads sequences outside the schemas `except`. An owned sequence is keyed by its column, because its name can differ
 * between databases.
 */
export async function readSequences(db: Queryable, except: readonly string[]): Promise<Sequence[]> {
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
    where s.schemaname <> all (${[...except]})`);
}

export type SequencePosition = { readonly oid: number; readonly last: string };

/** Returns the sequences of `here` whose position differs from the same sequence of `there`. */
export function differingSequences(
  there: readonly Pick<Sequence, 'key' | 'last'>[],
  here: readonly Sequence[],
): readonly SequencePosition[] {
  const wanted = new Map(there.map(({ key, last }) => [key, last]));
  return here.flatMap(({ key, oid, last: now }) => {
    const last = wanted.get(key);
    return last === undefined || last === null || last === now ? [] : [{ oid, last }];
  });
}

export async function moveSequences(
  target: Queryable,
  standings: readonly SequencePosition[],
): Promise<void> {
  for (const { oid, last } of standings)
    await target.query(sql`select setval(${oid}::oid::regclass, ${last}::bigint)`);
}
