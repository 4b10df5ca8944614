// Reads the catalog of the exposed schemas in one query, plus one for views. The combination of this snapshot with
// the file decides which relations a caller can name.
import { groupBy } from '../lib/group-by.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import { raw, sql } from '../postgres/sql.ts';
import {
  REQUEST_SETTINGS,
  qualifiedKey,
  type Catalog,
  type Column,
  type Relation,
  type Routine,
  type RoutineArg,
  type RoutineResult,
} from './catalog.ts';
import { columnOrigins } from './column-origins.ts';

export async function introspect(db: Queryable, schemas: readonly string[]): Promise<Catalog> {
  const [row] = await db.query<CatalogRow>(
    sql`select ${raw(SERVER_VERSION)}, ${raw(RELATIONS)}, ${raw(ROUTINES)}, ${raw(USED_SETTINGS)},
      ${raw(HAS_EXTENSIONS)}, ${raw(HAS_GEOJSON)} from (select ${schemas} :: text[] as schemas) as wanted`,
  );
  if (!row) throw new Error('the catalog query returned no row');
  const rows = row.relations ?? [];
  const origins = await columnOrigins(db, rows);
  const relations = rows.map((row) => toRelation(row, origins.get(row.oid)));
  const routines = (row.routines ?? []).map(toRoutine);
  return {
    schemas,
    serverVersion: row.server_version,
    hasExtensions: row.has_extensions,
    hasGeoJson: row.has_geojson,
    usedSettings: new Set(REQUEST_SETTINGS.filter((setting) => row.used_settings?.includes(setting))),
    relations: new Map(relations.map((candidate) => [qualifiedKey(candidate), candidate])),
    routines: groupBy(routines, qualifiedKey),
  };
}

function columnNames(relation: string, numbers: string): string {
  return `(select json_agg(a.attname order by u.position) from unnest(${numbers}) with ordinality as u(number, position)
    join pg_attribute a on a.attrelid = ${relation} and a.attnum = u.number)`;
}

const RELATION_KINDS_SQL = `('r', 'v', 'm', 'f', 'p')`;

/** `schema.name` of the relation that a composite type is the row of. */
function rowRelation(type: string): string {
  return `(select rn.nspname || '.' || rc.relname from pg_class rc join pg_namespace rn on rn.oid = rc.relnamespace
    where rc.oid = ${type}.typrelid and rc.relkind in ${RELATION_KINDS_SQL})`;
}

const HAS_EXTENSIONS = `exists (select from pg_extension e
    where e.extnamespace = to_regnamespace('extensions')) as has_extensions`;

const HAS_GEOJSON = `exists (select from pg_proc p where p.proname = 'st_asgeojson'
    and p.proargtypes[0] = 'record'::regtype and p.pronamespace in (to_regnamespace('public'), to_regnamespace('extensions'))) as has_geojson`;

const SERVER_VERSION = `current_setting('server_version_num')::int as server_version`;

// Joins sets, because a subquery per column would dominate the start with a thousand tables. Partitions
// (relispartition) are parts of their parent, not resources.
const RELATIONS = `(
  with exposed as materialized (
    select c.oid, n.nspname, c.relname, c.relkind, c.relrowsecurity, c.reltuples
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = any (wanted.schemas)
      and c.relkind in ${RELATION_KINDS_SQL}
      and not c.relispartition
  ), enums as materialized (
    select enumtypid, json_agg(enumlabel order by enumsortorder) as labels from pg_enum group by enumtypid
  ), domains as materialized (
    with recursive steps as (
      select oid as domain, typbasetype as base from pg_type where typtype = 'd'
      union all
      select steps.domain, t.typbasetype from steps join pg_type t on t.oid = steps.base and t.typtype = 'd'
    )
    select steps.domain, steps.base from steps join pg_type t on t.oid = steps.base and t.typtype <> 'd'
  ), columns as materialized (
    select a.attrelid, json_agg(json_build_object(
      'number', a.attnum,
      'name', a.attname,
      'type', format_type(a.atttypid, a.atttypmod),
      'baseType', base.typname,
      'category', base.typcategory,
      'notNull', a.attnotnull,
      'default', coalesce(pg_get_expr(d.adbin, d.adrelid), pg_get_expr(t.typdefaultbin, 0)),
      'identity', a.attidentity,
      'generated', a.attgenerated,
      'comment', note.description,
      'readableBy', case when a.attacl is not null then (
        select json_agg(r.rolname) from aclexplode(a.attacl) x join pg_roles r on r.oid = x.grantee
        where x.privilege_type = 'SELECT' and not has_table_privilege(r.oid, a.attrelid, 'select')) end,
      'enumLabels', coalesce(own.labels, items.labels)
    ) order by a.attnum) as list
    from pg_attribute a
    join exposed on exposed.oid = a.attrelid
    join pg_type t on t.oid = a.atttypid
    left join domains on domains.domain = t.oid
    join pg_type base on base.oid = coalesce(domains.base, t.oid)
    left join enums own on own.enumtypid = base.oid
    left join enums items on items.enumtypid = base.typelem
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    left join pg_description note
      on note.classoid = 'pg_class'::regclass and note.objoid = a.attrelid and note.objsubid = a.attnum
    where a.attnum > 0 and not a.attisdropped
    group by a.attrelid
  ), keys as materialized (
    select k.conrelid, json_agg(json_build_object('type', k.contype, 'columns',
      ${columnNames('k.conrelid', 'k.conkey')})
      order by k.contype, k.conname) as list
    from pg_constraint k
    join exposed on exposed.oid = k.conrelid
    where k.contype in ('p', 'u')
    group by k.conrelid
  ), foreign_keys as materialized (
    select k.conrelid, json_agg(json_build_object(
      'constraint', k.conname,
      'columns', ${columnNames('k.conrelid', 'k.conkey')},
      'targetSchema', tn.nspname,
      'targetName', tc.relname,
      'targetColumns', ${columnNames('k.confrelid', 'k.confkey')}
    ) order by k.conname) as list
    from pg_constraint k
    join exposed on exposed.oid = k.conrelid
    join pg_class tc on tc.oid = k.confrelid
    join pg_namespace tn on tn.oid = tc.relnamespace
    where k.contype = 'f' and k.conparentid = 0
    group by k.conrelid
  )
  select json_agg(json_build_object(
    'oid', c.oid::int8,
    'schema', c.nspname,
    'name', c.relname,
    'kind', c.relkind,
    'comment', obj_description(c.oid, 'pg_class'),
    'rowSecurity', c.relrowsecurity,
    'estimatedRows', c.reltuples,
    'updatability', pg_relation_is_updatable(c.oid, true),
    'columns', columns.list,
    'keys', keys.list,
    'foreignKeys', foreign_keys.list
  ) order by c.nspname, c.relname)
  from exposed c
  left join columns on columns.attrelid = c.oid
  left join keys on keys.conrelid = c.oid
  left join foreign_keys on foreign_keys.conrelid = c.oid
) as relations`;

