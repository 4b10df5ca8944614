// Resolves the type of each column: the declared type, or the type of the referenced column.
import { columnKey } from './desired.ts';
import { objectKey, tableKey, type ColumnModel, type SchemaModel } from './model.ts';

/** Types of referenced columns that the file does not declare, keyed by `schema.table.column`. */
export type OutsideTypes = ReadonlyMap<string, string>;

/** Returns the referenced columns that the file does not declare. Their types are read from the database. */
export function outsideReferences(model: SchemaModel): { schema: string; table: string; column: string }[] {
  const known = new Set(model.tables.map((table) => objectKey(table)));
  return model.tables.flatMap((table) =>
    table.columns.flatMap((column) => {
      const target = column.foreignKey;
      return target && !known.has(tableKey(target.schema, target.table)) ? [target] : [];
    }),
  );
}

const SERIALS: Record<string, string> = {
  bigserial: 'bigint',
  serial8: 'bigint',
  serial: 'integer',
  serial4: 'integer',
  smallserial: 'smallint',
  serial2: 'smallint',
};

/** Returns the type of a column as sent to the server, or an empty string if it cannot be resolved. */
export type TypeResolver = (column: ColumnModel) => string;

// Follows references from column to column. A cycle without a declared type has no result. The check of the file
// reports it, so this function only has to terminate.
export function typeResolver(model: SchemaModel, outside: OutsideTypes): TypeResolver {
  const tables = new Map(model.tables.map((table) => [objectKey(table), table]));
  const longest = model.tables.reduce((sum, table) => sum + table.columns.length, 0);
  const follow = (column: ColumnModel, seen: number): string => {
    if (column.type !== null) return SERIALS[column.type.trim().toLowerCase()] ?? column.type;
    const target = column.foreignKey;
    if (!target || seen > longest) return '';
    const columns = tables.get(tableKey(target.schema, target.table))?.columns;
    const next = columns?.find((candidate) => candidate.name === target.column);
    return next
      ? follow(next, seen + 1)
      : (outside.get(columnKey(target.schema, target.table, target.column)) ?? '');
  };
  return (column) => follow(column, 0);
}

export function isSerial({ type }: ColumnModel): boolean {
  return type !== null && type.trim().toLowerCase() in SERIALS;
}
