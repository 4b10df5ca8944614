// Reads what the database has, in a fixed number of set queries. Printed texts depend on session settings, so
// they are pinned first: two sessions with other time zones or search paths must print the same.
import { raw, sql } from '../postgres/sql.ts';
import type { Queryable } from '../postgres/owner-database.ts';
import {
  API_ROLES,
  type Command,
  type Live,
  type LiveCheck,
  type LiveColumn,
  type LiveForeignKey,
  type LiveFunction,
  type LiveIndex,
  type LiveKey,
  type LivePolicy,
  type LiveTable,
  type LiveTrigger,
} from './facts.ts';
import { tableKey } from './model.ts';

const PINS: ReadonlyArray<readonly [string, string]> = [
  ['search_path', 'pg_catalog'],
  ['timezone', 'UTC'],
  ['datestyle', 'ISO, YMD'],
  ['intervalstyle', 'postgres'],
  ['bytea_output', 'hex'],
  ['extra_float_digits', '1'],
  ['quote_all_identifiers', 'off'],
  ['standard_conforming_strings', 'on'],
  ['jit', 'off'],
];

/** For the rest of the transaction: prints are comparable. */
export async function pinPrinting(session: Queryable): Promise<void> {
  const settings = PINS.map(([name, value]) => `set_config('${name}', '${value}', true)`);
  await session.query(raw(`select ${settings.join(', ')}`));
}

/** A consistent picture of its own. The deparser reads the newest catalog, hence the retry. */
export async function readLive(session: Queryable, schemas: readonly string[]): Promise<Live> {
  for (let attempt = 1; ; attempt += 1) {
    await session.query(raw('begin isolation level repeatable read read only'));
    try {
      return await readLiveInside(session, schemas);
    } catch (error) {
      if (attempt >= 3 || !isCacheLookupFailure(error)) throw error;
    } finally {
      await session.query(raw('rollback'));
    }
  }
}

function isCacheLookupFailure(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'XX000';
}

/** The same inside a transaction that is already open; leaves the print settings pinned. */
export async function readLiveInside(session: Queryable, schemas: readonly string[]): Promise<Live> {
  await pinPrinting(session);
  const [server] = await session.query<{ version: number }>(
    raw(`select current_setting('server_version_num')::int as version`),
  );
  const wanted = [...schemas];
  const relations = await session.query<RelationRow>(
    sql`${raw(RELATIONS)} where n.nspname = any (${wanted}) ${raw(ONLY_TABLES)}`,
  );
  const columns = await session.query<ColumnRow>(
    sql`${raw(COLUMNS)} where n.nspname = any (${wanted}) ${raw(ONLY_TABLES)} order by a.attrelid, a.attnum`,
  );
  const constraints = await session.query<ConstraintRow>(
    sql`${raw(CONSTRAINTS)} where n.nspname = any (${wanted}) ${raw(ONLY_TABLES)} and k.contype in ('p', 'u', 'f', 'c') and k.conparentid = 0 order by k.conrelid, k.conname`,
  );
  const indexes = await session.query<IndexRow>(
    sql`${raw(INDEXES)} where n.nspname = any (${wanted}) ${raw(ONLY_TABLES)} and not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x')) order by ic.relname`,
  );
  const policies = await session.query<PolicyRow>(
    sql`${raw(POLICIES)} where n.nspname = any (${wanted}) or p.polrelid = to_regclass('storage.objects') order by p.polname`,
  );
  const triggers = await session.query<TriggerRow>(
    sql`${raw(TRIGGERS)} where n.nspname = any (${wanted}) and not t.tgisinternal and t.tgname like 'svc\_ref%' order by t.tgname`,
  );
  const functions = await session.query<FunctionRow>(
    sql`${raw(FUNCTIONS)} where n.nspname = any (${wanted}) and p.prokind = 'f' and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e') order by p.proname, p.oid`,
  );
  const namespaces = await session.query<{ name: string; granted: number }>(sql`
    select n.nspname as name, (select count(distinct r.rolname)::int from aclexplode(n.nspacl) x join pg_roles r on r.oid = x.grantee
      where r.rolname = any (${[...API_ROLES]}) and x.privilege_type = 'USAGE') as granted
    from pg_namespace n where n.nspname = any (${wanted})`);

  const columnsOf = groupBy(columns, (row) => row.relation);
  const constraintsOf = groupBy(constraints, (row) => row.relation);
  const indexesOf = groupBy(indexes, (row) => row.relation);
  const policiesOf = groupBy(policies, (row) => row.relation ?? '');
  const triggersOf = groupBy(triggers, (row) => row.relation);
  const tables = new Map<string, LiveTable>();
  for (const row of relations) {
    tables.set(
      tableKey(row.schema, row.name),
      toTable(
        row,
        columnsOf.get(row.oid) ?? [],
        constraintsOf.get(row.oid) ?? [],
        indexesOf.get(row.oid) ?? [],
        policiesOf.get(row.oid) ?? [],
        triggersOf.get(row.oid) ?? [],
      ),
    );
  }
  return {
    tables,
    functions: groupBy(functions.map(toFunction), (row) => tableKey(row.schema, row.name)),
    schemas: new Map(
      namespaces.map((row) => [row.name, { name: row.name, usageGranted: row.granted === API_ROLES.length }]),
    ),
    storagePolicies: policies.filter((row) => row.storage).map(toPolicy),
    serverVersion: server?.version ?? 0,
  };
}

