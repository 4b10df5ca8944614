// Objects that depend on changed objects. Declared objects are dropped and created again. Other objects stop the plan.
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw, sql, type Sql } from '../../postgres/sql.ts';
import { alters, removedKeys } from '../change/traits.ts';
import type { Change, DropRetiredChange } from '../diff/change.ts';
import { ofKind } from '../diff/change-kinds.ts';
import type { Desired } from '../schema/desired.ts';
import { type Rebuild, type RebuildKind, rebuildKey } from '../diff/table-diff.ts';
import { NOT_PLAIN_INDEX } from '../schema/live/live-queries.ts';
import { isRangeMember, isStatement } from '../schema/live/live-statements.ts';
import { objectKey } from '../schema/model.ts';
import type { Ownership } from '../schema/managed.ts';
import { HOSTS } from '../schema/rights/hosts.ts';
import { USERS } from '../schema/triggers.ts';
import { type MigrationProblem, problem } from '../problem.ts';

export type Dependants = {
  /** Objects to drop and create again. */
  readonly rebuild: Rebuild;
  /** The tables and views of these objects, and tables with foreign keys to changed objects. */
  readonly tables: ReadonlySet<string>;
  /** Dependants that make PostgreSQL reject the change. Unless the plan drops them, it stops. */
  readonly holding: readonly Holding[];
};

type Holding = {
  readonly at: string;
  /** Key as in `rebuild`. Null for objects that svc never creates. */
  readonly key: string | null;
  readonly what: string;
};

type DependantKind = RebuildKind | 'reference' | 'other';

/**
 * Finds the dependants of all altered objects: policies, checks, indexes, defaults, functions, views, triggers,
 * statements and tables with foreign keys. PostgreSQL does not drop a function or a view while another object depends
 * on it.
 */
export async function findDependants(session: Queryable, changes: readonly Change[]): Promise<Dependants> {
  const roots = changes.flatMap((change) => alters(change) ?? []);
  if (roots.length === 0) return { rebuild: new Set(), tables: new Set(), holding: [] };
  const rows = await session.query<DependantRow>(dependantsQuery(roots));
  const keyOfRow = ({ kind, table, label }: DependantRow): string | null =>
    kind === 'reference' || kind === 'other' ? null : rebuildKey(kind, table, label);
  return {
    rebuild: new Set(rows.map(keyOfRow).filter((key) => key !== null)),
    // Policies of buckets and channels and triggers on users are compared in each run.
    tables: new Set(rows.map((row) => row.table).filter((table) => !['', ...HOSTS, USERS].includes(table))),
    // `foreignDependants` reports the readers of a column whose type changes.
    holding: rows
      .filter((row) => row.kind === 'policy' || row.called || row.goes)
      .map((row) => ({
        at: row.at,
        key: keyOfRow(row),
        what: row.kind === 'policy' ? `policy ${row.table} ${row.label}` : row.what,
      })),
  };
}

type DependantRow = {
  readonly at: string;
  readonly kind: DependantKind;
  readonly table: string;
  readonly label: string;
  readonly what: string;
  readonly called: boolean;
  readonly goes: boolean;
};

