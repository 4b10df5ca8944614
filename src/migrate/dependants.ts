// What stands on a thing that changes: ours steps aside and comes back, anything else stops the plan.
import type { Queryable } from '../postgres/owner-database.ts';
import { sql } from '../postgres/sql.ts';
import type { Change, DropRetiredChange } from './change.ts';
import type { Desired } from './desired.ts';
import { type Rebuild, rebuildKey } from './diff.ts';
import { keyOf, tableKey } from './model.ts';
import type { Ownership } from './ownership.ts';
import { STORAGE_OBJECTS } from './policy-rings.ts';
import { type MigrationProblem, problem } from './problem.ts';

export type Dependants = {
  /** What must step aside while what it stands on changes. */
  readonly rebuild: Rebuild;
  /** Whose these are, and whose foreign keys point at what changes. */
  readonly tables: ReadonlySet<string>;
};

/** Policies, checks, partial indexes and defaults, and the tables with foreign keys. */
export async function findDependants(session: Queryable, changes: readonly Change[]): Promise<Dependants> {
  const columns = changes.flatMap((change) =>
    change.kind === 'retype' && change.live
      ? [{ oid: change.live.oid, number: change.liveColumn.number }]
      : [],
  );
  const functions = changes.flatMap((change) =>
    change.kind === 'recreate-function' && change.live ? [change.live.oid] : [],
  );
  if (columns.length === 0 && functions.length === 0) return { rebuild: new Set(), tables: new Set() };
  const rows = await session.query<{
    kind: 'policy' | 'check' | 'index' | 'default' | 'reference';
    table: string;
    label: string;
  }>(sql`
    with below as (
      select 'pg_class'::regclass as class, w.oid::oid as object, w.number as part
      from jsonb_to_recordset(${JSON.stringify(columns)}::jsonb) as w (oid text, number int)
      union all select 'pg_proc'::regclass, unnest(${functions}::text[])::oid, 0
    ), above as (
      select distinct d.classid, d.objid from pg_depend d join below b
        on d.refclassid = b.class and d.refobjid = b.object and d.refobjsubid = b.part
    )
    select 'policy' as kind, n.nspname || '.' || c.relname as table, p.polname as label
      from above a join pg_policy p on a.classid = 'pg_policy'::regclass and p.oid = a.objid
      join pg_class c on c.oid = p.polrelid join pg_namespace n on n.oid = c.relnamespace
    union all
    select 'check', n.nspname || '.' || c.relname, k.conname
      from above a join pg_constraint k on a.classid = 'pg_constraint'::regclass and k.oid = a.objid and k.contype = 'c'
      join pg_class c on c.oid = k.conrelid join pg_namespace n on n.oid = c.relnamespace
    union all
    select 'reference', n.nspname || '.' || c.relname, k.conname
      from above a join pg_constraint k on a.classid = 'pg_constraint'::regclass and k.oid = a.objid and k.contype = 'f'
      join pg_class c on c.oid = k.conrelid join pg_namespace n on n.oid = c.relnamespace
    union all
    select 'default', n.nspname || '.' || c.relname, t.attname
      from above a join pg_attrdef f on a.classid = 'pg_attrdef'::regclass and f.oid = a.objid
      join pg_attribute t on t.attrelid = f.adrelid and t.attnum = f.adnum
      join pg_class c on c.oid = f.adrelid join pg_namespace n on n.oid = c.relnamespace
    union all
    select 'index', n.nspname || '.' || c.relname, ic.relname
      from above a join pg_index i on a.classid = 'pg_class'::regclass and i.indexrelid = a.objid and i.indpred is not null
      join pg_class ic on ic.oid = i.indexrelid join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace`);
  return {
    rebuild: new Set(
      rows.flatMap(({ kind, table, label }) =>
        kind === 'reference' ? [] : [rebuildKey(kind, table, label)],
      ),
    ),
    // The policies of buckets are looked at every time.
    tables: new Set(rows.map((row) => row.table).filter((table) => table !== STORAGE_OBJECTS)),
  };
}

/**
 * What is retired must hinder nobody: whatever of it stands on a function that goes or is made anew, on a column whose
 * type changes, or on a key that goes.
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
    change.kind === 'retype' && change.live
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
      select case k.contype when 'c' then 'check' else 'foreign key' end, k.conrelid, k.conname
        from above a join pg_constraint k on a.classid = 'pg_constraint'::regclass and k.oid = a.objid and k.contype in ('c', 'f')
      union all
      select 'default', f.adrelid, t.attname
        from above a join pg_attrdef f on a.classid = 'pg_attrdef'::regclass and f.oid = a.objid
        join pg_attribute t on t.attrelid = f.adrelid and t.attnum = f.adnum and t.attgenerated = ''
      union all
      select 'index', i.indrelid, c.relname
        from above a join pg_index i on a.classid = 'pg_class'::regclass and i.indexrelid = a.objid
        join pg_class c on c.oid = i.indexrelid
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
    const key = tableKey(row.schema, row.name);
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

/** What of these does not step aside by itself. */
export function withoutRetired(found: Dependants, retired: readonly DropRetiredChange[]): Dependants {
  const gone = new Set(
    retired.flatMap(({ what, home, label }) =>
      what === 'foreign key' ? [] : [rebuildKey(what, tableKey(home.schema, home.name), label)],
    ),
  );
  return { ...found, rebuild: new Set([...found.rebuild].filter((key) => !gone.has(key))) };
}

type Dependant = { readonly at: string; readonly what: string; readonly on: string };

/** Views and the like over a column whose type changes; not ours to drop. */
export async function foreignDependants(
  session: Queryable,
  changes: readonly Change[],
): Promise<Dependant[]> {
  const found: Dependant[] = [];
  for (const change of changes) {
    if (change.kind !== 'retype' || !change.live) continue;
    const rows = await session.query<{ what: string }>(sql`
      select distinct pg_describe_object('pg_class'::regclass, r.ev_class, 0) as what
      from pg_depend d join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
      where d.refclassid = 'pg_class'::regclass and d.refobjid = ${change.live.oid}::oid and d.refobjsubid = ${change.liveColumn.number}`);
    for (const row of rows)
      found.push({ at: `${change.column.at}.type`, what: row.what, on: change.column.name });
  }
  return found;
}

/** Policies nobody declared, over what changes: PostgreSQL changes nothing below them. */
export function foreignPolicies(rebuild: Rebuild, changes: readonly Change[]): MigrationProblem[] {
  const stepping = new Set(
    changes.flatMap((change) => {
      if (change.kind === 'drop-policy')
        return [rebuildKey('policy', tableKey(change.table.schema, change.table.name), change.policy.label)];
      if (change.kind === 'drop-storage-policy')
        return [rebuildKey('policy', STORAGE_OBJECTS, change.policy.label)];
      return [];
    }),
  );
  const cause = changes.find((change) => change.kind === 'retype' || change.kind === 'recreate-function');
  const at = cause?.kind === 'retype' ? `${cause.column.at}.type` : cause && 'fn' in cause ? cause.fn.at : '';
  return [...rebuild]
    .filter((key) => key.startsWith('policy ') && !stepping.has(key))
    .map((key) =>
      problem(
        'MIG-304',
        at,
        `a policy that is not in the file uses what changes: ${key.slice('policy '.length)}`,
        'Declare it under rls, or drop it first and create it again afterwards.',
      ),
    );
}

export function unmanagedInTheWay(dependants: readonly Dependant[]): MigrationProblem[] {
  return dependants.map((one) =>
    problem('MIG-304', one.at, `${one.what} uses ${one.on}`, 'Drop it first and create it again afterwards.'),
  );
}