const ONLY_TABLES = `and c.relkind in ('r', 'p') and not c.relispartition
  and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')`;

// Owner's full set minus what the service role has must be nothing; the two callers have exactly the four verbs.
const RELATIONS = `select c.oid::text as oid, n.nspname as schema, c.relname as name, c.relkind = 'p' as partitioned, c.relrowsecurity as "rowSecurity",
  c.reltuples::float8 as "estimatedRows", pg_relation_size(c.oid)::float8 as bytes,
  (select coalesce(string_agg(g.who || ':' || g.privileges, ' ' order by g.who), '') from (
    select coalesce(r.rolname, 'public') as who, string_agg(x.privilege_type, ',' order by x.privilege_type) as privileges
    from aclexplode(c.relacl) x left join pg_roles r on r.oid = x.grantee
    where x.grantee = 0 or r.rolname in ('anon', 'authenticated', 'service_role') group by 1) g) as grants,
  (select string_agg(x.privilege_type, ',' order by x.privilege_type) from aclexplode(acldefault('r', c.relowner)) x) as "everything"
  from pg_class c join pg_namespace n on n.oid = c.relnamespace`;

const COLUMNS = `select a.attrelid::text as relation, a.attname as name, a.attnum as number, format_type(a.atttypid, a.atttypmod) as type,
  t.typcategory as category, a.attnotnull as "notNull", pg_get_expr(d.adbin, d.adrelid) as default, a.attidentity <> '' as identity,
  a.attgenerated <> '' as generated, sq.name as sequence, coalesce(sq.granted, 0) as "sequenceGrants",
  coalesce(sq.auto, false) as "sequenceAuto"
  from pg_attribute a join pg_class c on c.oid = a.attrelid and a.attnum > 0 and not a.attisdropped
  join pg_namespace n on n.oid = c.relnamespace
  join pg_type t on t.oid = a.atttypid
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  left join (
    select sd.refobjid, sd.refobjsubid, quote_ident(sn.nspname) || '.' || quote_ident(s.relname) as name, bool_or(sd.deptype = 'a') as auto,
      (select count(*)::int from aclexplode(s.relacl) x join pg_roles r on r.oid = x.grantee
       where r.rolname in ('anon', 'authenticated', 'service_role') and x.privilege_type in ('USAGE', 'SELECT')) as granted
    from pg_depend sd join pg_class s on s.oid = sd.objid and s.relkind = 'S' join pg_namespace sn on sn.oid = s.relnamespace
    where sd.classid = 'pg_class'::regclass and sd.refclassid = 'pg_class'::regclass and sd.refobjsubid > 0 and sd.deptype in ('a', 'i')
    group by 1, 2, 3, s.relacl
  ) sq on sq.refobjid = a.attrelid and sq.refobjsubid = a.attnum`;

const CONSTRAINTS = `select k.conrelid::text as relation, k.conname as label, k.contype as type, k.conkey::int[] as columns, k.convalidated as validated,
  k.condeferrable as deferrable, k.confdeltype as "onDelete", k.confupdtype as "onUpdate", k.confmatchtype as match,
  case when k.contype = 'c' then pg_get_expr(k.conbin, k.conrelid) end as expression, k.connoinherit as "noInherit",
  tn.nspname as "targetSchema", tc.relname as "targetTable",
  case when k.contype = 'f' then (select array_agg(ta.attname::text order by u.position) from unnest(k.confkey) with ordinality as u(number, position)
    join pg_attribute ta on ta.attrelid = k.confrelid and ta.attnum = u.number) end as "targetColumns"
  from pg_constraint k join pg_class c on c.oid = k.conrelid join pg_namespace n on n.oid = c.relnamespace
  left join pg_class tc on tc.oid = k.confrelid left join pg_namespace tn on tn.oid = tc.relnamespace`;

