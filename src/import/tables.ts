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
  /** Of a role that the one who asks may not act for; null where it may. */
  readonly foreignOwner: string | null;
  readonly columns: readonly Column[];
  /** Of the primary key; empty without one. */
  readonly key: readonly string[];
};

/** Schemas that belong to a product or an extension, not to the project. */
export const NOT_OF_THE_PROJECT = [
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
  'information_schema',
];

/** The project's own tables. A partitioned one stands for its partitions. */
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
      and n.nspname not like 'pg\\_%' and n.nspname not in (${join(NOT_OF_THE_PROJECT.map(literal))})
      and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid
        and d.deptype = 'e')
    order by 1, 2`);
}

export const nameOf = ({ schema, name }: Pick<Table, 'schema' | 'name'>): string => `${schema}.${name}`;

/** A table that both sides have, with what can be copied of it. */
export type Pair = {
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly string[];
  /** Empty when rows cannot be told apart. */
  readonly key: readonly string[];
  readonly rows: number;
  /** At the target. */
  readonly foreignOwner: string | null;
};

export type Pairing = {
  readonly pairs: readonly Pair[];
  /** What stays behind, and why. */
  readonly left: ReadonlyArray<{ readonly name: string; readonly why: string }>;
};

/** Finds for each table of the source the one it goes to. */
export function pairTables(source: readonly Table[], target: readonly Table[]): Pairing {
  const byName = new Map(target.map((table) => [nameOf(table), table]));
  const pairs: Pair[] = [];
  const left: Array<{ name: string; why: string }> = [];
  for (const table of source) {
    const name = nameOf(table);
    const other = byName.get(name);
    const why = obstacle(table, other);
    if (why !== undefined || other === undefined) {
      left.push({ name, why: why ?? '' });
      continue;
    }
    const theirs = new Map(table.columns.map((column) => [column.name, column]));
    const columns = other.columns
      .filter((column) => !column.generated && theirs.has(column.name))
      .map((column) => column.name);
    for (const column of table.columns) {
      if (!column.generated && !columns.includes(column.name))
        left.push({ name: `${name}.${column.name}`, why: 'the target has no such column to write to' });
    }
    const key = other.key.every((column) => columns.includes(column)) ? other.key : [];
    pairs.push({
      schema: table.schema,
      name: table.name,
      columns,
      key,
      rows: table.rows,
      foreignOwner: other.foreignOwner,
    });
  }
  return { pairs, left };
}

function obstacle(table: Table, other: Table | undefined): string | undefined {
  if (!table.readable) return 'the role of the source may not read it: grant select on it';
  if (other === undefined)
    return 'the target has no such table: declare it in svc.yaml and run svc migrate apply';
  const names = new Set(table.columns.map((column) => column.name));
  const lacking = other.columns.find(
    (column) => column.mandatory && !column.generated && !names.has(column.name),
  );
  if (lacking) return `the target's column ${lacking.name} needs a value that the source does not have`;
  return undefined;
}
