// Reads which objects of the database use which other objects: from `pg_depend`, and from names in function bodies.
import { qualifiedNames } from '../../../lib/sql/sql-text.ts';
import type { Queryable } from '../../../postgres/owner-database.ts';
import { raw, sql } from '../../../postgres/sql.ts';

export type Use = {
  /** Object that cannot be created without the used object. */
  readonly object: string;
  readonly uses: string;
  /** `schema.name` of a used function. Empty for other objects. */
  readonly name: string;
  /** Schema of the used object. */
  readonly schema: string;
  /** Extension of the used object. */
  readonly extension: string | null;
};

/**
 * Selects every object that others can use, by class, OID and column number. Row types count as their relation, arrays
 * as their element type, domain constraints as the domain and defaults as their column.
 */
const OBJECTS = `
  select 'pg_class'::regclass::oid as class, c.oid as oid, 0 as sub, n.nspname as schema, case c.relkind
      when 'S' then 'sequence ' || n.nspname || '.' || c.relname
      when 'c' then 'type ' || n.nspname || '.' || c.relname
      when 'i' then (select 'index ' || tn.nspname || '.' || t.relname || ' ' || c.relname from pg_index i
        join pg_class t on t.oid = i.indrelid join pg_namespace tn on tn.oid = t.relnamespace where i.indexrelid = c.oid)
      when 'I' then (select 'index ' || tn.nspname || '.' || t.relname || ' ' || c.relname from pg_index i
        join pg_class t on t.oid = i.indrelid join pg_namespace tn on tn.oid = t.relnamespace where i.indexrelid = c.oid)
      else 'relation ' || n.nspname || '.' || c.relname end as key, '' as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relkind <> 't'
  union all select 'pg_class'::regclass::oid, c.oid, a.attnum, n.nspname,
      case c.relkind when 'c' then 'type ' || n.nspname || '.' || c.relname else 'column ' || n.nspname || '.' || c.relname || ' ' || a.attname end, ''
    from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relkind in ('r', 'p', 'f', 'v', 'm', 'c')
  union all select 'pg_proc'::regclass::oid, p.oid, 0, n.nspname, 'function ' || p.oid, n.nspname || '.' || p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
  union all select 'pg_type'::regclass::oid, t.oid, 0, n.nspname,
      case when c.relkind in ('r', 'p', 'f', 'v', 'm') then 'relation ' else 'type ' end || n.nspname || '.' || b.typname, ''
    from pg_type t left join pg_type e on e.typarray = t.oid left join pg_range r on r.rngmultitypid = coalesce(e.oid, t.oid)
      join pg_type b on b.oid = coalesce(r.rngtypid, e.oid, t.oid) join pg_namespace n on n.oid = b.typnamespace left join pg_class c on c.oid = b.typrelid
  union all select 'pg_policy'::regclass::oid, o.oid, 0, n.nspname, 'policy ' || n.nspname || '.' || c.relname || ' ' || o.polname, ''
    from pg_policy o join pg_class c on c.oid = o.polrelid join pg_namespace n on n.oid = c.relnamespace
  union all select 'pg_trigger'::regclass::oid, o.oid, 0, n.nspname, 'trigger ' || n.nspname || '.' || c.relname || ' ' || o.tgname, ''
    from pg_trigger o join pg_class c on c.oid = o.tgrelid join pg_namespace n on n.oid = c.relnamespace where not o.tgisinternal
  union all select 'pg_attrdef'::regclass::oid, o.oid, 0, n.nspname,
      'column ' || n.nspname || '.' || c.relname || ' ' || a.attname, ''
    from pg_attrdef o join pg_class c on c.oid = o.adrelid join pg_namespace n on n.oid = c.relnamespace
      join pg_attribute a on a.attrelid = o.adrelid and a.attnum = o.adnum
  union all select 'pg_constraint'::regclass::oid, o.oid, 0, n.nspname,
      case when o.contypid <> 0 then 'type ' || n.nspname || '.' || t.typname else 'constraint ' || n.nspname || '.' || c.relname || ' ' || o.conname end, ''
    from pg_constraint o left join pg_class c on c.oid = o.conrelid left join pg_type t on t.oid = o.contypid
      join pg_namespace n on n.oid = coalesce(c.relnamespace, t.typnamespace)
  union all select 'pg_rewrite'::regclass::oid, o.oid, 0, n.nspname,
      case when o.rulename = '_RETURN' then 'relation ' || n.nspname || '.' || c.relname else 'statement pg_rewrite/' || o.oid end, ''
    from pg_rewrite o join pg_class c on c.oid = o.ev_class join pg_namespace n on n.oid = c.relnamespace
  union all select 'pg_operator'::regclass::oid, o.oid, 0, n.nspname, 'statement pg_operator/' || o.oid, '' from pg_operator o join pg_namespace n on n.oid = o.oprnamespace
  union all select 'pg_collation'::regclass::oid, o.oid, 0, n.nspname, 'statement pg_collation/' || o.oid, '' from pg_collation o join pg_namespace n on n.oid = o.collnamespace
  union all select 'pg_opclass'::regclass::oid, o.oid, 0, n.nspname, 'operator class ' || n.nspname || '.' || o.opcname, '' from pg_opclass o join pg_namespace n on n.oid = o.opcnamespace
  union all select 'pg_ts_config'::regclass::oid, o.oid, 0, n.nspname, 'statement pg_ts_config/' || o.oid, '' from pg_ts_config o join pg_namespace n on n.oid = o.cfgnamespace
  union all select 'pg_ts_dict'::regclass::oid, o.oid, 0, n.nspname, 'statement pg_ts_dict/' || o.oid, '' from pg_ts_dict o join pg_namespace n on n.oid = o.dictnamespace
  union all select 'pg_statistic_ext'::regclass::oid, o.oid, 0, n.nspname, 'statement pg_statistic_ext/' || o.oid, '' from pg_statistic_ext o join pg_namespace n on n.oid = o.stxnamespace
  union all select 'pg_cast'::regclass::oid, o.oid, 0, '', 'statement pg_cast/' || o.oid, '' from pg_cast o`;