/** `roots`: catalog addresses of the altered objects. */
function dependantsQuery(roots: readonly unknown[]): Sql {
  return sql`
    with recursive below as (
      select w.class::regclass as class, w.oid::oid as object, w.number as part, w.at, w.goes
      from jsonb_to_recordset(${JSON.stringify(roots)}::jsonb) as w (class text, oid text, number int, at text, goes boolean)
      union select g.class, g.object, g.part, b.at, false from below b cross join lateral (
          select d.classid::regclass as class, d.objid as object, 0 as part from pg_depend d
            where b.class <> 'pg_class'::regclass and d.refclassid = b.class and d.refobjid = b.object and d.classid = 'pg_proc'::regclass and not ${raw(isRangeMember('d'))}
              and not ${IS_OF_BODY}
          union all select d.classid::regclass, d.objid, 0 from pg_depend d
            where d.refclassid = b.class and d.refobjid = b.object and d.refobjsubid = coalesce(b.part, d.refobjsubid) and ${raw(isStatement('d.classid', 'd.objid'))}
          union all select 'pg_type'::regclass, y.oid, 0 from pg_type y left join pg_range q on q.rngmultitypid = y.oid
            where b.class = 'pg_type'::regclass and b.object in (y.typelem, q.rngtypid)
          -- A view depends as a whole on the relations of its query, and functions depend on its row type.
          union all select 'pg_class'::regclass, r.ev_class, null from pg_depend d
            join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid and r.rulename = '_RETURN' and r.ev_class <> b.object
            where d.refclassid = b.class and d.refobjid = b.object and d.refobjsubid = coalesce(b.part, d.refobjsubid)
          union all select 'pg_proc'::regclass, d.objid, 0 from pg_class v
            join pg_type y on y.oid = v.reltype or y.typelem = v.reltype
            join pg_depend d on d.refclassid = 'pg_type'::regclass and d.refobjid = y.oid and d.classid = 'pg_proc'::regclass
            where b.class = 'pg_class'::regclass and b.part is null and v.oid = b.object and v.relkind in ('v', 'm')
        ) g
    ), above as (
      select d.classid, d.objid, max(d.objsubid) as part, min(b.at) as at,
        bool_or(b.class <> 'pg_class'::regclass or b.part is null) as called, bool_or(b.goes) as goes,
        d.classid = 'pg_proc'::regclass and bool_and(b.class = 'pg_class'::regclass or ${IS_OF_BODY}) as of_body
      from pg_depend d join below b on d.refclassid = b.class and d.refobjid = b.object and d.refobjsubid = coalesce(b.part, d.refobjsubid)
      where (d.deptype <> 'i' or d.classid = 'pg_rewrite'::regclass) and not ${raw(isRangeMember('d'))}
        and not exists (select from pg_rewrite own where d.classid = 'pg_rewrite'::regclass and own.oid = d.objid and own.ev_class = b.object and own.rulename = '_RETURN')
        and not (b.part is null and exists (select from pg_trigger own where d.classid = 'pg_trigger'::regclass and own.oid = d.objid and own.tgrelid = b.object))
        and not (b.part is null and exists (select from pg_index own where d.classid = 'pg_class'::regclass and own.indexrelid = d.objid and own.indrelid = b.object))
        -- PostgreSQL drops the expression, the sequence and the NOT NULL constraint of a column with it.
        and not (b.goes and (exists (select from pg_attrdef o where d.classid = 'pg_attrdef'::regclass and o.oid = d.objid and o.adrelid = b.object and o.adnum = b.part)
          or exists (select from pg_class s where d.classid = 'pg_class'::regclass and s.oid = d.objid and s.relkind = 'S')
          or exists (select from pg_constraint o where d.classid = 'pg_constraint'::regclass and o.oid = d.objid and o.contype = 'n')))
      group by 1, 2
      union select d.classid, d.objid, 0, b.at, true, false, false
      from below b join pg_class v on b.class = 'pg_class'::regclass and b.part is null and v.oid = b.object and v.relkind in ('v', 'm')
      join pg_type y on y.oid = v.reltype or y.typelem = v.reltype
      join pg_depend d on d.refclassid = 'pg_type'::regclass and d.refobjid = y.oid and d.classid = 'pg_proc'::regclass
    ), named as (
      select a.at, a.called, a.goes, case
          when p.oid is not null then 'policy'
          when ${raw(isStatement('a.classid', 'a.objid'))} then 'statement'
          when v.oid is not null then 'view'
          when k.contype = 'c' and k.conrelid <> 0 then 'check'
          when k.contype = 'f' then 'reference'
          when f.oid is not null then 'default'
          when k.contype = 'x' then 'index'
          when i.indexrelid is not null and (a.called or a.goes or i.indpred is not null or ${NOT_PLAIN_INDEX}) then 'index'
          when a.of_body then 'body'
          when a.classid = 'pg_proc'::regclass and a.called then 'function'
          when not g.tgisinternal and g.tgname !~ '^~?svc_' then 'trigger'
          else 'other' end as kind,
        coalesce(p.polrelid, nullif(k.conrelid, 0), f.adrelid, i.indrelid, g.tgrelid, v.oid) as home,
        coalesce(p.polname, k.conname, t.attname, ic.relname, g.tgname, '')::text as label, a.objid, a.classid,
        case when r.oid is null then pg_describe_object(a.classid, a.objid, a.part)
          else pg_describe_object('pg_class'::regclass, r.ev_class, 0) end as what
      from above a
      left join pg_policy p on a.classid = 'pg_policy'::regclass and p.oid = a.objid
      left join pg_constraint k on a.classid = 'pg_constraint'::regclass and k.oid = a.objid
      left join pg_attrdef f on a.classid = 'pg_attrdef'::regclass and f.oid = a.objid
      left join pg_attribute t on t.attrelid = f.adrelid and t.attnum = f.adnum
      left join pg_index i on a.classid = 'pg_class'::regclass and i.indexrelid = a.objid
      left join pg_class ic on ic.oid = i.indexrelid
      left join pg_trigger g on a.classid = 'pg_trigger'::regclass and g.oid = a.objid
      left join pg_rewrite r on a.classid = 'pg_rewrite'::regclass and r.oid = a.objid
      left join pg_class v on v.oid = r.ev_class and v.relkind in ('v', 'm') and r.rulename = '_RETURN'
    )
    select distinct m.at, m.called, m.goes, m.kind, coalesce(n.nspname || '.' || c.relname, '') as table,
      case when m.kind in ('function', 'body') then m.objid::text
        when m.kind = 'statement' then m.classid::regclass || '/' || m.objid else m.label end as label, m.what
    from named m left join pg_class c on c.oid = m.home left join pg_namespace n on n.oid = c.relnamespace`;
}

