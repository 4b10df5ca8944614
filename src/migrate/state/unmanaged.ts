// Lists objects in the managed schemas that no file has declared, for `status` and `drift`: tables, types, views,
// functions, triggers, exclusion constraints, sequences without a column, and objects of statements. svc never changes
// them. The diff finds undeclared parts of declared tables.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql, type Sql } from '../../postgres/sql.ts';
import { readObjects } from './managed-objects.ts';
import { IS_FREE_SEQUENCE, OWN_TYPES } from '../schema/live/live-queries.ts';
import { readStatements } from '../schema/live/live-statements.ts';
import { objectKey, type SchemaModel, declaredViews } from '../schema/model.ts';
import { PUBLICATION } from '../schema/publication.ts';
import { type LiveStatement, declaredStatements } from '../schema/statements.ts';
import { toTriggers, toUserTriggers } from '../schema/triggers.ts';

export type UnmanagedObject = {
  readonly what: string;
  /** Name with its schema, or with its table. */
  readonly name: string;
  /** True if an API role can read or call the object. */
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
    ...[...model.tables, ...declaredViews(model)].map(objectKey),
  ];
  // The diff finds overloads of declared functions.
  const functions = [...ownership.functions.values(), ...model.functions].map(objectKey);
  const types = [...ownership.types, ...ownership.retiredTypes, ...(model.types ?? []).map(objectKey)];
  const sequences = [
    ...ownership.sequences,
    ...ownership.retiredSequences,
    ...(model.sequences ?? []).map(objectKey),
  ];
  const triggers = [
    ...[...ownership.tables, ...ownership.retiredTables].flatMap(([key, owned]) =>
      (owned.triggers ?? []).map((label) => `${key} ${label}`),
    ),
    ...(ownership.viewTriggers ?? []),
    ...[...model.tables, ...declaredViews(model)].flatMap((table) =>
      toTriggers(table).map(({ label }) => `${objectKey(table)} ${label}`),
    ),
  ];
  const constraints = [...ownership.tables, ...ownership.retiredTables].flatMap(([key, owned]) =>
    owned.constraints.map((label) => `${key} ${label}`),
  );
  const userTriggers = [...ownership.userTriggers, ...toUserTriggers(model).map(({ label }) => label)];
  const published = [
    ...[...ownership.tables].flatMap(([key, owned]) =>
      owned.attributes?.includes('published') ? [key] : [],
    ),
    ...model.tables.filter(({ realtime }) => realtime).map(objectKey),
  ];
  const objects = await session.query<UnmanagedObject>(
    unmanagedQuery(schemas, {
      tables,
      functions,
      types,
      sequences,
      triggers,
      constraints,
      userTriggers,
      published,
    }),
  );
  // Before the first run only the names of statements are known.
  const declared = new Set(declaredStatements(model).map(statementName));
  const statements = await readStatements(session, schemas);
  return [
    ...objects,
    ...statements
      .filter(
        (statement) =>
          !ownership.statements.has(statement.identity) &&
          !declared.has(statementName(statement)) &&
          (statement.host === null || tables.includes(statement.host)),
      )
      .map((item) => ({ ...statementParts(item), open: isOpen(item) })),
  ].toSorted((a, b) => compare(a.what, b.what) || compare(a.name, b.name));
}

/** Names of the objects that the file declares or that svc keeps, by kind. */
type ManagedNames = Readonly<
  Record<
    | 'tables'
    | 'functions'
    | 'types'
    | 'sequences'
    | 'triggers'
    | 'constraints'
    | 'userTriggers'
    | 'published',
    string[]
  >
>;

