// What depends on something that changes: ours is dropped and made again, anything else stops the plan.
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw, sql } from '../../postgres/sql.ts';
import type { Change, DropRetiredChange } from '../diff/change.ts';
import type { Desired } from '../schema/desired.ts';
import { droppedKeys } from '../diff/dropped.ts';
import { type Rebuild, type RebuildKind, rebuildKey } from '../diff/table-diff.ts';
import { NOT_PLAIN_INDEX } from '../schema/live/live-queries.ts';
import { isOfRange, isStatement } from '../schema/live/live-statements.ts';
import { mayStay } from '../diff/objects/statements.ts';
import { keyOf } from '../schema/model.ts';
import type { Ownership } from '../schema/managed.ts';
import { HOSTS } from '../schema/rights/hosts.ts';
import { USERS } from '../schema/triggers.ts';
import { type MigrationProblem, problem } from '../problem.ts';
import type { ChangeOf } from './step-list.ts';

export type Dependants = {
  /** What must be dropped while something it depends on changes. */
  readonly rebuild: Rebuild;
  /** The tables and views these belong to, and those with foreign keys to what changes. */
  readonly tables: ReadonlySet<string>;
  /** Dependants that make PostgreSQL refuse the change: they are dropped, or the plan stops. */
  readonly holding: readonly Holding[];
};

type Holding = {
  readonly at: string;
  /** As in `rebuild`; null for what the engine never makes. */
  readonly key: string | null;
  readonly what: string;
};

/** `number`: of a column; 0 for what has none, null for all of a view. */
type Root = {
  readonly class: string;
  readonly oid: string;
  readonly number: number | null;
  readonly at: string;
  /** The column is dropped and made again. */
  readonly goes: boolean;
};

type DependantKind = RebuildKind | 'reference' | 'other';

/**
 * Policies, checks, partial indexes, defaults, functions with defaults, views, and tables with foreign keys. A function
 * cannot be dropped for one with other arguments while anything still depends on it, and a view neither.
 */
export async function findDependants(session: Queryable, changes: readonly Change[]): Promise<Dependants> {
  const roots = changes.flatMap((change): Root[] => {
    if (change.kind === 'change-type' && change.live) {
      const { live, liveColumn, column } = change;
      return [
        { class: 'pg_class', oid: live.oid, number: liveColumn.number, at: `${column.at}.type`, goes: false },
      ];
    }
    if (goesAway(change) && change.live) {
      const { live, liveColumn, column } = change;
      return [{ class: 'pg_class', oid: live.oid, number: liveColumn.number, at: column.at, goes: true }];
    }
    if (change.kind === 'recreate-function' && change.live)
      return [{ class: 'pg_proc', oid: change.live.oid, number: 0, at: change.fn.at, goes: false }];
    if (change.kind === 'recreate-view' || change.kind === 'drop-view') {
      const at = change.kind === 'drop-view' ? `views.${change.live.name}` : change.view.at;
      return [{ class: 'pg_class', oid: change.live.oid, number: null, at, goes: false }];
    }
    // What may stay is dropped after all that used it, or not at all.
    if (change.kind === 'recreate-statement' || (change.kind === 'drop-statement' && !mayStay(change.live))) {
      const [catalog = '', oid = ''] = change.live.address.split('/');
      const at =
        change.kind === 'drop-statement' ? `statements.${change.live.identity}` : change.statement.at;
      return [{ class: catalog, oid, number: 0, at, goes: false }];
    }
    return [];
  });
  if (roots.length === 0) return { rebuild: new Set(), tables: new Set(), holding: [] };
  const rows = await session.query<{
    at: string;
    kind: DependantKind;
    table: string;
    label: string;
    what: string;
    called: boolean;
    goes: boolean;
  }>(sql`
    with recursive below as (
      select w.class::regclass as class, w.oid::oid as object, w.number as part, w.at, w.goes
      from jsonb_to_recordset(${JSON.stringify(roots)}::jsonb) as w (class text, oid text, number int, at text, goes boolean)
      union select g.class, g.object, g.part, b.at, false from below b cross join lateral (
          select d.classid::regclass as class, d.objid as object, 0 as part from pg_depend d
            where b.class <> 'pg_class'::regclass and d.refclassid = b.class and d.refobjid = b.object and d.classid = 'pg_proc'::regclass and not ${raw(isOfRange('d'))}
              and not ${IS_OF_BODY}
          union all select d.classid::regclass, d.objid, 0 from pg_depend d
            where d.refclassid = b.class and d.refobjid = b.object and d.refobjsubid = coalesce(b.part, d.refobjsubid) and ${raw(isStatement('d.classid', 'd.objid'))}
          union all select 'pg_type'::regclass, y.oid, 0 from pg_type y left join pg_range q on q.rngmultitypid = y.oid
            where b.class = 'pg_type'::regclass and b.object in (y.typelem, q.rngtypid)
          -- All of a view goes with what its query reads, and with it the functions that take or return its rows.
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
      where (d.deptype <> 'i' or d.classid = 'pg_rewrite'::regclass) and not ${raw(isOfRange('d'))}
        and not exists (select from pg_rewrite own where d.classid = 'pg_rewrite'::regclass and own.oid = d.objid and own.ev_class = b.object and own.rulename = '_RETURN')
        and not (b.part is null and exists (select from pg_trigger own where d.classid = 'pg_trigger'::regclass and own.oid = d.objid and own.tgrelid = b.object))
        and not (b.part is null and exists (select from pg_index own where d.classid = 'pg_class'::regclass and own.indexrelid = d.objid and own.indrelid = b.object))
        -- What a column takes along when it goes: its expression, its sequence, its NOT NULL.
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
    from named m left join pg_class c on c.oid = m.home left join pg_namespace n on n.oid = c.relnamespace`);
  const keyOfRow = ({ kind, table, label }: (typeof rows)[number]): string | null =>
    kind === 'reference' || kind === 'other' ? null : rebuildKey(kind, table, label);
  return {
    rebuild: new Set(rows.map(keyOfRow).filter((key) => key !== null)),
    // The policies of buckets and channels and the triggers of users are compared every time.
    tables: new Set(rows.map((row) => row.table).filter((table) => !['', ...HOSTS, USERS].includes(table))),
    // What reads a column whose type changes is told by `foreignDependants`.
    holding: rows
      .filter((row) => row.kind === 'policy' || row.called || row.goes)
      .map((row) => ({
        at: row.at,
        key: keyOfRow(row),
        what: row.kind === 'policy' ? `policy ${row.table} ${row.label}` : row.what,
      })),
  };
}

