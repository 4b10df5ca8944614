// Reads the objects that the file declares under `statements`: their identity, and statements that create them again.
// If the server has no function that prints an object, the statement is built from its catalog row.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { join, quoteLiteral, raw, sql, type Sql } from '../../../postgres/sql.ts';
import { type LiveStatement, STATEMENT_KINDS, type StatementKind } from '../statements.ts';

type Catalog = {
  readonly class: string;
  /** Condition that is true for each object `o` of the kind in `$schemas`, an array of oids. It can be true for others. */
  readonly candidate: string;
  /** FROM clause, where `o` is the row of the object and `n` its schema. */
  readonly from: string;
  readonly name: string;
  /** Owner column. Absent for objects that have no owner. */
  readonly owner?: string;
  /** SQL expression for an array of statements. */
  readonly definition: string;
  /** SQL expression for `schema.name` of the table or view that the object belongs to. */
  readonly host?: string;
  /** SQL expression for the reason why a file cannot declare the object, or null. */
  readonly unsupported?: string;
};

const qualified = (schema: string, name: string): string => `format('%I.%I', ${schema}, ${name})`;
const operatorNamed = (oid: string): string =>
  `(select format('OPERATOR(%I.%s)', pn.nspname, p.oprname) from pg_operator p join ` +
  `pg_namespace pn on pn.oid = p.oprnamespace where p.oid = ${oid})`;
/** Returns SQL for `SFUNC = name`, or null if the column holds no function. */
const functionOption = (option: string, column: string): string =>
  `case when ${column} <> 0 then '${option} = ' || ${column}::oid::regproc end`;
const typeOption = (option: string, column: string): string =>
  `case when ${column} <> 0 then '${option} = ' || format_type(${column}, null) end`;
const MODIFY = `case %s when 'r' then 'READ_ONLY' when 's' then 'SHAREABLE' else 'READ_WRITE' end`;
const modifyOption = (option: string, column: string, isThere: string): string =>
  `case when ${isThere} <> 0 and ${column} <> case a.aggkind when 'n' then 'r' else 'w' ` +
  `end then '${option} = ' || ${MODIFY.replace('%s', column)} end`;

