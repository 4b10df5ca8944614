// Tables, types, views, functions, triggers, exclusion constraints, sequences of no column and what only statements make,
// in the managed schemas, that no file ever declared: listed by `status` and `drift`, never touched. The diff finds
// undeclared parts of declared tables.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { readObjects } from './managed-objects.ts';
import { IS_FREE_SEQUENCE, OWN_TYPES } from '../schema/live/live-queries.ts';
import { readStatements } from '../schema/live/live-statements.ts';
import { keyOf, type SchemaModel, viewsOf } from '../schema/model.ts';
import { PUBLICATION } from '../schema/publication.ts';
import { type LiveStatement, statementsOf } from '../schema/statements.ts';
import { triggersOf, userTriggersOf } from '../schema/triggers.ts';

export type UnmanagedObject = {
  readonly what: string;
  /** With its schema, or with the table it is on. */
  readonly name: string;
  /** The API roles can read or call it. */
  readonly open: boolean;
};

export async function readUnmanagedObjects(
  session: Queryable,
  model: SchemaModel,
  schemas: readonly string[],
): Promise<UnmanagedObject[]> {
  const { ownership } = await readObjects(session);
  const tables = [
    ...ownership.tables.keys(),
    ...ownership.retiredTables.keys(),
    ...ownership.views,
    ...[...model.tables, ...viewsOf(model)].map(keyOf),
  ];
  // The diff finds overloads of declared functions.
  const functions = [...ownership.functions.values(), ...model.functions].map(keyOf);
  const types = [...ownership.types, ...ownership.retiredTypes, ...(model.types ?? []).map(keyOf)];
  const sequences = [
    ...ownership.sequences,
    ...ownership.retiredSequences,
    ...(model.sequences ?? []).map(keyOf),
  ];
  const triggers = [
    ...[...ownership.tables, ...ownership.retiredTables].flatMap(([key, owned]) =>
      (owned.triggers ?? []).map((label) => `${key} ${label}`),
    ),
    ...(ownership.viewTriggers ?? []),
    ...[...model.tables, ...viewsOf(model)].flatMap((table) =>
      triggersOf(table).map(({ label }) => `${keyOf(table)} ${label}`),
    ),
  ];
  const constraints = [...ownership.tables, ...ownership.retiredTables].flatMap(([key, owned]) =>
    owned.constraints.map((label) => `${key} ${label}`),
  );
  const userTriggers = [...ownership.userTriggers, ...userTriggersOf(model).map(({ label }) => label)];
  const published = [
    ...[...ownership.tables].flatMap(([key, owned]) =>
      owned.attributes?.includes('published') ? [key] : [],
    ),
    ...model.tables.filter(({ realtime }) => realtime).map(keyOf),
  ];
  const objects = await session.query<UnmanagedObject>(sql`
    with schema as (
      select n.oid, n.nspname as name, has_schema_privilege('anon', n.oid, 'usage') or has_schema_privilege('authenticated', n.oid, 'usage') as open
      from pg_namespace n where n.nspname = any (${[...schemas]})
    )
    select case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table' else 'table' end as what,
      s.name || '.' || c.relname as name,
      s.open and (has_any_column_privilege('anon', c.oid, 'select') or has_any_column_privilege('authenticated', c.oid, 'select')) as open
    from pg_class c join schema s on s.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition and s.name || '.' || c.relname <> all (${tables})
      and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
    union all
    select case p.prokind when 'p' then 'procedure' else 'function' end,
      s.name || '.' || p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')',
      s.open and (has_function_privilege('anon', p.oid, 'execute') or has_function_privilege('authenticated', p.oid, 'execute'))
    from pg_proc p join schema s on s.oid = p.pronamespace
    where s.name || '.' || p.proname <> all (${functions}) and p.prokind <> 'a'
      and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype in ('e', 'i'))
    union all
    select 'type', s.name || '.' || t.typname, false
    from pg_type t join schema s on s.oid = t.typnamespace where s.name || '.' || t.typname <> all (${types}) and ${OWN_TYPES}
    union all
    select 'trigger', t.tgname || ' of ' || s.name || '.' || c.relname || case t.tgenabled when 'D' then ' (disabled)' else '' end, false
    from pg_trigger t join pg_class c on c.oid = t.tgrelid join schema s on s.oid = c.relnamespace
    where not t.tgisinternal and t.tgparentid = 0 and t.tgname !~ '^~?svc_'
      and s.name || '.' || c.relname = any (${tables}) and s.name || '.' || c.relname || ' ' || t.tgname <> all (${triggers})
    union all
    select 'trigger', t.tgname || ' of auth.users' || case t.tgenabled when 'D' then ' (disabled)' else '' end, false
    from pg_trigger t where t.tgrelid = to_regclass('auth.users') and not t.tgisinternal and t.tgname !~ '^~?svc_' and t.tgname <> all (${userTriggers})
    union all
    select 'exclusion constraint', k.conname || ' of ' || s.name || '.' || c.relname, false
    from pg_constraint k join pg_class c on c.oid = k.conrelid join schema s on s.oid = c.relnamespace
    where k.contype = 'x' and k.conparentid = 0 and s.name || '.' || c.relname || ' ' || k.conname <> all (${constraints}) and s.name || '.' || c.relname = any (${tables})
    union all
    select 'sequence', s.name || '.' || c.relname,
      s.open and (has_sequence_privilege('anon', c.oid, 'usage') or has_sequence_privilege('authenticated', c.oid, 'usage'))
    from pg_class c join schema s on s.oid = c.relnamespace
    where ${IS_FREE_SEQUENCE} and s.name || '.' || c.relname <> all (${sequences})
    union all
    select 'member of the publication ' || p.pubname || ':', n.nspname || '.' || c.relname,
      n.nspname = any (${[...schemas]}) and (has_any_column_privilege('anon', c.oid, 'select') or has_any_column_privilege('authenticated', c.oid, 'select'))
    from pg_publication p join pg_publication_rel m on m.prpubid = p.oid join pg_class c on c.oid = m.prrelid join pg_namespace n on n.oid = c.relnamespace
    where p.pubname = ${PUBLICATION} and n.nspname <> 'realtime' and n.nspname || '.' || c.relname <> all (${published})
    order by 1, 2`);
  // Before the first run only their names are known.
  const declared = new Set(statementsOf(model).map(nameOf));
  const statements = await readStatements(session, schemas);
  return [
    ...objects,
    ...statements
      .filter(
        (one) =>
          !ownership.statements.has(one.identity) &&
          !declared.has(nameOf(one)) &&
          (one.host === null || tables.includes(one.host)),
      )
      .map((one) => ({ ...partsOf(one), open: isOpen(one) })),
  ].toSorted((a, b) => compare(a.what, b.what) || compare(a.name, b.name));
}

function nameOf({ kind, schema, name }: Pick<LiveStatement, 'kind' | 'schema' | 'name'>): string {
  return `${kind} ${schema}.${name}`;
}

/** `rule quiet of public.notes` */
function partsOf({ kind, identity }: LiveStatement): Pick<UnmanagedObject, 'what' | 'name'> {
  const name = identity.slice(kind.length + 1);
  return { what: kind, name: kind === 'rule' ? name.replace(' on ', ' of ') : name };
}

function isOpen({ callers }: LiveStatement): boolean {
  return ['public', 'anon', 'authenticated'].some((role) => callers.includes(role));
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