function unmanagedQuery(schemas: readonly string[], managed: ManagedNames): Sql {
  const { tables, functions, types, sequences, triggers, constraints, userTriggers, published } = managed;
  return sql`
    with schema as (
      select n.oid, n.nspname as name, has_schema_privilege('anon', n.oid, 'usage')
        or has_schema_privilege('authenticated', n.oid, 'usage') as open
      from pg_namespace n where n.nspname = any (${[...schemas]})
    )
    select case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table' else 'table' end
        as what,
      s.name || '.' || c.relname as name,
      s.open and (has_any_column_privilege('anon', c.oid, 'select')
        or has_any_column_privilege('authenticated', c.oid, 'select')) as open
    from pg_class c join schema s on s.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
      and s.name || '.' || c.relname <> all (${tables})
      and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid
        and d.deptype = 'e')
    union all
    select case p.prokind when 'p' then 'procedure' else 'function' end,
      s.name || '.' || p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')',
      s.open and (has_function_privilege('anon', p.oid, 'execute')
        or has_function_privilege('authenticated', p.oid, 'execute'))
    from pg_proc p join schema s on s.oid = p.pronamespace
    where s.name || '.' || p.proname <> all (${functions}) and p.prokind <> 'a'
      and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid
        and d.deptype in ('e', 'i'))
    union all
    select 'type', s.name || '.' || t.typname, false
    from pg_type t join schema s on s.oid = t.typnamespace where s.name || '.' || t.typname <> all (${types})
      and ${OWN_TYPES}
    union all
    select 'trigger', t.tgname || ' of ' || s.name || '.' || c.relname
        || case t.tgenabled when 'D' then ' (disabled)' else '' end, false
    from pg_trigger t join pg_class c on c.oid = t.tgrelid join schema s on s.oid = c.relnamespace
    where not t.tgisinternal and t.tgparentid = 0 and t.tgname !~ '^~?svc_'
      and s.name || '.' || c.relname = any (${tables})
      and s.name || '.' || c.relname || ' ' || t.tgname <> all (${triggers})
    union all
    select 'trigger', t.tgname || ' of auth.users' || case t.tgenabled when 'D' then ' (disabled)' else '' end, false
    from pg_trigger t where t.tgrelid = to_regclass('auth.users') and not t.tgisinternal and t.tgname !~ '^~?svc_'
      and t.tgname <> all (${userTriggers})
    union all
    select 'exclusion constraint', k.conname || ' of ' || s.name || '.' || c.relname, false
    from pg_constraint k join pg_class c on c.oid = k.conrelid join schema s on s.oid = c.relnamespace
    where k.contype = 'x' and k.conparentid = 0
      and s.name || '.' || c.relname || ' ' || k.conname <> all (${constraints})
      and s.name || '.' || c.relname = any (${tables})
    union all
    select 'sequence', s.name || '.' || c.relname,
      s.open and (has_sequence_privilege('anon', c.oid, 'usage')
        or has_sequence_privilege('authenticated', c.oid, 'usage'))
    from pg_class c join schema s on s.oid = c.relnamespace
    where ${IS_FREE_SEQUENCE} and s.name || '.' || c.relname <> all (${sequences})
    union all
    select 'member of the publication ' || p.pubname || ':', n.nspname || '.' || c.relname,
      n.nspname = any (${[...schemas]}) and (has_any_column_privilege('anon', c.oid, 'select')
        or has_any_column_privilege('authenticated', c.oid, 'select'))
    from pg_publication p join pg_publication_rel m on m.prpubid = p.oid join pg_class c on c.oid = m.prrelid
      join pg_namespace n on n.oid = c.relnamespace
    where p.pubname = ${PUBLICATION} and n.nspname <> 'realtime' and n.nspname || '.' || c.relname <> all (${published})
    order by 1, 2`;
}

function statementName({ kind, schema, name }: Pick<LiveStatement, 'kind' | 'schema' | 'name'>): string {
  return `${kind} ${schema}.${name}`;
}

/** Returns kind and name, such as `rule` and `quiet of public.notes`. */
function statementParts({ kind, identity }: LiveStatement): Pick<UnmanagedObject, 'what' | 'name'> {
  const name = identity.slice(kind.length + 1);
  return { what: kind, name: kind === 'rule' ? name.replace(' on ', ' of ') : name };
}

function isOpen({ callers }: LiveStatement): boolean {
  return ['public', 'anon', 'authenticated'].some((role) => callers.includes(role));
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