const INDEXES = `select i.indrelid::text as relation, ic.relname as label, i.indkey::int2[]::int[] as columns, i.indisunique as unique,
  pg_get_expr(i.indpred, i.indrelid) as predicate, i.indisvalid and i.indisready and i.indislive as valid,
  i.indexprs is not null or i.indnatts <> i.indnkeyatts or am.amname <> 'btree' or i.indoption::int2[]::text !~ '^(\\[[0-9:]+\\]=)?[{]0(,0)*[}]$'
    or i.indisexclusion or coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false)
    or exists (select from unnest(i.indclass::oid[]) oc join pg_opclass o on o.oid = oc where not o.opcdefault) as special
  from pg_index i join pg_class ic on ic.oid = i.indexrelid join pg_am am on am.oid = ic.relam
  join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace`;

const POLICIES = `select p.polrelid::text as relation, p.polname as label, p.polcmd as command, p.polpermissive as permissive,
  case when p.polroles = '{0}' then 'public' else (select string_agg(r.rolname, ',' order by r.rolname) from pg_roles r where r.oid = any (p.polroles)) end as roles,
  pg_get_expr(p.polqual, p.polrelid) as using, pg_get_expr(p.polwithcheck, p.polrelid) as check,
  p.polrelid = to_regclass('storage.objects') as storage
  from pg_policy p join pg_class c on c.oid = p.polrelid join pg_namespace n on n.oid = c.relnamespace`;

const TRIGGERS = `select t.tgrelid::text as relation, t.tgname as label, pg_get_triggerdef(t.oid) as definition
  from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace`;

const FUNCTIONS = `select p.oid::text as oid, n.nspname as schema, p.proname as name, pg_get_function_arguments(p.oid) as arguments,
  pg_get_function_identity_arguments(p.oid) as "identityArguments",
  (select coalesce(array_agg(format_type(u.type, null) order by u.position), '{}') from unnest(p.proargtypes::oid[]) with ordinality as u(type, position)) as "argumentTypes",
  coalesce(p.proargnames, '{}') as "argumentNames", p.pronargdefaults as defaults, pg_get_function_result(p.oid) as result,
  l.lanname as language, p.provolatile as volatility, p.prosecdef as definer, coalesce(p.proconfig, '{}') as settings, p.prosrc as body,
  (select count(distinct r.rolname) filter (where r.rolname is not null) = 3 and count(*) filter (where x.grantee = 0) = 0
   from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x left join pg_roles r on r.oid = x.grantee and r.rolname in ('anon', 'authenticated', 'service_role')
   where x.grantee = 0 or r.rolname is not null) as granted
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace join pg_language l on l.oid = p.prolang`;

type RelationRow = {
  oid: string;
  schema: string;
  name: string;
  partitioned: boolean;
  rowSecurity: boolean;
  estimatedRows: number;
  bytes: number;
  grants: string;
  everything: string;
};

type ColumnRow = {
  relation: string;
  name: string;
  number: number;
  type: string;
  category: string;
  notNull: boolean;
  default: string | null;
  identity: boolean;
  generated: boolean;
  sequence: string | null;
  sequenceGrants: number;
  sequenceAuto: boolean;
};

type ConstraintRow = {
  relation: string;
  label: string;
  type: string;
  columns: number[] | null;
  validated: boolean;
  deferrable: boolean;
  onDelete: string;
  onUpdate: string;
  match: string;
  expression: string | null;
  noInherit: boolean;
  targetSchema: string | null;
  targetTable: string | null;
  targetColumns: string[] | null;
};

type IndexRow = {
  relation: string;
  label: string;
  columns: number[];
  unique: boolean;
  predicate: string | null;
  valid: boolean;
  special: boolean;
};

type PolicyRow = {
  relation: string | null;
  label: string;
  command: string;
  permissive: boolean;
  roles: string;
  using: string | null;
  check: string | null;
  storage: boolean | null;
};

type TriggerRow = { relation: string; label: string; definition: string };

type FunctionRow = {
  oid: string;
  schema: string;
  name: string;
  arguments: string;
  identityArguments: string;
  argumentTypes: string[];
  argumentNames: string[];
  defaults: number;
  result: string;
  language: string;
  volatility: string;
  definer: boolean;
  settings: string[];
  body: string;
  granted: boolean;
};

const CALLER_VERBS = 'DELETE,INSERT,SELECT,UPDATE';

