// Finds the relationships of the exposed relations: foreign keys in both directions, pairs of them through a
// junction, and functions that take a row. Runs once per snapshot.
import { qualifiedKey, relationKey, type Catalog, type ForeignKey } from '../../catalog/catalog.ts';
import type { ExposedRelation, ExposedRoutine } from './relation.ts';
import type { ColumnPair, Relationship } from './relationship.ts';
import { shownColumns } from '../../catalog/view-keys.ts';

type Relations = ReadonlyMap<string, ExposedRelation>;

export function findRelationships(
  relations: Relations,
  routines: readonly ExposedRoutine[],
  catalog: Catalog,
): ReadonlyMap<string, readonly Relationship[]> {
  const found = new Map<string, Relationship[]>([...relations.keys()].map((key) => [key, []]));
  const add = (relationship: Relationship): void => {
    found.get(qualifiedKey(relationship.source))?.push(relationship);
  };
  const views = viewsByTable(relations, catalog);
  for (const relation of relations.values()) {
    const owned = visibleForeignKeys(relation, relations, views);
    for (const { key, target } of owned) {
      const isUnique = hasUniqueKey(relation, key.columns);
      const columns = pairs(key.columns, key.targetColumns);
      const shared = { constraint: key.constraint, junction: undefined, routine: undefined };
      add({
        ...shared,
        source: relation,
        target,
        cardinality: isUnique ? 'one-to-one' : 'many-to-one',
        isOwner: true,
        columns,
      });
      add({
        ...shared,
        source: target,
        target: relation,
        cardinality: isUnique ? 'one-to-one' : 'one-to-many',
        isOwner: false,
        columns: columns.map(([source, foreign]) => [foreign, source]),
      });
    }
    for (const junction of junctions(relation, owned)) add(junction);
  }
  for (const routine of routines) {
    const computed = computedRelationship(routine, relations);
    if (computed) add(computed);
  }
  return found;
}

type OwnedKey = { readonly key: ForeignKey; readonly target: ExposedRelation };

type ViewOfTable = { readonly view: ExposedRelation; readonly columns: ReadonlyMap<string, string> };

/** Views that show columns of a table, by the table's key. */
function viewsByTable(relations: Relations, catalog: Catalog): ReadonlyMap<string, readonly ViewOfTable[]> {
  const views = new Map<string, ViewOfTable[]>();
  for (const view of relations.values()) {
    for (const [base, columns] of shownColumns(view, catalog)) {
      const key = qualifiedKey(base);
      views.set(key, [...(views.get(key) ?? []), { view, columns }]);
    }
  }
  return views;
}

function visibleForeignKeys(
  relation: ExposedRelation,
  relations: Relations,
  views: ReadonlyMap<string, readonly ViewOfTable[]>,
): OwnedKey[] {
  return relation.foreignKeys.flatMap((key) => {
    if (!key.columns.every((column) => relation.column.has(column))) return [];
    const name = relationKey(key.targetSchema, key.targetName);
    const table = relations.get(name);
    const owned: OwnedKey[] = [];
    if (table && key.targetColumns.every((column) => table.column.has(column))) {
      owned.push({ key, target: table });
    }
    for (const { view, columns } of views.get(name) ?? []) {
      const targetColumns = key.targetColumns.flatMap((column) => columns.get(column) ?? []);
      const isWhole = targetColumns.length === key.targetColumns.length;
      if (isWhole && targetColumns.every((column) => view.column.has(column))) {
        owned.push({ key: { ...key, targetColumns }, target: view });
      }
    }
    return owned;
  });
}

/** Finds junctions: relations with two foreign keys inside their primary key, which connect the two targets. */
function* junctions(relation: ExposedRelation, owned: readonly OwnedKey[]): Generator<Relationship> {
  for (const first of owned) {
    for (const second of owned) {
      if (first.key.constraint === second.key.constraint) continue;
      if (hasUniqueKey(relation, first.key.columns) || hasUniqueKey(relation, second.key.columns)) continue;
      const columns = [...first.key.columns, ...second.key.columns];
      if (!columns.every((column) => relation.primaryKey.includes(column))) continue;
      yield {
        source: first.target,
        target: second.target,
        cardinality: 'many-to-many',
        isOwner: false,
        constraint: first.key.constraint,
        columns: [],
        routine: undefined,
        junction: {
          relation,
          sourceConstraint: first.key.constraint,
          targetConstraint: second.key.constraint,
          sourceColumns: pairs(first.key.targetColumns, first.key.columns),
          targetColumns: pairs(second.key.columns, second.key.targetColumns),
        },
      };
    }
  }
}

function computedRelationship(routine: ExposedRoutine, relations: Relations): Relationship | undefined {
  const [argument, ...more] = routine.args;
  if (!argument || more.length > 0 || routine.returns.kind !== 'composite') return undefined;
  if (argument.relation === null || routine.returns.relation === null) return undefined;
  const source = relations.get(argument.relation);
  const target = relations.get(routine.returns.relation);
  if (!source || !target) return undefined;
  return {
    source,
    target,
    cardinality: routine.isSetOf && !routine.isSingleRow ? 'one-to-many' : 'one-to-one',
    isOwner: false,
    constraint: routine.name,
    columns: [],
    junction: undefined,
    routine: { schema: routine.schema, name: routine.name, alternativeNames: routine.alternatives.routine },
  };
}

function hasUniqueKey(relation: ExposedRelation, columns: readonly string[]): boolean {
  return relation.uniqueKeys.some(
    (key) => key.length === columns.length && key.every((column) => columns.includes(column)),
  );
}

function pairs(sources: readonly string[], targets: readonly string[]): ColumnPair[] {
  return sources.map((source, index) => [source, targets[index] ?? source]);
}
