// Helpers of the random tests: empty a database, insert and read rows, and describe its catalog.
import { quoteIdent, quoteLiteral } from '../../src/postgres/sql.ts';
import { SPREAD, validValues, type RandomFile, type RandomTable } from './random-file.ts';
import type { World } from './world.ts';

/** Number of rows that are inserted into each table. */
export const ROWS = 3;

/** Rows by table id and column id, so that they do not depend on names. */
export type Rows = Record<string, Record<string, unknown>[]>;

/**
 * Describes the catalog without labels, positions and retired objects. Unique indexes and unique constraints are equal,
 * because the engine accepts one for the other.
 */
export async function structure(where: World, file: RandomFile): Promise<string[]> {
  const spread = file.spread ? [SPREAD] : [];
  const tables = [...file.tables.map((table) => quotedName(table)), ...spread];
  const columns = file.tables.flatMap((table) =>
    table.columns.map((column) => `${quotedName(table)} ${column.name}`),
  );
  for (const name of ['id', 'part', ...Array.from({ length: file.spread?.more ?? 0 }, (_, n) => `more_${n}`)])
    columns.push(`${SPREAD} ${name}`);
  const rows = await where.sql(
    `with t as (select x::regclass as oid, x as name from unnest($1::text[]) x)
     select 'column ' || t.name || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' '
       || a.attnotnull || ' '
         || coalesce(regexp_replace(pg_get_expr(d.adbin, d.adrelid), '^nextval.*', 'nextval'), '') as line
       from t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
       left join pg_attrdef d on d.adrelid = t.oid and d.adnum = a.attnum where t.name || ' ' || a.attname = any ($2)
     union all select 'constraint ' || t.name || ' ' || pg_get_constraintdef(k.oid)
       from t join pg_constraint k on k.conrelid = t.oid and k.contype not in ('n', 'u') and k.convalidated
     union all select 'index ' || t.name || ' '
       || regexp_replace(pg_get_indexdef(i.indexrelid), 'INDEX .* ON', 'INDEX ON')
       from t join pg_index i on i.indrelid = t.oid and i.indisvalid
     union all select 'policy ' || t.name || ' ' || p.cmd || p.permissive || p.roles::text
       || coalesce(p.qual, '') || coalesce(p.with_check, '')
       from t join pg_class c on c.oid = t.oid
         join pg_policies p on p.tablename = c.relname and p.schemaname = c.relnamespace::regnamespace::text
     union all select 'table ' || t.name || ' ' || c.relrowsecurity
       || (select string_agg(g::text, ',' order by g::text) from unnest(c.relacl) g)
       from t join pg_class c on c.oid = t.oid
     union all select 'function ' || p.proname || pg_get_function_arguments(p.oid)
       || coalesce(pg_get_function_result(p.oid), '') || coalesce(pg_get_function_sqlbody(p.oid), p.prosrc)
       || p.prosecdef || p.provolatile::text || coalesce(p.proconfig::text, '') || p.proacl::text
       from pg_proc p where p.pronamespace = 'public'::regnamespace
         and (p.proname = any ($3) or has_function_privilege('anon', p.oid, 'execute'))
     union all select 'view ' || c.relname || pg_get_viewdef(c.oid) || c.relispopulated || coalesce(c.relacl::text, '')
         || coalesce((select string_agg(pg_get_indexdef(i.indexrelid), ';') from pg_index i
           where i.indrelid = c.oid), '')
       from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind = 'm'
     union all select 'sequence ' || s.seqrelid::regclass || (to_jsonb(s) - 'seqrelid')::text
       || coalesce((select string_agg(g::text, ',' order by g::text) from unnest(q.relacl) g), '')
       from pg_sequence s join pg_class q on q.oid = s.seqrelid
         where q.relnamespace = 'public'::regnamespace and q.relname = any ($4)
     union all select 'statistics ' || s.stxname || s.stxkind::text
       || coalesce(pg_get_expr(s.stxexprs, s.stxrelid), '') || ' of ' || t.oid::regclass || ' ' ||
         (select string_agg(a.attname, ', ' order by a.attname) from pg_attribute a
           where a.attrelid = t.oid and a.attnum = any (s.stxkeys))
       from t join pg_statistic_ext s on s.stxrelid = t.oid
     union all select 'partition ' || c.oid::regclass || ' ' || pg_get_expr(c.relpartbound, c.oid)
       || coalesce(pg_get_partkeydef(c.oid), '')
         || (select coalesce(string_agg(
             regexp_replace(pg_get_indexdef(i.indexrelid), 'INDEX .* ON', 'INDEX ON') || i.indisvalid, ';'
             order by regexp_replace(pg_get_indexdef(i.indexrelid), 'INDEX .* ON', 'INDEX ON')), '')
           from pg_index i where i.indrelid = c.oid)
       from t join pg_class c on pg_partition_root(c.oid) = t.oid where c.relispartition and c.relkind in ('r', 'p')
     union all select 'rule ' || pg_get_ruledef(r.oid) from t join pg_rewrite r on r.ev_class = t.oid
     union all select 'aggregate ' || p.oid::regprocedure || a.agginitval || coalesce(p.proacl::text, '')
       || obj_description(p.oid, 'pg_proc') from pg_aggregate a join pg_proc p on p.oid = a.aggfnoid
       where p.pronamespace = 'public'::regnamespace
     union all select 'range ' || r.rngtypid::regtype || r.rngsubtype::regtype || r.rngmultitypid::regtype
       from pg_range r where r.rngtypid >= 16384
     union all select 'storage ' || p.cmd || coalesce(p.qual, '') || coalesce(p.with_check, '')
       from pg_policies p where p.schemaname = 'storage' and p.policyname like 'svc\\_%'
     order by 1`,
    [
      tables,
      columns,
      file.functions.map((fn) => fn.called ?? fn.name),
      file.sequences.map((sequence) => sequence.name),
    ],
  );
  return rows.map((row) => String(row['line']));
}

