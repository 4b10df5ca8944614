// Tables and their columns, as the catalog of either side has them.
import type { Queryable } from '../postgres/owner-database.ts';
import { literal, join, sql } from '../postgres/sql.ts';

export type Column = {
  readonly name: string;
  readonly type: string;
  readonly generated: boolean;
  /** A row without a value for it is refused. */
  readonly mandatory: boolean;
};

export type Table = {
  readonly schema: string;
  readonly name: string;
  /** Estimated by the statistics; -1 before the first. */
  readonly rows: number;
  readonly readable: boolean;
  /** The table's owner, if the connected role cannot act as that role. Null otherwise. */
  readonly foreignOwner: string | null;
  readonly columns: readonly Column[];
  /** Columns of the primary key. Empty without one. */
  readonly key: readonly string[];
};

/** Schemas that belong to a product or an extension, not to the project. */
export const EXCLUDED_SCHEMAS = [
  'auth',
  'storage',
  'extensions',
  'graphql',
  'graphql_public',
  'realtime',
  '_realtime',
  '_analytics',
  'supabase_functions',
  'supabase_migrations',
  'vault',
  'pgsodium',
  'pgsodium_masks',
  'pgbouncer',
  'net',
  'cron',
  'pgtle',
  'pgmq',
  'svc_meta',
  'svc_events',
  'information_schema',
];

/** Returns the project's tables. A partitioned table represents its partitions. */
export async function readTables(db: Queryable): Promise<Table[]> {
  return await db.query<Table>(sql`
    select n.nspname as schema, c.relname as name, c.reltuples::float8 as rows,
      has_table_privilege(c.oid, 'select') and has_schema_privilege(n.oid, 'usage') as readable,
      case when not pg_has_role(c.relowner, 'usage') then c.relowner::regrole::text end as "foreignOwner",
      (select coalesce(json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
          'generated', a.attgenerated <> '',
          'mandatory', a.attnotnull and not a.atthasdef and a.attidentity = '') order by a.attnum), '[]')
        from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
      (select coalesce(json_agg(a.attname order by array_position(i.indkey::int2[], a.attnum)), '[]')
        from pg_index i join pg_attribute a on a.attrelid = c.oid and a.attnum = any (i.indkey::int2[])
        where i.indrelid = c.oid and i.indisprimary) as key
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence <> 't'
      and n.nspname not like 'pg\\_%' and n.nspname not in (${join(EXCLUDED_SCHEMAS.map(literal))})
      and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid
        and d.deptype = 'e')
    order by 1, 2`);
}

export const qualifiedName = ({ schema, name }: Pick<Table, 'schema' | 'name'>): string =>
  `${schema}.${name}`;

/** A table that both sides have, with its common columns. */
export type Pair = {
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly string[];
  /** Empty if rows have no key. */
  readonly key: readonly string[];
  readonly rows: number;
  /** Owner of the target's table that the connected role cannot act as. Null otherwise. */
  readonly foreignOwner: string | null;
};

export type TablePairs = {
  readonly pairs: readonly Pair[];
  /** Tables that are not copied. */
  readonly left: ReadonlyArray<{ readonly name: string; readonly why: string }>;
};

/** Finds the target of each source table. */
export function pairTables(source: readonly Table[], target: readonly Table[]): TablePairs {
  const byName = new Map(target.map((table) => [qualifiedName(table), table]));
  const pairs: Pair[] = [];
  const left: Array<{ name: string; why: string }> = [];
  for (const table of source) {
    const name = qualifiedName(table);
    const target = byName.get(name);
    const why = obstacle(table, target);
    if (why !== undefined || target === undefined) {
      left.push({ name, why: why ?? '' });
      continue;
    }
    const theirs = new Map(table.columns.map((column) => [column.name, column]));
    const columns = target.columns
      .filter((column) => !column.generated && theirs.has(column.name))
      .map((column) => column.name);
    for (const column of table.columns) {
      if (!column.generated && !columns.includes(column.name))
        left.push({ name: `${name}.${column.name}`, why: 'the target has no such column to write to' });
    }
    const key = target.key.every((column) => columns.includes(column)) ? target.key : [];
    pairs.push({
      schema: table.schema,
      name: table.name,
      columns,
      key,
      rows: table.rows,
      foreignOwner: target.foreignOwner,
    });
  }
  return { pairs, left };
}

function obstacle(table: Table, target: Table | undefined): string | undefined {
  if (!table.readable) return 'the role of the source may not read it: grant select on it';
  if (target === undefined)
    return 'the target has no such table: declare it in svc.yaml and run svc migrate apply';
  const names = new Set(table.columns.map((column) => column.name));
  const lacking = target.columns.find(
    (column) => column.mandatory && !column.generated && !names.has(column.name),
  );
  if (lacking) return `the target's column ${lacking.name} needs a value that the source does not have`;
  return undefined;
}
