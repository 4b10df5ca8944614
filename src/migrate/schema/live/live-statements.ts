// What the catalog knows of objects that no key declares: their identity, and statements that would make them again. Where
// the server has no function that prints one, its row is written as the statement, with names in place of identifiers.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { join, quoteLiteral, raw, sql, type Sql } from '../../../postgres/sql.ts';
import { type LiveStatement, STATEMENT_KINDS, type StatementKind } from '../statements.ts';

type Catalog = {
  readonly class: string;
  /** `o` is the row of the object, `n` its schema. */
  readonly from: string;
  readonly name: string;
  /** What has none goes with something else. */
  readonly owner?: string;
  /** An array of statements. */
  readonly definition: string;
  /** `schema.name` of what it is of. */
  readonly host?: string;
  /** Why a file cannot say it, or null. */
  readonly beyond?: string;
};

const qualified = (schema: string, name: string): string => `format('%I.%I', ${schema}, ${name})`;
const operatorNamed = (oid: string): string =>
  `(select format('OPERATOR(%I.%s)', pn.nspname, p.oprname) from pg_operator p join pg_namespace pn on pn.oid = p.oprnamespace where p.oid = ${oid})`;
/** `SFUNC = name`, where there is one. */
const functionOf = (option: string, column: string): string =>
  `case when ${column} <> 0 then '${option} = ' || ${column}::oid::regproc end`;
const typeOf = (option: string, column: string): string =>
  `case when ${column} <> 0 then '${option} = ' || format_type(${column}, null) end`;
const MODIFY = `case %s when 'r' then 'READ_ONLY' when 's' then 'SHAREABLE' else 'READ_WRITE' end`;
const modifyOf = (option: string, column: string, isThere: string): string =>
  `case when ${isThere} <> 0 and ${column} <> case a.aggkind when 'n' then 'r' else 'w' end then '${option} = ' || ${MODIFY.replace('%s', column)} end`;