const ROUTINES = `(
  select json_agg(json_build_object(
    'schema', n.nspname,
    'name', p.proname,
    'comment', obj_description(p.oid, 'pg_proc'),
    'volatility', p.provolatile,
    'isSetOf', p.proretset,
    'isSingleRow', p.proretset and p.prorows = 1,
    'returnType', format_type(p.prorettype, null),
    'returnBaseType', rt.typname,
    'returnKind', rt.typtype,
    'returnRelation', ${rowRelation('rt')},
    'defaults', p.pronargdefaults,
    'args', (
      select json_agg(json_build_object(
        'name', coalesce(p.proargnames[i], ''),
        'type', format_type(t.oid, null),
        'baseType', base.typname,
        'relation', ${rowRelation('t')},
        'mode', coalesce(p.proargmodes[i]::text, 'i')
      ) order by i)
      from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as x(type_oid, i)
      join pg_type t on t.oid = x.type_oid
      join pg_type base on base.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end
    )
  ) order by n.nspname, p.proname, p.oid)
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace
  join pg_type rt on rt.oid = p.prorettype
  where n.nspname = any (wanted.schemas)
    and p.prokind = 'f'
    and rt.typname not in ('trigger', 'event_trigger')
    and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid
      and d.deptype = 'e')
) as routines`;

/**
 * Whether the stored expression may name a setting. Deparsing every expression would take longer than the rest of
 * this query, and few name a setting: as a constant, whose stored form lists its bytes in decimal, or in a call of a
 * function for settings.
 */
function canName(expression: string): string {
  const bytes = (text: string): string => `' ${[...Buffer.from(text)].join(' ')} '`;
  const call = (name: string): string =>
    `(select ':funcid ' || 'pg_catalog.${name}'::regprocedure::oid || ' ')`;
  const parts = [
    bytes('request.'),
    bytes('response.'),
    call('current_setting(text)'),
    call('current_setting(text,boolean)'),
    call('set_config(text,text,boolean)'),
  ];
  return `(${parts.map((part) => `strpos(${expression}::text, ${part}) > 0`).join(' or ')})`;
}

// Finds names of settings in all SQL text that may run for a request. A name built at run time cannot be found, so a
// call without a constant setting counts for all of them, and so does `'request.'` or `'response.'` alone.
const USED_SETTINGS = `(
  with texts as (
    select prosrc as body from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      where n.nspname not in ('pg_catalog', 'information_schema')
    union all select pg_get_function_sqlbody(p.oid) from pg_proc p where p.prosqlbody is not null
    union all select pg_get_expr(polqual, polrelid) from pg_policy where ${canName('polqual')}
    union all select pg_get_expr(polwithcheck, polrelid) from pg_policy where ${canName('polwithcheck')}
    union all select pg_get_expr(adbin, adrelid) from pg_attrdef where ${canName('adbin')}
    union all select pg_get_constraintdef(oid) from pg_constraint where contype = 'c' and ${canName('conbin')}
    union all select definition from pg_views where schemaname not in ('pg_catalog', 'information_schema')
  ), mentions as (
    select case when m[2] is null then null else m[1] || '.' || m[2] end as name
      from texts, regexp_matches(body, '(request|response)\\.(?:(headers|cookies|method|path|status)|''|\\|)', 'g') as m
    union all select null from texts
      where body ~* '(?:current_setting|set_config)\\s*\\(\\s*(?!''[^'']*''\\s*(?:::\\s*text\\s*)?[,)])'
  )
  select array_agg(distinct found) from mentions, unnest(case when name is null then array['request.headers',
    'request.cookies', 'request.method', 'request.path', 'response.headers', 'response.status']
    else array[name] end) as found
) as used_settings`;

