// The type of every column: its own, or that of the column it refers to.
import { columnKey } from './desired.ts';
import { keyOf, tableKey, type ColumnModel, type SchemaModel } from './model.ts';

/** Types of referenced columns outside the file, by `schema.table.column`. */
export type OutsideTypes = ReadonlyMap<string, string>;

/** Referenced columns whose type only the database knows. */
export function outsideReferences(model: SchemaModel): { schema: string; table: string; column: string }[] {
  const known = new Set(model.tables.map((table) => keyOf(table)));
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

/** A column's type as sent to the server. */
export type TypeResolver = (column: ColumnModel) => string;

// Follows references column by column. A cycle without any declared type has no answer: the file check reports it, here
// it must only end.
export function typeResolver(model: SchemaModel, outside: OutsideTypes): TypeResolver {
  const tables = new Map(model.tables.map((table) => [keyOf(table), table]));
  const longest = model.tables.reduce((sum, table) => sum + table.columns.length, 0);
  const follow = (column: ColumnModel, seen: number): string => {
    if (column.type !== null) return SERIALS[column.type.trim().toLowerCase()] ?? column.type;
    const target = column.foreignKey;
    if (!target || seen > longest) return '';
    const columns = tables.get(tableKey(target.schema, target.table))?.columns;
    const next = columns?.find((one) => one.name === target.column);
    return next
      ? follow(next, seen + 1)
      : (outside.get(columnKey(target.schema, target.table, target.column)) ?? '');
  };
  return (column) => follow(column, 0);
}

export function isSerial({ type }: ColumnModel): boolean {
  return type !== null && type.trim().toLowerCase() in SERIALS;
}