const CATALOGS: Readonly<Record<StatementKind, Catalog>> = {
  aggregate: {
    class: 'pg_proc',
    from: `pg_proc o join pg_aggregate a on a.aggfnoid = o.oid join pg_namespace n on n.oid = o.pronamespace`,
    owner: 'o.proowner',
    name: 'o.proname',
    definition: `array[format('CREATE AGGREGATE %I.%I(%s) (%s)', n.nspname, o.proname,
      case when o.pronargs = 0 then '*' else pg_get_function_arguments(o.oid) end, concat_ws(', ',
      'SFUNC = ' || a.aggtransfn::oid::regproc, 'STYPE = ' || format_type(a.aggtranstype, null),
      case when a.aggtransspace <> 0 then 'SSPACE = ' || a.aggtransspace end,
      ${functionOf('FINALFUNC', 'a.aggfinalfn')}, case when a.aggfinalextra then 'FINALFUNC_EXTRA' end,
      ${modifyOf('FINALFUNC_MODIFY', 'a.aggfinalmodify', 'a.aggfinalfn')},
      ${functionOf('COMBINEFUNC', 'a.aggcombinefn')}, ${functionOf('SERIALFUNC', 'a.aggserialfn')}, ${functionOf('DESERIALFUNC', 'a.aggdeserialfn')},
      'INITCOND = ' || quote_literal(a.agginitval),
      ${functionOf('MSFUNC', 'a.aggmtransfn')}, ${functionOf('MINVFUNC', 'a.aggminvtransfn')}, ${typeOf('MSTYPE', 'a.aggmtranstype')},
      case when a.aggmtransspace <> 0 then 'MSSPACE = ' || a.aggmtransspace end,
      ${functionOf('MFINALFUNC', 'a.aggmfinalfn')}, case when a.aggmfinalextra then 'MFINALFUNC_EXTRA' end,
      ${modifyOf('MFINALFUNC_MODIFY', 'a.aggmfinalmodify', 'a.aggmfinalfn')},
      'MINITCOND = ' || quote_literal(a.aggminitval),
      'SORTOP = ' || ${operatorNamed('a.aggsortop')},
      case o.proparallel when 's' then 'PARALLEL = SAFE' when 'r' then 'PARALLEL = RESTRICTED' end,
      case when a.aggkind = 'h' then 'HYPOTHETICAL' end))]`,
    beyond: `case when 'internal'::regtype in (a.aggtranstype, a.aggmtranstype) then 'only a superuser makes one whose state is internal' end`,
  },
  statistics: {
    class: 'pg_statistic_ext',
    from: 'pg_statistic_ext o join pg_namespace n on n.oid = o.stxnamespace',
    owner: 'o.stxowner',
    name: 'o.stxname',
    host: `(select hn.nspname || '.' || h.relname from pg_class h join pg_namespace hn on hn.oid = h.relnamespace where h.oid = o.stxrelid)`,
    // Columns stand in the order of the table, which an online type change of one of them changes.
    definition: `array_remove(array[(select coalesce(replace(pg_get_statisticsobjdef(o.oid), ' ON ' || string_agg(quote_ident(a.attname), ', ' order by k.n), ' ON ' || string_agg(quote_ident(a.attname), ', ' order by a.attname)), pg_get_statisticsobjdef(o.oid))
      from unnest(o.stxkeys::int2[]) with ordinality as k(number, n) join pg_attribute a on a.attrelid = o.stxrelid and a.attnum = k.number), (select format('ALTER STATISTICS %I.%I SET STATISTICS %s', n.nspname, o.stxname, target)
      from (select to_jsonb(o) ->> 'stxstattarget') as t(target) where target <> '-1')], null)`,
  },
  type: {
    class: 'pg_type',
    from: `pg_type o join pg_range r on r.rngtypid = o.oid join pg_namespace n on n.oid = o.typnamespace
      join pg_type m on m.oid = r.rngmultitypid join pg_namespace mn on mn.oid = m.typnamespace join pg_type s on s.oid = r.rngsubtype
      join pg_opclass k on k.oid = r.rngsubopc join pg_namespace kn on kn.oid = k.opcnamespace`,
    owner: 'o.typowner',
    name: 'o.typname',
    definition: `array[format('CREATE TYPE %I.%I AS RANGE (%s)', n.nspname, o.typname, concat_ws(', ', 'SUBTYPE = ' || format_type(r.rngsubtype, null),
      case when not k.opcdefault then 'SUBTYPE_OPCLASS = ' || ${qualified('kn.nspname', 'k.opcname')} end,
      (select 'COLLATION = ' || ${qualified('cn.nspname', 'c.collname')} from pg_collation c join pg_namespace cn on cn.oid = c.collnamespace
        where c.oid = r.rngcollation and c.oid <> s.typcollation),
      ${functionOf('CANONICAL', 'r.rngcanonical')}, ${functionOf('SUBTYPE_DIFF', 'r.rngsubdiff')},
      -- The name that it would get anyway is left out.
      case when m.typname <> case when o.typname like '%range%' then regexp_replace(o.typname, 'range', 'multirange') else o.typname || '_multirange' end
        then 'MULTIRANGE_TYPE_NAME = ' || case when mn.nspname = 'public' then quote_ident(m.typname) else ${qualified('mn.nspname', 'm.typname')} end end))]`,
    beyond: `case when r.rngcanonical <> 0 then 'it has a CANONICAL function' end`,
  },
  rule: {
    class: 'pg_rewrite',
    from: `pg_rewrite o join pg_class c on c.oid = o.ev_class and o.rulename <> '_RETURN' and not c.relispartition join pg_namespace n on n.oid = c.relnamespace`,
    name: 'o.rulename',
    host: `n.nspname || '.' || c.relname`,
    definition: `array_remove(array[rtrim(pg_get_ruledef(o.oid), ';'),
      case when o.ev_enabled <> 'O' then format('ALTER TABLE %I.%I %s RULE %I', n.nspname, c.relname,
        case o.ev_enabled when 'D' then 'DISABLE' when 'R' then 'ENABLE REPLICA' else 'ENABLE ALWAYS' end, o.rulename) end], null)`,
    beyond: `case when o.ev_enabled <> 'O' then 'it is switched off, or on for replication' end`,
  },
  operator: {
    class: 'pg_operator',
    // Without a function it was only named by another operator.
    from: 'pg_operator o join pg_namespace n on n.oid = o.oprnamespace and o.oprcode <> 0',
    owner: 'o.oprowner',
    name: 'o.oprname',
    definition: `array[format('CREATE OPERATOR %I.%s (%s)', n.nspname, o.oprname, concat_ws(', ', 'FUNCTION = ' || o.oprcode::oid::regproc,
      ${typeOf('LEFTARG', 'o.oprleft')}, ${typeOf('RIGHTARG', 'o.oprright')},
      'COMMUTATOR = ' || ${operatorNamed('o.oprcom')}, 'NEGATOR = ' || ${operatorNamed('o.oprnegate')},
      ${functionOf('RESTRICT', 'o.oprrest')}, ${functionOf('JOIN', 'o.oprjoin')},
      case when o.oprcanhash then 'HASHES' end, case when o.oprcanmerge then 'MERGES' end))]`,
  },
  cast: {
    class: 'pg_cast',
    // It is in no schema: it counts as one of those in which its types and its function are.
    from: `pg_cast o join lateral (select min(cn.nspname::text) as nspname from pg_depend d
        left join pg_type t on d.refclassid = 'pg_type'::regclass and t.oid = d.refobjid
        left join pg_proc p on d.refclassid = 'pg_proc'::regclass and p.oid = d.refobjid
        join pg_namespace cn on cn.oid = coalesce(t.typnamespace, p.pronamespace) and $schemas
        where d.classid = 'pg_cast'::regclass and d.objid = o.oid) n on n.nspname is not null`,
    name: `''`,
    definition: `array[format('CREATE CAST (%s AS %s) %s%s', format_type(o.castsource, null), format_type(o.casttarget, null),
      case o.castmethod when 'f' then 'WITH FUNCTION ' || o.castfunc::regprocedure when 'i' then 'WITH INOUT' else 'WITHOUT FUNCTION' end,
      case o.castcontext when 'a' then ' AS ASSIGNMENT' when 'i' then ' AS IMPLICIT' else '' end)]`,
    beyond: `case when o.castmethod = 'b' then 'only a superuser makes one WITHOUT FUNCTION' end`,
  },
  collation: {
    class: 'pg_collation',
    from: 'pg_collation o join pg_namespace n on n.oid = o.collnamespace cross join lateral (select to_jsonb(o) as all) j',
    owner: 'o.collowner',
    name: 'o.collname',
    definition: `array[format('CREATE COLLATION %I.%I (%s)', n.nspname, o.collname, concat_ws(', ',
      'PROVIDER = ' || case o.collprovider when 'i' then 'icu' when 'b' then 'builtin' else 'libc' end,
      case when o.collprovider = 'c' then 'LC_COLLATE = ' || quote_literal(o.collcollate) end,
      case when o.collprovider = 'c' then 'LC_CTYPE = ' || quote_literal(o.collctype) end,
      -- Its name is another one from version to version.
      'LOCALE = ' || quote_literal(coalesce(j.all ->> 'colllocale', j.all ->> 'colliculocale')),
      'RULES = ' || quote_literal(j.all ->> 'collicurules'),
      case when not o.collisdeterministic then 'DETERMINISTIC = false' end))]`,
  },
  'text search dictionary': {
    class: 'pg_ts_dict',
    from: `pg_ts_dict o join pg_namespace n on n.oid = o.dictnamespace join pg_ts_template t on t.oid = o.dicttemplate join pg_namespace tn on tn.oid = t.tmplnamespace`,
    owner: 'o.dictowner',
    name: 'o.dictname',
    definition: `array[format('CREATE TEXT SEARCH DICTIONARY %I.%I (%s)', n.nspname, o.dictname,
      concat_ws(', ', 'TEMPLATE = ' || ${qualified('tn.nspname', 't.tmplname')}, nullif(o.dictinitoption, '')))]`,
  },
  'text search configuration': {
    class: 'pg_ts_config',
    from: `pg_ts_config o join pg_namespace n on n.oid = o.cfgnamespace join pg_ts_parser p on p.oid = o.cfgparser join pg_namespace pn on pn.oid = p.prsnamespace`,
    owner: 'o.cfgowner',
    name: 'o.cfgname',
    definition: `array[format('CREATE TEXT SEARCH CONFIGURATION %I.%I (PARSER = %s)', n.nspname, o.cfgname, ${qualified('pn.nspname', 'p.prsname')})]
      || array(select format('ALTER TEXT SEARCH CONFIGURATION %I.%I ADD MAPPING FOR %s WITH %s', n.nspname, o.cfgname,
          string_agg(quote_ident(alias), ', ' order by alias), dicts)
        from (select y.alias, string_agg(${qualified('dn.nspname', 'd.dictname')}, ', ' order by x.mapseqno) as dicts
          from pg_ts_config_map x join ts_token_type(o.cfgparser) y on y.tokid = x.maptokentype
          join pg_ts_dict d on d.oid = x.mapdict join pg_namespace dn on dn.oid = d.dictnamespace
          where x.mapcfg = o.oid group by y.alias) mapped group by dicts order by min(alias))`,
  },
};