export function quotedName(table: RandomTable): string {
  return `${quoteIdent(table.schema)}.${quoteIdent(table.name)}`;
}

/** Inserts rows into the given tables, or all tables of the file. */
export async function fillRows(
  world: World,
  file: RandomFile,
  tables: readonly RandomTable[] = file.tables,
): Promise<void> {
  for (const table of tables) {
    for (let row = 0; row < ROWS; row += 1) {
      const values = table.columns.flatMap((column): (readonly [string, string | null])[] => {
        if (column.type.endsWith('serial') || column.reference) return [];
        if (column.primaryKey && column.type === 'uuid') return [];
        // Unique values are inserted at most once, including values from defaults. Null skips the row.
        const isOnce = column.unique || table.excluded === column.id;
        const fillsItself = column.default || column.draws !== undefined;
        const left: [string, null][] =
          column.required || (isOnce && fillsItself) ? [[column.name, null]] : [];
        if (isOnce && row >= validValues(column).length) return left;
        if (!column.required && !column.primaryKey && row === 2) return left;
        return [
          [
            column.name,
            column.primaryKey
              ? String(row + 1)
              : (validValues(column)[row % validValues(column).length] ?? ''),
          ],
        ];
      });
      if (values.some(([, value]) => value === null)) continue;
      const names = values.map(([name]) => quoteIdent(name));
      const literals = values.map(([, value]) => quoteLiteral(value ?? ''));
      await world.sql(
        names.length === 0
          ? `insert into ${quotedName(table)} default values`
          : `insert into ${quotedName(table)} (${names.join(', ')}) values (${literals.join(', ')})`,
      );
    }
  }
  for (const table of tables) {
    for (const column of table.columns) {
      const target = file.tables.find((table) => table.id === column.reference?.table);
      const key = target?.columns.find((candidate) => candidate.id === column.reference?.column);
      if (!target || !key) continue;
      await world.sql(
        `update ${quotedName(table)} set ${quoteIdent(column.name)} = (select ${quoteIdent(key.name)}
          from ${quotedName(target)} limit 1)`,
      );
    }
  }
}

/** Reads all rows, keyed by table id and column id, so that they do not depend on names. */
export async function readRows(world: World, file: RandomFile): Promise<Rows> {
  const rows: Rows = {};
  for (const table of file.tables) {
    const columns = table.columns
      .map((column) => `'c${column.id}', ${quoteIdent(column.name)}::text`)
      .join(', ');
    const key = table.columns
      .filter((column) => column.primaryKey)
      .map((column) => `${quoteIdent(column.name)}::text`);
    const found = await world.sql(
      `select jsonb_build_object(${columns}) as row from ${quotedName(table)} order by ${key.join(', ')}`,
    );
    rows[`t${table.id}`] = found.map((item) => item['row'] as Record<string, unknown>);
  }
  return rows;
}

export async function catalogText(world: World): Promise<string> {
  const rows = await world.sql(`
    select md5(string_agg(line, E'\\n' order by line)) as text from (
      select attrelid::text || attname || atttypid || atttypmod || attnotnull as line from pg_attribute
        join pg_class c on c.oid = attrelid
        where relnamespace in (select oid from pg_namespace where nspname in ('public', 'crm'))
      union all select oid || conname || pg_get_constraintdef(oid) from pg_constraint
        where connamespace in (select oid from pg_namespace where nspname in ('public', 'crm'))
      union all select oid || polname || coalesce(pg_get_expr(polqual, polrelid), '')
        || coalesce(pg_get_expr(polwithcheck, polrelid), '') from pg_policy
      union all select oid || relname || relispartition || coalesce(pg_get_expr(relpartbound, oid), '')
        from pg_class where relnamespace in (select oid from pg_namespace where nspname in ('public', 'crm'))
      union all select oid || stxname || pg_get_statisticsobjdef(oid) from pg_statistic_ext
      union all select oid || pg_get_ruledef(oid) from pg_rewrite where ev_class >= 16384
      union all select aggfnoid::oid || coalesce(agginitval, '') from pg_aggregate where aggfnoid::oid >= 16384
      union all select oid || proname || coalesce(pg_get_function_sqlbody(oid), prosrc) from pg_proc
        where pronamespace in (select oid from pg_namespace where nspname in ('public', 'crm'))
      union all select identity || state || definition::text from svc_meta.object
    ) lines`);
  return JSON.stringify(rows);
}