/**
 * Returns changes that drop retired objects which would block the plan. They depend on a function that is dropped, on a
 * column whose type changes, or on a dropped key.
 */
export async function blockingRetiredObjects(
  session: Queryable,
  desired: Desired,
  changes: readonly Change[],
  owned: Ownership,
): Promise<DropRetiredChange[]> {
  const functions = ofKind(changes, 'recreate-function', 'drop-function').flatMap(
    ({ live }) => live?.oid ?? [],
  );
  const columns = ofKind(changes, 'change-type').flatMap(({ live, liveColumn }) =>
    live === null ? [] : [{ oid: live.oid, number: liveColumn.number }],
  );
  const keys = [
    ...ofKind(changes, 'drop-key').map(({ live, key }) => ({ live, label: key.label })),
    ...ofKind(changes, 'drop-index').map(({ live, index }) => ({ live, label: index.label })),
  ].flatMap(({ live, label }) => (live === null ? [] : [{ oid: live.oid, label }]));
  if (functions.length + columns.length + keys.length === 0) return [];
  const rows = await session.query<{
    what: DropRetiredChange['what'];
    schema: string;
    name: string;
    label: string;
  }>(sql`
    with below as (
      select 'pg_class'::regclass as class, w.oid::oid as object, w.number as part
      from jsonb_to_recordset(${JSON.stringify(columns)}::jsonb) as w (oid text, number int)
      union all select 'pg_proc'::regclass, unnest(${functions}::text[])::oid, 0
      union all select 'pg_class'::regclass, i.indexrelid, 0
      from jsonb_to_recordset(${JSON.stringify(keys)}::jsonb) as w (oid text, label text)
      join pg_index i on i.indrelid = w.oid::oid join pg_class c on c.oid = i.indexrelid and c.relname = w.label
    ), above as (
      select distinct d.classid, d.objid from pg_depend d join below b
        on d.refclassid = b.class and d.refobjid = b.object and d.refobjsubid = b.part
    ), found as (
      select 'policy' as what, p.polrelid as home, p.polname as label
        from above a join pg_policy p on a.classid = 'pg_policy'::regclass and p.oid = a.objid
      union all
      select case k.contype when 'f' then 'foreign key' else 'check' end, k.conrelid, k.conname
        from above a join pg_constraint k on k.contype in ('c', 'f') and a.classid = 'pg_constraint'::regclass and k.oid = a.objid
          or k.contype = 'x' and (a.classid = 'pg_constraint'::regclass and k.oid = a.objid or a.classid = 'pg_class'::regclass and k.conindid = a.objid)
      union all
      select 'default', f.adrelid, t.attname
        from above a join pg_attrdef f on a.classid = 'pg_attrdef'::regclass and f.oid = a.objid
        join pg_attribute t on t.attrelid = f.adrelid and t.attnum = f.adnum and t.attgenerated = ''
      union all
      select 'index', i.indrelid, c.relname
        from above a join pg_index i on a.classid = 'pg_class'::regclass and i.indexrelid = a.objid and not i.indisexclusion
        join pg_class c on c.oid = i.indexrelid
      union all
      select 'trigger', t.tgrelid, t.tgname
        from above a join pg_trigger t on a.classid = 'pg_trigger'::regclass and t.oid = a.objid and not t.tgisinternal
    )
    select f.what, n.nspname as schema, c.relname as name, f.label
    from found f join pg_class c on c.oid = f.home join pg_namespace n on n.oid = c.relnamespace order by 1, 2, 3, 4`);
  const declared = new Map(desired.tables.map((table) => [objectKey(table), table]));
  const retiring = new Set([
    ...ofKind(changes, 'retire-table').map(({ live }) => objectKey(live)),
    ...ofKind(changes, 'retire-column').map(
      ({ table, liveColumn }) => `${objectKey(table)}.${liveColumn.name}`,
    ),
  ]);
  const isRetired = (row: (typeof rows)[number]): boolean => {
    const key = objectKey(row);
    if (retiring.has(key) || (owned.retiredTables.has(key) && !declared.has(key))) return true;
    if (row.what !== 'default') return false;
    const column = `${key}.${row.label}`;
    const isDeclared = declared.get(key)?.columns.some((one) => one.name === row.label) ?? false;
    return retiring.has(column) || (owned.retiredColumns.has(column) && !isDeclared);
  };
  return rows
    .filter(isRetired)
    .map(({ what, schema, name, label }) => ({ kind: 'drop-retired', what, home: { schema, name }, label }));
}