type CatalogRow = {
  server_version: number;
  has_extensions: boolean;
  has_geojson: boolean;
  relations: RelationRow[] | null;
  routines: RoutineRow[] | null;
  used_settings: string[] | null;
};

type RelationRow = Pick<Relation, 'schema' | 'name' | 'comment' | 'rowSecurity' | 'estimatedRows'> & {
  oid: number;
  kind: string;
  updatability: number;
  columns: ColumnRow[] | null;
  keys: { type: string; columns: string[] }[] | null;
  foreignKeys: Relation['foreignKeys'] | null;
};

type ColumnRow = Omit<Column, 'generated'> & { number: number; identity: string; generated: string };

type RoutineRow = Omit<Routine, 'volatility' | 'args' | 'returns'> & {
  volatility: string;
  returnType: string;
  returnBaseType: string;
  returnKind: string;
  returnRelation: string | null;
  defaults: number;
  args: (Omit<RoutineArg, 'hasDefault' | 'variadic'> & { mode: string })[] | null;
};

const RELATION_KINDS: Record<string, Relation['kind']> = {
  r: 'table',
  v: 'view',
  m: 'materialized-view',
  f: 'foreign-table',
  p: 'partitioned-table',
};

// Bits of pg_relation_is_updatable: the command types' numbers as shifts (CMD_UPDATE 2, CMD_INSERT 3, CMD_DELETE 4).
const UPDATABLE = 1 << 2;
const INSERTABLE = 1 << 3;
const DELETABLE = 1 << 4;

function toRelation(row: RelationRow, origins: Relation['origins'] = {}): Relation {
  const { oid: _, updatability, keys: found, ...rest } = row;
  const keys = found ?? [];
  return {
    ...rest,
    kind: RELATION_KINDS[row.kind] ?? 'table',
    columns: (row.columns ?? []).map(toColumn),
    primaryKey: keys.find((key) => key.type === 'p')?.columns ?? [],
    uniqueKeys: keys.map((key) => key.columns),
    foreignKeys: row.foreignKeys ?? [],
    insertable: (updatability & INSERTABLE) !== 0,
    updatable: (updatability & UPDATABLE) !== 0,
    deletable: (updatability & DELETABLE) !== 0,
    origins,
  };
}

function toColumn(row: ColumnRow): Column {
  const { number: _, identity, generated, ...rest } = row;
  if (identity !== '') {
    return { ...rest, generated: identity === 'a' ? 'always' : 'by-default', default: 'identity' };
  }
  return { ...rest, generated: generated === '' ? null : 'stored' };
}

const VOLATILITIES: Record<string, Routine['volatility']> = { v: 'volatile', s: 'stable', i: 'immutable' };

function toRoutine(row: RoutineRow): Routine {
  const all = row.args ?? [];
  const inputs = all.filter((arg) => 'ibv'.includes(arg.mode));
  // Defaults always belong to the last input parameters.
  const firstDefault = inputs.length - row.defaults;
  const args = inputs.map(({ mode, ...arg }, index) => ({
    ...arg,
    hasDefault: index >= firstDefault,
    variadic: mode === 'v',
  }));
  const outputs = all.filter((arg) => 'obt'.includes(arg.mode));
  return {
    schema: row.schema,
    name: row.name,
    comment: row.comment,
    volatility: VOLATILITIES[row.volatility] ?? 'volatile',
    args,
    isSetOf: row.isSetOf,
    isSingleRow: row.isSingleRow,
    returns: toResult(row, outputs),
  };
}

function toResult(
  row: RoutineRow,
  outputs: ReadonlyArray<Pick<RoutineArg, 'name' | 'type' | 'baseType'>>,
): RoutineResult {
  if (outputs.length > 0) {
    return {
      kind: 'columns',
      columns: outputs.map(({ name, type, baseType }) => ({ name, type, baseType })),
    };
  }
  if (row.returnBaseType === 'void') return { kind: 'void' };
  if (row.returnBaseType === 'record') return { kind: 'record' };
  if (row.returnKind === 'c')
    return { kind: 'composite', type: row.returnType, relation: row.returnRelation };
  return { kind: 'scalar', type: row.returnType, baseType: row.returnBaseType };
}
