// GET /tables: the relations of the data API with their policies, indexes and sizes.
import type { OwnerDatabase, Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { ident, join, raw, sql } from '../../postgres/sql.ts';
import { relationKey, type Column } from '../../catalog/catalog.ts';
import type { Table } from '../../config/config.ts';
import type { ExposedRelation } from '../../rest/plan/relation.ts';
import type { TableInfo, TableList } from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { visibleRelations } from '../visible-relations.ts';
import { policyText } from '../policy-text.ts';
import type { DashboardRoutes } from './route.ts';

const MAX_COUNTED_BYTES = 1024 * 1024;
const MAX_COUNTED_TABLES = 200;
const COUNT_LOCK_TIMEOUT_MS = 200;

export const tablesRoutes: DashboardRoutes = (context) => [
  ['GET', '/tables', 'read', () => listTables(context)],
];

async function listTables({ snapshot, owner }: DashboardContext): Promise<TableList> {
  const current = snapshot();
  const relations = visibleRelations(current);
  const details = await readDetails(owner, relations);
  const counted = await countSmall(owner, details);
  const declared = new Map(
    current.config.tables.map((table) => [relationKey(table.schema, table.name), table]),
  );
  return {
    tables: relations.map((relation) => {
      const key = relationKey(relation.schema, relation.name);
      const found = details.get(key) ?? UNKNOWN;
      return toTable(relation, declared.get(key), { ...found, countedRows: counted.get(key) ?? null });
    }),
  };
}

/** Details that the catalog snapshot does not contain. */
type CatalogDetails = Pick<
  TableInfo,
  'schema' | 'name' | 'rowSecurity' | 'policies' | 'indexes' | 'estimatedRows' | 'totalBytes'
> & {
  /** True if rows can be counted. */
  readonly isTable: boolean;
};

/** Details of a relation that was dropped after the catalog was read. */
const UNKNOWN: Omit<CatalogDetails, 'schema' | 'name'> = {
  isTable: false,
  rowSecurity: false,
  policies: [],
  indexes: [],
  estimatedRows: -1,
  totalBytes: 0,
};

async function readDetails(
  owner: Queryable,
  relations: readonly ExposedRelation[],
): Promise<Map<string, CatalogDetails>> {
  const rows = await owner.query<CatalogDetails>(sql`
    select n.nspname as schema, c.relname as name, c.relrowsecurity as "rowSecurity",
      c.reltuples::float8 as "estimatedRows",
      c.relkind in ('r', 'p') and has_table_privilege(c.oid, 'select') as "isTable",
      case c.relkind
        -- The parent of a partitioned table has no storage.
        when 'p' then (select coalesce(sum(pg_total_relation_size(relid)), 0) from pg_partition_tree(c.oid))
        when 'v' then 0
        else coalesce(pg_total_relation_size(c.oid), 0)
      end::float8 as "totalBytes",
      coalesce((
        select json_agg(json_build_object(
          'name', i.relname, 'definition', pg_get_indexdef(x.indexrelid), 'unique', x.indisunique) order by i.relname)
        from pg_index x join pg_class i on i.oid = x.indexrelid where x.indrelid = c.oid), '[]') as indexes,
      coalesce((
        select json_agg(json_build_object(
          'name', p.polname,
          'operation', case p.polcmd
            when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end,
          'permissive', p.polpermissive,
          'roles', (
            select json_agg(case role when 0 then 'public' else pg_get_userbyid(role) end order by place)
            from unnest(p.polroles) with ordinality as r (role, place)),
          'using', pg_get_expr(p.polqual, p.polrelid),
          'withCheck', pg_get_expr(p.polwithcheck, p.polrelid)) order by p.polname)
        from pg_policy p where p.polrelid = c.oid), '[]') as policies
    from unnest(${relations.map(({ schema }) => schema)}::text[], ${relations.map(({ name }) => name)}::text[])
      as wanted (schema, name)
    join pg_namespace n on n.nspname = wanted.schema
    join pg_class c on c.relnamespace = n.oid and c.relname = wanted.name`);
  return new Map(rows.map((row) => [relationKey(row.schema, row.name), row]));
}

/** Counts the rows of small tables. If one of them is locked, returns no counts at all. */
async function countSmall(
  owner: OwnerDatabase,
  details: ReadonlyMap<string, CatalogDetails>,
): Promise<ReadonlyMap<string, number>> {
  const small = [...details.values()]
    .filter(({ isTable, totalBytes }) => isTable && totalBytes <= MAX_COUNTED_BYTES)
    .slice(0, MAX_COUNTED_TABLES);
  if (small.length === 0) return new Map();
  const counts = small.map(
    ({ schema, name }) =>
      sql`select ${relationKey(schema, name)} as key, count(*)::int as rows from ${ident(schema, name)}`,
  );
  try {
    return await owner.transaction(async (transaction) => {
      await transaction.query(sql`set local lock_timeout = ${raw(String(COUNT_LOCK_TIMEOUT_MS))}`);
      const rows = await transaction.query<{ key: string; rows: number }>(join(counts, ' union all '));
      return new Map(rows.map(({ key, rows: count }) => [key, count]));
    });
  } catch (error) {
    // A table was dropped, is locked, or does not belong to the owner.
    if (!isDatabaseError(error)) throw error;
    return new Map();
  }
}

function toTable(
  relation: ExposedRelation,
  declared: Table | undefined,
  { isTable: _isTable, ...details }: Omit<CatalogDetails, 'schema' | 'name'> & Pick<TableInfo, 'countedRows'>,
): TableInfo {
  const { schema, name, kind, comment, primaryKey, uniqueKeys } = relation;
  const written = declared !== undefined && typeof declared.rls !== 'string' ? declared.rls : [];
  return {
    ...details,
    policies: details.policies.map((policy) => ({
      ...policy,
      using: policy.using && policyText(policy.using, written),
      withCheck: policy.withCheck && policyText(policy.withCheck, written),
    })),
    schema,
    name,
    kind,
    managed: declared !== undefined,
    comment,
    columns: relation.columns.map((column) => ({
      name: column.name,
      type: column.type,
      category: column.category,
      notNull: column.notNull,
      default: column.default,
      generated: column.generated,
      enumLabels: enumLabels(column, declared),
      comment: column.comment,
    })),
    primaryKey: [...primaryKey],
    uniqueKeys: uniqueKeys.map((key) => [...key]),
    foreignKeys: relation.foreignKeys.map((key) => ({
      name: key.constraint,
      columns: [...key.columns],
      target: { schema: key.targetSchema, table: key.targetName, columns: [...key.targetColumns] },
    })),
    insertable: relation.insertable,
    updatable: relation.updatable,
    deletable: relation.deletable,
  };
}

/** Returns the labels of an enum type, or of `enum:` in the file, which is a check constraint in the database. */
function enumLabels(column: Column, declared: Table | undefined): string[] | null {
  const labels = column.enumLabels ?? declared?.fields.find(({ name }) => name === column.name)?.enum;
  return labels ? [...labels] : null;
}
