// Computes the model between the two halves of a deployment: additions are applied, removals and new requirements are
// not.
import { inputTypes } from '../../config/schema/overloads.ts';
import { groupBy } from '../../lib/group-by.ts';
import {
  type ColumnModel,
  type ConstraintModel,
  type FunctionModel,
  functionKey,
  type IndexModel,
  objectKey,
  type SchemaModel,
  type TableModel,
  tableKey,
} from './model.ts';

/** Returns `model` with the objects that it removes from `before`, and without new constraints on existing rows. */
export function expandModel(model: SchemaModel, before: SchemaModel): SchemaModel {
  const former = new Map(before.tables.map((table) => [objectKey(table), table]));
  const types = [...(model.types ?? []), ...withoutDeclared(before.types ?? [], model.types ?? [])];
  return {
    ...model,
    ...(types.length === 0 ? {} : { types }),
    tables: [
      ...model.tables.map((table) => expandTable(table, findFormer(table, former))),
      ...withoutDeclared(before.tables, model.tables),
    ],
    functions: [...model.functions, ...removedFunctions(before.functions, model.functions)],
  };
}

type Renamed = { readonly schema: string; readonly name: string; readonly renamedFrom?: string | null };

function withoutDeclared<T extends Renamed>(before: readonly T[], now: readonly T[]): T[] {
  const names = new Set(
    now.flatMap((object) => [
      objectKey(object),
      ...(object.renamedFrom ? [tableKey(object.schema, object.renamedFrom)] : []),
    ]),
  );
  return before.filter((object) => !names.has(objectKey(object)));
}

/**
 * Returns the functions that left the file. Overloads are compared by their signatures. A function whose key was taken
 * by a new function cannot be kept.
 */
function removedFunctions(before: readonly FunctionModel[], now: readonly FunctionModel[]): FunctionModel[] {
  const withoutName = new Set(withoutDeclared(before, now));
  const overloads = groupBy(before, objectKey);
  const keys = new Set(now.map(functionKey));
  const signature = (fn: FunctionModel): string => `${objectKey(fn)}(${inputTypes(fn.args).join(', ')})`;
  const signatures = new Set(now.map(signature));
  return before.filter((fn) => {
    if (keys.has(functionKey(fn))) return false;
    const isOverload = (overloads.get(objectKey(fn))?.length ?? 0) > 1 && !signatures.has(signature(fn));
    return withoutName.has(fn) || isOverload;
  });
}

function findFormer(table: TableModel, former: ReadonlyMap<string, TableModel>): TableModel | undefined {
  const { schema, renamedFrom } = table;
  return (
    former.get(objectKey(table)) ??
    (renamedFrom === null ? undefined : former.get(tableKey(schema, renamedFrom)))
  );
}

function expandTable(table: TableModel, former: TableModel | undefined): TableModel {
  if (!former) return table;
  const formerColumn = ({ name, renamedFrom }: ColumnModel): ColumnModel | undefined =>
    former.columns.find((column) => column.name === name) ??
    former.columns.find((column) => column.name === renamedFrom);
  const kept = new Set(table.columns.map(formerColumn));
  const hasKey = table.columns.some((column) => column.primaryKey);
  const removed = former.columns
    .filter((column) => !kept.has(column))
    // Instances that run the new file insert rows without this column.
    .map((column) =>
      column.primaryKey && !hasKey ? column : { ...column, primaryKey: false, required: false },
    );
  const { constraints = [] } = table;
  const formerConstraints = new Set((former.constraints ?? []).map(comparableText));
  const realtime = former.realtime?.old === 'full' ? former.realtime : (table.realtime ?? former.realtime);
  return {
    ...table,
    ...(realtime ? { realtime } : {}),
    columns: [...table.columns.map((column) => expandColumn(column, formerColumn(column))), ...removed],
    indexes: table.indexes.filter((index) => !index.unique || isAmong(index, former.indexes)),
    ...(constraints.length === 0
      ? {}
      : {
          constraints: constraints.filter((constraint) => formerConstraints.has(comparableText(constraint))),
        }),
  };
}

function expandColumn(column: ColumnModel, former: ColumnModel | undefined): ColumnModel {
  if (former)
    return {
      ...column,
      required: column.required && (former.required || former.primaryKey || column.backfill !== null),
      unique: column.unique && former.unique,
    };
  const fills = column.default ?? column.backfill ?? column.identity ?? column.generated ?? null;
  return { ...column, required: column.required && fills !== null, unique: false };
}

function isAmong(index: IndexModel, candidates: readonly IndexModel[]): boolean {
  return candidates.some((candidate) => comparableText(candidate) === comparableText(index));
}

function comparableText(declaration: IndexModel | ConstraintModel): string {
  return JSON.stringify({ ...declaration, at: '' });
}