const CATALOGS: Readonly<Record<StatementKind, Catalog>> = {
  aggregate: {
    class: 'pg_proc',
    candidate: "o.prokind = 'a' and o.pronamespace = any ($schemas)",
    from: `pg_proc o join pg_aggregate a on a.aggfnoid = o.oid join pg_namespace n on n.oid = o.pronamespace`,
    owner: 'o.proowner',
    name: 'o.proname',
    definition: `array[format('CREATE AGGREGATE %I.%I(%s) (%s)', n.nspname, o.proname,
      case when o.pronargs = 0 then '*' else pg_get_function_arguments(o.oid) end, concat_ws(', ',
      'SFUNC = ' || a.aggtransfn::oid::regproc, 'STYPE = ' || format_type(a.aggtranstype, null),
      case when a.aggtransspace <> 0 then 'SSPACE = ' || a.aggtransspace end,
      ${functionOption('FINALFUNC', 'a.aggfinalfn')}, case when a.aggfinalextra then 'FINALFUNC_EXTRA' end,
      ${modifyOption('FINALFUNC_MODIFY', 'a.aggfinalmodify', 'a.aggfinalfn')},
      ${functionOption('COMBINEFUNC', 'a.aggcombinefn')}, ${functionOption('SERIALFUNC', 'a.aggserialfn')},
        ${functionOption('DESERIALFUNC', 'a.aggdeserialfn')},
      'INITCOND = ' || quote_literal(a.agginitval),
      ${functionOption('MSFUNC', 'a.aggmtransfn')}, ${functionOption('MINVFUNC', 'a.aggminvtransfn')},
        ${typeOption('MSTYPE', 'a.aggmtranstype')},
      case when a.aggmtransspace <> 0 then 'MSSPACE = ' || a.aggmtransspace end,
      ${functionOption('MFINALFUNC', 'a.aggmfinalfn')}, case when a.aggmfinalextra then 'MFINALFUNC_EXTRA' end,
      ${modifyOption('MFINALFUNC_MODIFY', 'a.aggmfinalmodify', 'a.aggmfinalfn')},
      'MINITCOND = ' || quote_literal(a.aggminitval),
      'SORTOP = ' || ${operatorNamed('a.aggsortop')},
      case o.proparallel when 's' then 'PARALLEL = SAFE' when 'r' then 'PARALLEL = RESTRICTED' end,
      case when a.aggkind = 'h' then 'HYPOTHETICAL' end))]`,
    unsupported:
      `case when 'internal'::regtype in (a.aggtranstype, a.aggmtranstype) then ` +
      `'only a superuser makes one whose state is internal' end`,
  },
  statistics: {
    class: 'pg_statistic_ext',
    candidate: 'o.stxnamespace = any ($schemas)',
    from: 'pg_statistic_ext o join pg_namespace n on n.oid = o.stxnamespace',
    owner: 'o.stxowner',
    name: 'o.stxname',
    host:
      `(select hn.nspname || '.' || h.relname from pg_class h join pg_namespace hn ` +
      'on hn.oid = h.relnamespace where h.oid = o.stxrelid)',
    // The server prints columns in table order. Sort them by name, because an online type change moves a column.
    definition: `array_remove(array[(select coalesce(replace(pg_get_statisticsobjdef(o.oid),
      ' ON ' || string_agg(quote_ident(a.attname), ', ' order by k.n),
        ' ON ' || string_agg(quote_ident(a.attname), ', ' order by a.attname)), pg_get_statisticsobjdef(o.oid))
      from unnest(o.stxkeys::int2[]) with ordinality as k(number, n)
        join pg_attribute a on a.attrelid = o.stxrelid and a.attnum = k.number),
          (select format('ALTER STATISTICS %I.%I SET STATISTICS %s', n.nspname, o.stxname, target)
      from (select to_jsonb(o) ->> 'stxstattarget') as t(target) where target <> '-1')], null)`,
  },
  type: {
    class: 'pg_type',
    candidate: "o.typtype = 'r' and o.typnamespace = any ($schemas)",
    from: `pg_type o join pg_range r on r.rngtypid = o.oid join pg_namespace n on n.oid = o.typnamespace
      join pg_type m on m.oid = r.rngmultitypid join pg_namespace mn on mn.oid = m.typnamespace
      join pg_type s on s.oid = r.rngsubtype
      join pg_opclass k on k.oid = r.rngsubopc join pg_namespace kn on kn.oid = k.opcnamespace`,
    owner: 'o.typowner',
    name: 'o.typname',
    definition: `array[format('CREATE TYPE %I.%I AS RANGE (%s)', n.nspname, o.typname, concat_ws(', ',
      'SUBTYPE = ' || format_type(r.rngsubtype, null),
      case when not k.opcdefault then 'SUBTYPE_OPCLASS = ' || ${qualified('kn.nspname', 'k.opcname')} end,
      (select 'COLLATION = ' || ${qualified('cn.nspname', 'c.collname')} from pg_collation c
        join pg_namespace cn on cn.oid = c.collnamespace
        where c.oid = r.rngcollation and c.oid <> s.typcollation),
      ${functionOption('CANONICAL', 'r.rngcanonical')}, ${functionOption('SUBTYPE_DIFF', 'r.rngsubdiff')},
      -- Omit the default name.
      case when m.typname <> case when o.typname like '%range%'
        then regexp_replace(o.typname, 'range', 'multirange') else o.typname || '_multirange' end
        then 'MULTIRANGE_TYPE_NAME = ' || case when mn.nspname = 'public' then quote_ident(m.typname)
          else ${qualified('mn.nspname', 'm.typname')} end end))]`,
    unsupported: `case when r.rngcanonical <> 0 then 'it has a CANONICAL function' end`,
  },
  rule: {
    class: 'pg_rewrite',
    candidate: `o.rulename <> '_RETURN' and exists (select from pg_class c
      where c.oid = o.ev_class and c.relnamespace = any ($schemas))`,
    from:
      `pg_rewrite o join pg_class c on c.oid = o.ev_class and o.rulename <> '_RETURN' and not ` +
      'c.relispartition join pg_namespace n on n.oid = c.relnamespace',
    name: 'o.rulename',
    host: `n.nspname || '.' || c.relname`,
    definition: `array_remove(array[rtrim(pg_get_ruledef(o.oid), ';'),
      case when o.ev_enabled <> 'O' then format('ALTER TABLE %I.%I %s RULE %I', n.nspname, c.relname,
        case o.ev_enabled when 'D' then 'DISABLE' when 'R' then 'ENABLE REPLICA'
          else 'ENABLE ALWAYS' end, o.rulename) end], null)`,
    unsupported: `case when o.ev_enabled <> 'O' then 'it is switched off, or on for replication' end`,
  },
  operator: {
    class: 'pg_operator',
    candidate: 'o.oprnamespace = any ($schemas)',
    // An operator without a function is only a forward reference of another operator.
    from: 'pg_operator o join pg_namespace n on n.oid = o.oprnamespace and o.oprcode <> 0',
    owner: 'o.oprowner',
    name: 'o.oprname',
    definition: `array[format('CREATE OPERATOR %I.%s (%s)', n.nspname, o.oprname, concat_ws(', ',
      'FUNCTION = ' || o.oprcode::oid::regproc,
      ${typeOption('LEFTARG', 'o.oprleft')}, ${typeOption('RIGHTARG', 'o.oprright')},
      'COMMUTATOR = ' || ${operatorNamed('o.oprcom')}, 'NEGATOR = ' || ${operatorNamed('o.oprnegate')},
      ${functionOption('RESTRICT', 'o.oprrest')}, ${functionOption('JOIN', 'o.oprjoin')},
      case when o.oprcanhash then 'HASHES' end, case when o.oprcanmerge then 'MERGES' end))]`,
  },
  cast: {
    class: 'pg_cast',
    candidate: 'o.oid >= 16384',
    // A cast has no schema. It is assigned to a schema of its types or its function.
    from: `pg_cast o join lateral (select min(cn.nspname::text) as nspname from pg_depend d
        left join pg_type t on d.refclassid = 'pg_type'::regclass and t.oid = d.refobjid
        left join pg_proc p on d.refclassid = 'pg_proc'::regclass and p.oid = d.refobjid
        join pg_namespace cn on cn.oid = coalesce(t.typnamespace, p.pronamespace) and $schemas
        where d.classid = 'pg_cast'::regclass and d.objid = o.oid) n on n.nspname is not null`,
    name: `''`,
    definition: `array[format('CREATE CAST (%s AS %s) %s%s', format_type(o.castsource, null),
      format_type(o.casttarget, null),
      case o.castmethod when 'f' then 'WITH FUNCTION ' || o.castfunc::regprocedure when 'i' then 'WITH INOUT'
        else 'WITHOUT FUNCTION' end,
      case o.castcontext when 'a' then ' AS ASSIGNMENT' when 'i' then ' AS IMPLICIT' else '' end)]`,
    unsupported: `case when o.castmethod = 'b' then 'only a superuser makes one WITHOUT FUNCTION' end`,
  },
  collation: {
    class: 'pg_collation',
    candidate: 'o.collnamespace = any ($schemas)',
    from: `pg_collation o join pg_namespace n on n.oid = o.collnamespace
      cross join lateral (select to_jsonb(o) as all) j`,
    owner: 'o.collowner',
    name: 'o.collname',
    definition: `array[format('CREATE COLLATION %I.%I (%s)', n.nspname, o.collname, concat_ws(', ',
      'PROVIDER = ' || case o.collprovider when 'i' then 'icu' when 'b' then 'builtin' else 'libc' end,
      case when o.collprovider = 'c' then 'LC_COLLATE = ' || quote_literal(o.collcollate) end,
      case when o.collprovider = 'c' then 'LC_CTYPE = ' || quote_literal(o.collctype) end,
      -- The column has different names in different versions of PostgreSQL.
      'LOCALE = ' || quote_literal(coalesce(j.all ->> 'colllocale', j.all ->> 'colliculocale')),
      'RULES = ' || quote_literal(j.all ->> 'collicurules'),
      case when not o.collisdeterministic then 'DETERMINISTIC = false' end))]`,
  },
  'text search dictionary': {
    class: 'pg_ts_dict',
    candidate: 'o.dictnamespace = any ($schemas)',
    from:
      'pg_ts_dict o join pg_namespace n on n.oid = o.dictnamespace join pg_ts_template t on t.oid ' +
      '= o.dicttemplate join pg_namespace tn on tn.oid = t.tmplnamespace',
    owner: 'o.dictowner',
    name: 'o.dictname',
    definition: `array[format('CREATE TEXT SEARCH DICTIONARY %I.%I (%s)', n.nspname, o.dictname,
      concat_ws(', ', 'TEMPLATE = ' || ${qualified('tn.nspname', 't.tmplname')}, nullif(o.dictinitoption, '')))]`,
  },
  'text search configuration': {
    class: 'pg_ts_config',
    candidate: 'o.cfgnamespace = any ($schemas)',
    from:
      'pg_ts_config o join pg_namespace n on n.oid = o.cfgnamespace join pg_ts_parser p on ' +
      'p.oid = o.cfgparser join pg_namespace pn on pn.oid = p.prsnamespace',
    owner: 'o.cfgowner',
    name: 'o.cfgname',
    definition: `array[format('CREATE TEXT SEARCH CONFIGURATION %I.%I (PARSER = %s)', n.nspname, o.cfgname,
      ${qualified('pn.nspname', 'p.prsname')})]
      || array(select format('ALTER TEXT SEARCH CONFIGURATION %I.%I ADD MAPPING FOR %s WITH %s', n.nspname, o.cfgname,
          string_agg(quote_ident(alias), ', ' order by alias), dicts)
        from (select y.alias, string_agg(${qualified('dn.nspname', 'd.dictname')}, ', ' order by x.mapseqno) as dicts
          from pg_ts_config_map x join ts_token_type(o.cfgparser) y on y.tokid = x.maptokentype
          join pg_ts_dict d on d.oid = x.mapdict join pg_namespace dn on dn.oid = d.dictnamespace
          where x.mapcfg = o.oid group by y.alias) mapped group by dicts order by min(alias))`,
  },
};

