// Undeclared objects that use a replaced type. They would keep the old type, so the plan rejects them.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { sql } from '../../../postgres/sql.ts';
import { type Desired } from '../../schema/desired.ts';
import { isReplacedType } from '../../schema/label.ts';
import type { Live, LiveType } from '../../schema/live/live-schema.ts';
import type { Ownership } from '../../schema/managed.ts';
import { objectKey } from '../../schema/model.ts';
import { problem, type MigrationProblem } from '../../problem.ts';

export async function unmanagedUsersOfReplacedTypes(
  session: Queryable,
  desired: Desired,
  types: Live['types'],
  owned: Ownership,
): Promise<MigrationProblem[]> {
  const replaced = [...types.values()].filter((type) => isReplacedType(type.name));
  const oids = replaced.map((type) => type.oid);
  if (oids.length === 0) return [];
  const tables = [...owned.tables.keys(), ...owned.retiredTables.keys()];
  const columns = [
    ...desired.tables.flatMap((table) => table.columns.map((column) => `${objectKey(table)}.${column.name}`)),
    ...[...owned.tables].flatMap(([key, table]) => table.columns.map((column) => `${key}.${column}`)),
    ...owned.retiredColumns,
  ];
  const functions = [...desired.functions, ...owned.functions.values()].map(objectKey);
  const declared = desired.tables.map(objectKey);
  const rows = await session.query<{ what: string }>(sql`
    select distinct pg_describe_object(d.classid, d.objid, d.objsubid) as what
    from pg_type t
    join pg_depend d on d.refclassid = 'pg_type'::regclass and d.refobjid in (t.oid, t.typarray) and d.deptype = 'n'
    left join pg_class c on d.classid = 'pg_class'::regclass and c.oid = d.objid
    left join pg_attribute a on a.attrelid = c.oid and a.attnum = d.objsubid
    left join pg_proc p on d.classid = 'pg_proc'::regclass and p.oid = d.objid
    join pg_namespace n on n.oid = coalesce(c.relnamespace, p.pronamespace,
      (select k.typnamespace from pg_type k where d.classid = 'pg_type'::regclass and k.oid = d.objid))
    where t.oid = any (${oids}::oid[]) and case
      when p.oid is not null then n.nspname || '.' || p.proname <> all (${functions})
      when c.relkind in ('r', 'p') then n.nspname || '.' || c.relname || '.' || a.attname <> all (${columns})
        and (n.nspname || '.' || c.relname <> all (${tables}) or n.nspname || '.' || c.relname = any (${declared}))
      else c.oid is null or c.relkind = 'c' end
    order by 1`);
  return rows.map(({ what }) =>
    problem(
      'MIG-304',
      'types',
      `${underFormerNames(what, replaced)} is not in the file and has a type that loses values or gets another order`,
      'Declare it, or give it another type first.',
    ),
  );
}

/** Replaces temporary names of types by their names before this run. */
function underFormerNames(text: string, replaced: readonly LiveType[]): string {
  return replaced.reduce((result, { name, former }) => result.replaceAll(name, former?.name ?? name), text);
}
