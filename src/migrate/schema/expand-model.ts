// A file without what it requires or removes: what the steps between the two halves of a deployment work on.
import { inputTypes } from '../../config/schema/overloads.ts';
import { groupBy } from '../../lib/group-by.ts';
import {
  type ColumnModel,
  type ConstraintModel,
  type FunctionModel,
  functionKey,
  type IndexModel,
  keyOf,
  type SchemaModel,
  type TableModel,
  tableKey,
} from './model.ts';

/** What `before` had and `model` has not stays; what `model` asks of rows that are there is not asked yet. */
export function expandModel(model: SchemaModel, before: SchemaModel): SchemaModel {
  const former = new Map(before.tables.map((table) => [keyOf(table), table]));
  const types = [...(model.types ?? []), ...gone(before.types ?? [], model.types ?? [])];
  return {
    ...model,
    ...(types.length === 0 ? {} : { types }),
    tables: [
      ...model.tables.map((table) => expandTable(table, formerOf(table, former))),
      ...gone(before.tables, model.tables),
    ],
    functions: [...model.functions, ...goneFunctions(before.functions, model.functions)],
  };
}

type Renamed = { readonly schema: string; readonly name: string; readonly renamedFrom?: string | null };

function gone<T extends Renamed>(before: readonly T[], now: readonly T[]): T[] {
  const names = new Set(
    now.flatMap((one) => [keyOf(one), ...(one.renamedFrom ? [tableKey(one.schema, one.renamedFrom)] : [])]),
  );
  return before.filter((one) => !names.has(keyOf(one)));
}

/** Of functions of one name, each that takes other arguments is another one. What has the key of a new one cannot stay. */
function goneFunctions(before: readonly FunctionModel[], now: readonly FunctionModel[]): FunctionModel[] {
  const withoutName = new Set(gone(before, now));
  const overloads = groupBy(before, keyOf);
  const keys = new Set(now.map(functionKey));
  const signature = (fn: FunctionModel): string => `${keyOf(fn)}(${inputTypes(fn.args).join(', ')})`;
  const signatures = new Set(now.map(signature));
  return before.filter((fn) => {
    if (keys.has(functionKey(fn))) return false;
    const isOverload = (overloads.get(keyOf(fn))?.length ?? 0) > 1 && !signatures.has(signature(fn));
    return withoutName.has(fn) || isOverload;
  });
}

function formerOf(table: TableModel, former: ReadonlyMap<string, TableModel>): TableModel | undefined {
  const { schema, renamedFrom } = table;
  return (
    former.get(keyOf(table)) ?? (renamedFrom === null ? undefined : former.get(tableKey(schema, renamedFrom)))
  );
}

function expandTable(table: TableModel, former: TableModel | undefined): TableModel {
  if (!former) return table;
  const formerColumn = ({ name, renamedFrom }: ColumnModel): ColumnModel | undefined =>
    former.columns.find((one) => one.name === name) ?? former.columns.find((one) => one.name === renamedFrom);
  const kept = new Set(table.columns.map(formerColumn));
  const hasKey = table.columns.some((column) => column.primaryKey);
  const removed = former.columns
    .filter((column) => !kept.has(column))
    // Rows of new instances do not have it.
    .map((column) =>
      column.primaryKey && !hasKey ? column : { ...column, primaryKey: false, required: false },
    );
  const { constraints = [] } = table;
  const asked = new Set((former.constraints ?? []).map(withoutPlace));
  const realtime = former.realtime?.old === 'full' ? former.realtime : (table.realtime ?? former.realtime);
  return {
    ...table,
    ...(realtime ? { realtime } : {}),
    columns: [...table.columns.map((column) => expandColumn(column, formerColumn(column))), ...removed],
    indexes: table.indexes.filter((index) => !index.unique || isAmong(index, former.indexes)),
    ...(constraints.length === 0
      ? {}
      : { constraints: constraints.filter((one) => asked.has(withoutPlace(one))) }),
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

function isAmong(index: IndexModel, others: readonly IndexModel[]): boolean {
  return others.some((other) => withoutPlace(other) === withoutPlace(index));
}

function withoutPlace(one: IndexModel | ConstraintModel): string {
  return JSON.stringify({ ...one, at: '' });
}