/** Returns a condition: the object belongs neither to an extension nor to another object, such as a range type. */
const isIndependent = (catalog: string): string =>
  'not exists (select from pg_depend e where e.classid = ' +
  `'${catalog}'::regclass and e.objid = o.oid and e.deptype in ('e', 'i'))`;

/** Returns a FROM clause for independent objects of a kind in these schemas: `o` is the object, `n` its schema. */
function fromClause(kind: StatementKind, schemas: readonly string[]): string {
  const { class: catalog, from } = CATALOGS[kind];
  const list = `any (array[${schemas.map(quoteLiteral).join(', ')}]::text[])`;
  return (
    `from ${from.replace('$schemas', () => `cn.nspname = ${list}`)} where ` +
    `n.nspname = ${list} and ${isIndependent(catalog)}`
  );
}

/** Returns a condition on a row of `pg_depend`: the dependent object is a constructor or cast of a range type. */
export const isRangeMember = (row: string): string =>
  `(${row}.classid in ('pg_proc'::regclass, 'pg_cast'::regclass) and exists (select from pg_depend w
    where w.classid = ${row}.classid and w.objid = ${row}.objid and w.refclassid = 'pg_type'::regclass
      and w.deptype = 'i'))`;

/** Returns a condition: another object depends on the object, or on the array or multirange type of a range type. */
const isUsed = (catalog: string): string =>
  `exists (select from pg_depend u where not ${isRangeMember('u')} and u.refclassid = '${catalog}'::regclass
    and u.deptype = 'n' and ${
      catalog === 'pg_type' ? 'u.refobjid in (o.oid, o.typarray, m.oid, m.typarray)' : 'u.refobjid = o.oid'
    })`;