/**
 * Both a parsed body and argument defaults create dependencies of a function. If a function has both, the catalog
 * does not show which one a dependency belongs to.
 */
const IS_OF_BODY = raw(
  `exists (select from pg_proc p where p.oid = d.objid and p.prosqlbody is not null and p.pronargdefaults = 0)`,
);

const DROP_FIRST = 'Drop it first and create it again afterwards.';

/**
 * Returns a problem for each undeclared object that depends on a column whose type changes. `isOnline`: columns whose
 * change does not alter the old column, or that is already rejected for these dependants.
 */
export async function foreignDependants(
  session: Queryable,
  changes: readonly Change[],
  isOnline: (column: string) => boolean,
): Promise<MigrationProblem[]> {
  const found: MigrationProblem[] = [];
  const removed = removedKeys(changes);
  for (const { live, liveColumn, column } of ofKind(changes, 'change-type')) {
    if (live === null) continue;
    const rows = await session.query<{
      what: string;
      trigger: string | null;
      rule: string | null;
      view: string | null;
      body: string | null;
    }>(sql`
      select distinct t.tgname as trigger, case when d.classid = 'pg_proc'::regclass then d.objid::text end as body,
        case when r.rulename <> '_RETURN' then 'pg_rewrite/' || r.oid end as rule, case when v.relkind in ('v', 'm') and r.rulename = '_RETURN' then vn.nspname || '.' || v.relname end as view, case when v.relkind in ('v', 'm') then pg_describe_object('pg_class'::regclass, r.ev_class, 0)
        when f.oid is not null then pg_describe_object('pg_class'::regclass, f.adrelid, f.adnum)
        else pg_describe_object(d.classid, d.objid, d.objsubid) end as what
      from pg_depend d left join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
      left join pg_class v on v.oid = r.ev_class left join pg_namespace vn on vn.oid = v.relnamespace
      left join pg_trigger t on d.classid = 'pg_trigger'::regclass and t.oid = d.objid
      left join pg_attrdef f on d.classid = 'pg_attrdef'::regclass and f.oid = d.objid
      left join pg_attribute g on g.attrelid = f.adrelid and g.attnum = f.adnum
      where d.refclassid = 'pg_class'::regclass and d.refobjid = ${live.oid}::oid and d.refobjsubid = ${liveColumn.number}
        and (r.oid is not null or not ${isOnline(column.at)} and (
          (not t.tgisinternal and t.tgname not like 'svc\\_ref\\_%' and t.tgname not like '~svc\\_n\\_%')
          or (g.attgenerated <> '' and g.attnum <> d.refobjsubid)
          or (d.classid = 'pg_class'::regclass and d.objid = d.refobjid and d.objsubid > 0)
          or d.classid in ('pg_proc'::regclass, 'pg_publication_rel'::regclass)))
      order by 2`);
    const home = objectKey(live);
    const isOurs = ({ trigger, rule, view, body }: (typeof rows)[number]): boolean =>
      (body !== null && removed.has(rebuildKey('body', '', body))) ||
      (rule !== null && removed.has(rebuildKey('statement', '', rule))) ||
      (trigger !== null && removed.has(rebuildKey('trigger', home, trigger))) ||
      (view !== null && removed.has(rebuildKey('view', view, '')));
    found.push(
      ...rows
        .filter((row) => !isOurs(row))
        .map(({ what }) =>
          problem('MIG-304', `${column.at}.type`, `${what} uses ${column.name}`, DROP_FIRST),
        ),
    );
  }
  return found;
}

/** Returns a problem for each undeclared object that depends on a changed one. svc never drops such objects. */
export function blockingUnmanagedObjects(
  holding: readonly Holding[],
  changes: readonly Change[],
): MigrationProblem[] {
  const removed = removedKeys(changes);
  return holding
    .filter(({ key }) => key === null || !removed.has(key))
    .map(({ at, what }) => {
      // The column uses a range type or a collation.
      if (at.startsWith('statements.') && what.startsWith('column '))
        return problem(
          'MIG-304',
          at,
          `${what} is made of it, and svc does not take a column apart for that`,
          'Give the new one another name, and the column that.',
        );
      return what.startsWith('policy ')
        ? problem(
            'MIG-304',
            at,
            `a policy that is not in the file uses what changes: ${what.slice('policy '.length)}`,
            'Declare it under rls, or drop it first and create it again afterwards.',
          )
        : problem('MIG-304', at, `${what}, which is not in the file, uses what changes`, DROP_FIRST);
    });
}