/** Its column is dropped and added. */
function goesAway(change: Change): change is ChangeOf<'remake-column' | 'drop-expression'> {
  return (
    change.kind === 'remake-column' ||
    (change.kind === 'drop-expression' && change.liveColumn.generated === 'virtual')
  );
}

/**
 * What is retired must block nothing: it is dropped where it depends on a function that goes or is made again, on a
 * column whose type changes, or on a key that goes.
 */
export async function retiredInTheWay(
  session: Queryable,
  desired: Desired,
  changes: readonly Change[],
  owned: Ownership,
): Promise<DropRetiredChange[]> {
  const functions = changes.flatMap((change) =>
    (change.kind === 'recreate-function' || change.kind === 'drop-function') && change.live
      ? [change.live.oid]
      : [],
  );
  const columns = changes.flatMap((change) =>
    change.kind === 'change-type' && change.live
      ? [{ oid: change.live.oid, number: change.liveColumn.number }]
      : [],
  );
  const keys = changes.flatMap((change) => {
    if ((change.kind !== 'drop-key' && change.kind !== 'drop-index') || !change.live) return [];
    return [
      { oid: change.live.oid, label: change.kind === 'drop-key' ? change.key.label : change.index.label },
    ];
  });
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
  const declared = new Map(desired.tables.map((table) => [keyOf(table), table]));
  const retiring = new Set(
    changes.flatMap((change) => {
      if (change.kind === 'retire-table') return [keyOf(change.live)];
      return change.kind === 'retire-column' ? [`${keyOf(change.table)}.${change.liveColumn.name}`] : [];
    }),
  );
  const isRetired = (row: (typeof rows)[number]): boolean => {
    const key = keyOf(row);
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
 * A body that the server has read depends on what it uses, and so do defaults of arguments: where a function has both,
 * nobody can tell which it is.
 */
const IS_OF_BODY = raw(
  `exists (select from pg_proc p where p.oid = d.objid and p.prosqlbody is not null and p.pronargdefaults = 0)`,
);

const DROP_FIRST = 'Drop it first and create it again afterwards.';

/**
 * What depends on a column whose type changes and is not ours to drop: views of others, and all else that makes PostgreSQL
 * refuse the change. `isOnline`: columns whose change does not touch the old column, or is refused for these reasons already.
 */
export async function foreignDependants(
  session: Queryable,
  changes: readonly Change[],
  isOnline: (column: string) => boolean,
): Promise<MigrationProblem[]> {
  const found: MigrationProblem[] = [];
  const dropped = droppedKeys(changes);
  for (const change of changes) {
    if (change.kind !== 'change-type' || !change.live) continue;
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
      where d.refclassid = 'pg_class'::regclass and d.refobjid = ${change.live.oid}::oid and d.refobjsubid = ${change.liveColumn.number}
        and (r.oid is not null or not ${isOnline(change.column.at)} and (
          (not t.tgisinternal and t.tgname not like 'svc\\_ref\\_%' and t.tgname not like '~svc\\_n\\_%')
          or (g.attgenerated <> '' and g.attnum <> d.refobjsubid)
          or (d.classid = 'pg_class'::regclass and d.objid = d.refobjid and d.objsubid > 0)
          or d.classid in ('pg_proc'::regclass, 'pg_publication_rel'::regclass)))
      order by 2`);
    const home = keyOf(change.live);
    const isOurs = ({ trigger, rule, view, body }: (typeof rows)[number]): boolean =>
      (body !== null && dropped.has(rebuildKey('body', '', body))) ||
      (rule !== null && dropped.has(rebuildKey('statement', '', rule))) ||
      (trigger !== null && dropped.has(rebuildKey('trigger', home, trigger))) ||
      (view !== null && dropped.has(rebuildKey('view', view, '')));
    found.push(
      ...rows
        .filter((row) => !isOurs(row))
        .map(({ what }) =>
          problem('MIG-304', `${change.column.at}.type`, `${what} uses ${change.column.name}`, DROP_FIRST),
        ),
    );
  }
  return found;
}

/** What the file does not declare and depends on what changes: nobody drops it. */
export function strangersInTheWay(
  holding: readonly Holding[],
  changes: readonly Change[],
): MigrationProblem[] {
  const dropped = droppedKeys(changes);
  return holding
    .filter(({ key }) => key === null || !dropped.has(key))
    .map(({ at, what }) => {
      // Of a range type or a collation.
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