/** Neither of an extension nor, as the cast of a range type to its ranges of ranges, of something else. */
const isOwn = (catalog: string): string =>
  `not exists (select from pg_depend e where e.classid = '${catalog}'::regclass and e.objid = o.oid and e.deptype in ('e', 'i'))`;

/** Objects of the kind in these schemas that belong to nothing else: `o` is the object, `n` its schema. */
function fromOf(kind: StatementKind, schemas: readonly string[]): string {
  const { class: catalog, from } = CATALOGS[kind];
  const list = `any (array[${schemas.map(quoteLiteral).join(', ')}]::text[])`;
  return `from ${from.replace('$schemas', () => `cn.nspname = ${list}`)} where n.nspname = ${list} and ${isOwn(catalog)}`;
}

/** Whether the row of `pg_depend` is of a constructor or cast that comes and goes with a range type. */
export const isOfRange = (row: string): string =>
  `(${row}.classid in ('pg_proc'::regclass, 'pg_cast'::regclass) and exists (select from pg_depend w
    where w.classid = ${row}.classid and w.objid = ${row}.objid and w.refclassid = 'pg_type'::regclass and w.deptype = 'i'))`;

/** Of a range type also by its arrays and its ranges of ranges. */
const isUsed = (catalog: string): string =>
  `exists (select from pg_depend u where not ${isOfRange('u')} and u.refclassid = '${catalog}'::regclass and u.deptype = 'n' and ${
    catalog === 'pg_type' ? 'u.refobjid in (o.oid, o.typarray, m.oid, m.typarray)' : 'u.refobjid = o.oid'
  })`;