const IDENTITY = (catalog: string): string =>
  `(select case i.type when 'statistics object' then 'statistics' else i.type end || ' ' || ` +
  `i.identity from pg_identify_object('${catalog}'::regclass, o.oid, 0) i)`;

/** A condition: the database may have objects of the kind. `schemas`: an expression for an array of oids. */
export function candidateCondition(kind: StatementKind, schemas: string): string {
  const { class: catalog, candidate } = CATALOGS[kind];
  return `exists (select from ${catalog} o where ${candidate.replace('$schemas', () => schemas)})`;
}

export async function readStatements(
  session: Queryable,
  schemas: readonly string[],
  kinds: readonly StatementKind[] = STATEMENT_KINDS,
): Promise<LiveStatement[]> {
  if (kinds.length === 0) return [];
  const parts = kinds.map((kind) => {
    const { class: catalog, name: column, definition, host = 'null', unsupported = 'null' } = CATALOGS[kind];
    const callers =
      kind === 'aggregate'
        ? `(select coalesce(array_agg(distinct coalesce(r.rolname::text, 'public')), '{}')
          from aclexplode(coalesce(o.proacl, acldefault('f', o.proowner))) x
            left join pg_roles r on r.oid = x.grantee where x.grantee <> o.proowner)`
        : `'{}'::text[]`;
    return sql`select ${kind}::text as kind, ${raw(`'${catalog}/' || o.oid`)} as address,
      n.nspname::text as schema, ${raw(column)}::text as name,
      ${raw(IDENTITY(catalog))} as identity, ${raw(definition)}::text[] as definition,
        ${raw(host)}::text as host, ${raw(unsupported)}::text as unsupported,
      obj_description(o.oid, ${raw(`'${catalog}'`)}) as comment, ${raw(callers)} as callers,
      ${raw(isUsed(catalog))} as used ${raw(fromClause(kind, schemas))}`;
  });
  return session.query<LiveStatement>(sql`${join(parts, '\nunion all ')} order by kind, identity`);
}