type ObjectRow = {
  readonly class: string;
  readonly oid: string;
  readonly sub: number;
  readonly schema: string;
  readonly key: string;
  readonly name: string;
};

type EdgeRow = {
  readonly class: string;
  readonly oid: string;
  readonly sub: number;
  readonly refClass: string;
  readonly refOid: string;
  readonly refSub: number;
  readonly extension: string | null;
};

const ON_SVC_TABLES = /^(policy (storage\.objects|realtime\.messages)|trigger auth\.users) /;

/** Returns uses by objects of these schemas, and by policies and triggers on tables of svc. */
export async function readUses(session: Queryable, schemas: readonly string[]): Promise<readonly Use[]> {
  // Joined here, because a new database has no statistics of its catalog and would choose a nested loop.
  const rows = await session.query<ObjectRow>(sql`
    select class::text as class, oid::text as oid, sub, schema, key, name from (${raw(OBJECTS)}) object
      where oid >= 16384`);
  const edges = await session.query<EdgeRow>(sql`
    select d.classid::text as class, d.objid::text as oid, d.objsubid as sub, d.refclassid::text as "refClass",
      d.refobjid::text as "refOid", d.refobjsubid as "refSub", null as extension
    from pg_depend d where d.deptype in ('n', 'a', 'i') and d.objid >= 16384 and d.refobjid >= 16384
    union all select m.classid::text, m.objid::text, 0, '', '', 0, x.extname::text
    from pg_depend m join pg_extension x on x.oid = m.refobjid where m.deptype = 'e'
      and m.refclassid = 'pg_extension'::regclass`);
  const objects = new Map(rows.map((row) => [catalogAddress(row.class, row.oid, row.sub), row]));
  const members = new Map(
    edges.flatMap((edge) =>
      edge.extension === null ? [] : [[`${edge.class}/${edge.oid}`, edge.extension] as const],
    ),
  );
  const uses = new Map<string, Use>();
  for (const edge of edges) {
    const object = objects.get(catalogAddress(edge.class, edge.oid, edge.sub));
    if (object === undefined || edge.refOid === '' || members.has(`${edge.class}/${edge.oid}`)) continue;
    const isWanted =
      schemas.includes(object.schema) ||
      object.key.startsWith('statement ') ||
      ON_SVC_TABLES.test(object.key);
    if (!isWanted) continue;
    // An object that uses a column also uses its table.
    for (const sub of new Set([edge.refSub, 0])) {
      const used = objects.get(catalogAddress(edge.refClass, edge.refOid, sub));
      if (used === undefined || used.key === object.key) continue;
      const extension = members.get(`${edge.refClass}/${edge.refOid}`) ?? null;
      const { key, name, schema } = used;
      uses.set(JSON.stringify([object.key, key]), { object: object.key, uses: key, name, schema, extension });
    }
  }
  for (const use of await readUsesInBodies(session, schemas, rows, members)) {
    uses.set(JSON.stringify([use.object, use.uses]), use);
  }
  return [...uses.values()];
}

/** svc creates these schemas, so a body can use their objects. PostgreSQL checks the body. */
const MADE_BY_SVC = ['auth', 'storage', 'realtime'];

/** Returns the objects outside of `schemas` that function bodies name with their schema. */
async function readUsesInBodies(
  session: Queryable,
  schemas: readonly string[],
  rows: readonly ObjectRow[],
  members: ReadonlyMap<string, string>,
): Promise<Use[]> {
  const bodies = await session.query<{ key: string; body: string }>(sql`
    select 'function ' || p.oid as key, p.prosrc as body
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace join pg_language l on l.oid = p.prolang
    where n.nspname = any (${[...schemas]}) and l.lanname in ('sql', 'plpgsql') and p.prosqlbody is null`);
  const outside = new Map(
    rows.flatMap((row) => {
      if (schemas.includes(row.schema) || MADE_BY_SVC.includes(row.schema)) return [];
      const isNamed = row.sub === 0 && /^(relation|function) /.test(row.key);
      return isNamed ? [[row.name === '' ? row.key : `function ${row.name}`, row] as const] : [];
    }),
  );
  return bodies.flatMap(({ key: object, body }) =>
    qualifiedNames(body).flatMap(({ schema, name, isCall }): Use[] => {
      const used = outside.get(`${isCall ? 'function' : 'relation'} ${schema}.${name}`);
      if (used === undefined) return [];
      const extension = members.get(`${used.class}/${used.oid}`) ?? null;
      return [{ object, uses: used.key, name: used.name, schema, extension }];
    }),
  );
}

function catalogAddress(catalog: string, oid: string, sub: number): string {
  return `${catalog}/${oid}/${sub}`;
}