const IDENTITY = (catalog: string): string =>
  `(select case i.type when 'statistics object' then 'statistics' else i.type end || ' ' || i.identity from pg_identify_object('${catalog}'::regclass, o.oid, 0) i)`;

export async function readStatements(
  session: Queryable,
  schemas: readonly string[],
): Promise<LiveStatement[]> {
  const parts = STATEMENT_KINDS.map((kind) => {
    const { class: catalog, name: column, definition, host = 'null', beyond = 'null' } = CATALOGS[kind];
    const callers =
      kind === 'aggregate'
        ? `(select coalesce(array_agg(distinct coalesce(r.rolname::text, 'public')), '{}')
          from aclexplode(coalesce(o.proacl, acldefault('f', o.proowner))) x left join pg_roles r on r.oid = x.grantee where x.grantee <> o.proowner)`
        : `'{}'::text[]`;
    return sql`select ${kind}::text as kind, ${raw(`'${catalog}/' || o.oid`)} as address, n.nspname::text as schema, ${raw(column)}::text as name,
      ${raw(IDENTITY(catalog))} as identity, ${raw(definition)}::text[] as definition, ${raw(host)}::text as host, ${raw(beyond)}::text as beyond,
      obj_description(o.oid, ${raw(`'${catalog}'`)}) as comment, ${raw(callers)} as callers,
      ${raw(isUsed(catalog))} as used ${raw(fromOf(kind, schemas))}`;
  });
  return session.query<LiveStatement>(sql`${join(parts, '\nunion all ')} order by kind, identity`);
}

