// GET /tables: the relations of the data API with their policies, indexes and sizes.
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import { relationKey, type Column } from '../../catalog/catalog.ts';
import type { Table } from '../../config/config.ts';
import type { ExposedRelation } from '../../rest/plan/relation.ts';
import type { TableInfo, TableList } from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { shownRelations } from '../shown-relations.ts';
import type { DashboardRoutes } from './route.ts';

export const tablesRoutes: DashboardRoutes = (context) => [
  ['GET', '/tables', 'read', () => listTables(context)],
];

async function listTables({ snapshot, owner }: DashboardContext): Promise<TableList> {
  const current = snapshot();
  const relations = shownRelations(current);
  const details = await readDetails(owner, relations);
  const declared = new Map(
    current.config.tables.map((table) => [relationKey(table.schema, table.name), table]),
  );
  return {
    tables: relations.map((relation) => {
      const key = relationKey(relation.schema, relation.name);
      return toTable(relation, declared.get(key), details.get(key) ?? UNKNOWN);
    }),
  };
}

/** What is not in the catalog snapshot. */
type CatalogDetails = Pick<
  TableInfo,
  'rowSecurity' | 'policies' | 'indexes' | 'estimatedRows' | 'totalBytes'
>;

/** A relation dropped since the catalog was read. */
const UNKNOWN: CatalogDetails = {
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
  const rows = await owner.query<CatalogDetails & { schema: string; name: string }>(sql`
    select n.nspname as schema, c.relname as name, c.relrowsecurity as "rowSecurity",
      c.reltuples::float8 as "estimatedRows",
      case c.relkind
        -- A partitioned table has no file of its own.
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

function toTable(relation: ExposedRelation, declared: Table | undefined, details: CatalogDetails): TableInfo {
  const { schema, name, kind, comment, primaryKey, uniqueKeys } = relation;
  return {
    ...details,
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
      enumLabels: labelsOf(column, declared),
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

/** Of an enum type, or of `enum:` in the file, which is a check constraint in the database. */
function labelsOf(column: Column, declared: Table | undefined): string[] | null {
  const labels = column.enumLabels ?? declared?.fields.find(({ name }) => name === column.name)?.enum;
  return labels ? [...labels] : null;
}