function toTable(
  row: RelationRow,
  columnRows: readonly ColumnRow[],
  constraintRows: readonly ConstraintRow[],
  indexRows: readonly IndexRow[],
  policyRows: readonly PolicyRow[],
  triggerRows: readonly TriggerRow[],
): LiveTable {
  const nameOf = new Map(columnRows.map((column) => [column.number, column.name]));
  const names = (numbers: readonly number[] | null): string[] =>
    (numbers ?? []).map((number) => nameOf.get(number) ?? '');
  const api = `anon:${CALLER_VERBS} authenticated:${CALLER_VERBS} service_role:${row.everything}`;
  const columns = columnRows.map(toColumn);
  return {
    oid: row.oid,
    schema: row.schema,
    name: row.name,
    partitioned: row.partitioned,
    rowSecurity: row.rowSecurity,
    granted: row.grants === api ? 'api' : row.grants === '' ? 'none' : 'other',
    estimatedRows: row.estimatedRows,
    bytes: row.bytes,
    columns: new Map(columns.map((column) => [column.name, column])),
    keys: constraintRows.filter((k) => k.type === 'p' || k.type === 'u').map((k) => toKey(k, names)),
    foreignKeys: constraintRows.filter((k) => k.type === 'f').map((k) => toForeignKey(k, names)),
    checks: constraintRows.filter((k) => k.type === 'c').map((k) => toCheck(k, names)),
    indexes: indexRows.map((i) => toIndex(i, names)),
    policies: policyRows.map(toPolicy),
    triggers: triggerRows.map(({ label, definition }): LiveTrigger => ({ label, definition })),
  };
}

// Six grants: USAGE and SELECT for each of the three roles.
const SEQUENCE_GRANTS = 6;

function toColumn(row: ColumnRow): LiveColumn {
  const serial = row.identity || (row.sequenceAuto && (row.default ?? '').startsWith('nextval('));
  return {
    name: row.name,
    number: row.number,
    type: row.type,
    category: row.category,
    notNull: row.notNull,
    default: serial ? null : row.default,
    serial,
    identity: row.identity,
    sequence: row.sequence,
    sequenceGranted: row.identity || row.sequenceGrants === SEQUENCE_GRANTS,
    generated: row.generated,
  };
}

function toKey(row: ConstraintRow, names: (numbers: readonly number[] | null) => string[]): LiveKey {
  return {
    label: row.label,
    kind: row.type === 'p' ? 'primary' : 'unique',
    columns: names(row.columns),
    special: row.deferrable,
  };
}

const ON_DELETE: Record<string, LiveForeignKey['onDelete']> = {
  c: 'cascade',
  // NO ACTION differs from RESTRICT only for deferred constraints.
  a: 'restrict',
  r: 'restrict',
  n: 'set_null',
};

function toForeignKey(
  row: ConstraintRow,
  names: (numbers: readonly number[] | null) => string[],
): LiveForeignKey {
  return {
    label: row.label,
    columns: names(row.columns),
    targetSchema: row.targetSchema ?? '',
    targetTable: row.targetTable ?? '',
    targetColumns: row.targetColumns ?? [],
    onDelete: ON_DELETE[row.onDelete] ?? 'other',
    validated: row.validated,
    special: row.deferrable || (row.onUpdate !== 'a' && row.onUpdate !== 'r') || row.match !== 's',
  };
}

function toCheck(row: ConstraintRow, names: (numbers: readonly number[] | null) => string[]): LiveCheck {
  return {
    label: row.label,
    columns: names(row.columns),
    expression: row.expression ?? '',
    validated: row.validated,
  };
}

function toIndex(row: IndexRow, names: (numbers: readonly number[] | null) => string[]): LiveIndex {
  const { label, unique, predicate, valid, special } = row;
  return { label, columns: names(row.columns), unique, predicate, valid, special };
}

const COMMANDS: Record<string, Command> = { r: 'select', a: 'insert', w: 'update', d: 'delete', '*': 'all' };

function toPolicy(row: PolicyRow): LivePolicy {
  return {
    label: row.label,
    command: COMMANDS[row.command] ?? 'all',
    permissive: row.permissive,
    roles: row.roles,
    using: row.using,
    check: row.check,
  };
}

function toFunction(row: FunctionRow): LiveFunction {
  return { ...row, body: row.body.trimEnd() };
}

function groupBy<T>(rows: readonly T[], key: (row: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const row of rows) {
    const group = groups.get(key(row));
    if (group) group.push(row);
    else groups.set(key(row), [row]);
  }
  return groups;
}