/** Those that have an owner: kind, schema, name, identity, owner, class and oid. */
export function ownedStatements(): Sql {
  const parts = STATEMENT_KINDS.flatMap((kind) => {
    const { class: catalog, from, name, owner } = CATALOGS[kind];
    if (owner === undefined) return [];
    return [
      raw(`select '${kind}' as kind, n.nspname as schema, ${name} as name, ${IDENTITY(catalog)} as identity, ${owner} as owner, '${catalog}' as class, o.oid
        from ${from} where o.oid >= 16384`),
    ];
  });
  return join(parts, '\nunion all ');
}

/** The statement that keeps, in `svc_made`, which object the statement before it has made. */
export function recordMade(kind: StatementKind, n: number, schemas: readonly string[]): string {
  const { class: catalog } = CATALOGS[kind];
  return `insert into svc_made select ${n}, '${catalog}/' || o.oid, ${IDENTITY(catalog)} ${fromOf(kind, schemas)}
    and not exists (select from svc_made s where s.address = '${catalog}/' || o.oid)`;
}

/** Whether the object of these two is one of these kinds. */
export function isStatement(catalog: string, oid: string): string {
  const isIn = (name: string, condition: string): string =>
    `(${catalog} = '${name}'::regclass and exists (select from ${name} so where so.oid = ${oid} and ${condition}))`;
  return `(${catalog} in ('pg_operator'::regclass, 'pg_cast'::regclass, 'pg_collation'::regclass, 'pg_statistic_ext'::regclass, 'pg_ts_dict'::regclass, 'pg_ts_config'::regclass)
    or ${isIn('pg_proc', "so.prokind = 'a'")} or ${isIn('pg_rewrite', "so.rulename <> '_RETURN'")} or ${isIn('pg_type', "so.typtype = 'r'")})`;
}

/**
 * Rows of the catalog, by number and version: another definition or comment has others. Aggregates, types and rules are
 * rows among those of functions, types and tables.
 */
export function versionsOfStatements(schemas: readonly string[]): Sql {
  const spaces = sql`(select oid from pg_namespace where nspname = any (${[...schemas]}))`;
  return sql`select oid::int8, xmin::text::int8 from pg_statistic_ext where stxnamespace in ${spaces}
    union all select oid::int8, xmin::text::int8 from pg_operator where oprnamespace in ${spaces}
    union all select oid::int8, xmin::text::int8 from pg_collation where collnamespace in ${spaces}
    union all select oid::int8, xmin::text::int8 from pg_ts_dict where dictnamespace in ${spaces}
    union all select oid::int8, xmin::text::int8 from pg_ts_config where cfgnamespace in ${spaces}
    union all select mapcfg::int8 * 1600 + maptokentype * 30 + mapseqno, xmin::text::int8 from pg_ts_config_map
      where mapcfg in (select oid from pg_ts_config where cfgnamespace in ${spaces})
    union all select oid::int8, xmin::text::int8 from pg_cast where oid >= 16384
    union all select objoid::int8, xmin::text::int8 from pg_description where objoid >= 16384 and classoid in ('pg_statistic_ext'::regclass,
      'pg_operator'::regclass, 'pg_collation'::regclass, 'pg_ts_dict'::regclass, 'pg_ts_config'::regclass, 'pg_cast'::regclass, 'pg_rewrite'::regclass,
      'pg_type'::regclass, 'pg_proc'::regclass)`;
}