/** Selects the objects that have an owner, with kind, schema, name, identity, owner, class and oid. */
export function ownedStatements(): Sql {
  const parts = STATEMENT_KINDS.flatMap((kind) => {
    const { class: catalog, from, name, owner } = CATALOGS[kind];
    if (owner === undefined) return [];
    return [
      raw(`select '${kind}' as kind, n.nspname as schema, ${name} as name, ${IDENTITY(catalog)} as identity,
        ${owner} as owner, '${catalog}' as class, o.oid
        from ${from} where o.oid >= 16384`),
    ];
  });
  return join(parts, '\nunion all ');
}

/** Returns a statement that records in `svc_made` the object that the previous statement created. */
export function recordCreatedObject(kind: StatementKind, n: number, schemas: readonly string[]): string {
  const { class: catalog } = CATALOGS[kind];
  return `insert into svc_made select ${n}, '${catalog}/' || o.oid, ${IDENTITY(catalog)} ${fromClause(kind, schemas)}
    and not exists (select from svc_made s where s.address = '${catalog}/' || o.oid)`;
}

/** Returns a condition: the object with this class and oid is of one of these kinds. */
export function isStatement(catalog: string, oid: string): string {
  const isIn = (name: string, condition: string): string =>
    `(${catalog} = '${name}'::regclass and exists (select from ${name} so where so.oid = ${oid} and ${condition}))`;
  return `(${catalog} in ('pg_operator'::regclass, 'pg_cast'::regclass, 'pg_collation'::regclass,
      'pg_statistic_ext'::regclass, 'pg_ts_dict'::regclass, 'pg_ts_config'::regclass)
    or ${isIn('pg_proc', "so.prokind = 'a'")} or ${isIn('pg_rewrite', "so.rulename <> '_RETURN'")}
    or ${isIn('pg_type', "so.typtype = 'r'")})`;
}

/**
 * Selects the oid and version (xmin) of catalog rows, which change with a definition or a comment. The rows of
 * aggregates, types and rules are covered by the queries for functions, types and tables. `spaces`: an array with the
 * oids of the schemas.
 */
export function statementVersions(spaces: Sql): Sql {
  return sql`select oid::int8, xmin::text::int8 from pg_statistic_ext where stxnamespace = any (${spaces})
    union all select oid::int8, xmin::text::int8 from pg_operator where oprnamespace = any (${spaces})
    union all select oid::int8, xmin::text::int8 from pg_collation where collnamespace = any (${spaces})
    union all select oid::int8, xmin::text::int8 from pg_ts_dict where dictnamespace = any (${spaces})
    union all select oid::int8, xmin::text::int8 from pg_ts_config where cfgnamespace = any (${spaces})
    union all select mapcfg::int8 * 1600 + maptokentype * 30 + mapseqno, xmin::text::int8 from pg_ts_config_map
      where mapcfg in (select oid from pg_ts_config where cfgnamespace = any (${spaces}))
    union all select oid::int8, xmin::text::int8 from pg_cast where oid >= 16384
    union all select objoid::int8, xmin::text::int8 from pg_description where objoid >= 16384
      and classoid in ('pg_statistic_ext'::regclass,
      'pg_operator'::regclass, 'pg_collation'::regclass, 'pg_ts_dict'::regclass, 'pg_ts_config'::regclass,
        'pg_cast'::regclass, 'pg_rewrite'::regclass,
      'pg_type'::regclass, 'pg_proc'::regclass)`;
}
