// Determines which part of the database a plan reads. If the catalog has not changed since the last verified run, a
// table with an unchanged declaration cannot differ. Only changed declarations and those that depend on them are
// compared.
import { objectKey, tableKey, type SchemaModel, declaredViews } from '../schema/model.ts';
import type { RelatedDeclarations } from './related.ts';
import { listedPartitions } from '../schema/partitions.ts';
import type { Ownership } from '../schema/managed.ts';
import { HOSTS } from '../schema/rights/hosts.ts';
import { USERS } from '../schema/triggers.ts';

/** Tables and views as `schema.name`. */
export type Scope = ReadonlySet<string>;

export function determineScope(
  model: SchemaModel,
  changed: ReadonlySet<string>,
  owned: Ownership,
  related: RelatedDeclarations,
): Scope {
  const scope = related.expand(changed);
  // These tables are not declared in the file, and their policies and triggers are always read.
  for (const key of [...HOSTS, USERS]) scope.delete(key);
  const declared = new Set([...model.tables, ...declaredViews(model)].map(objectKey));
  for (const key of owned.views) if (!declared.has(key)) scope.add(key);
  for (const view of declaredViews(model))
    if (view.renamedFrom !== null) scope.add(objectKey(view)).add(tableKey(view.schema, view.renamedFrom));
  for (const [key, table] of owned.tables) if (!declared.has(key) || table.fills) scope.add(key);
  for (const table of model.tables) {
    for (const { foreignKey, renamedFrom } of table.columns) {
      // A foreign key is dropped and added again when the column or key that it refers to changes.
      const refers = foreignKey && changed.has(tableKey(foreignKey.schema, foreignKey.table));
      if (refers || renamedFrom !== null) scope.add(objectKey(table));
    }
    for (const constraint of table.constraints ?? []) {
      const refers =
        constraint.kind === 'foreign_key' &&
        changed.has(tableKey(constraint.target.schema, constraint.target.table));
      if (refers) scope.add(objectKey(table));
    }
    // A table with the name of a new partition may exist.
    if (changed.has(objectKey(table)))
      for (const partition of listedPartitions(table)) scope.add(tableKey(table.schema, partition.name));
    if (table.renamedFrom === null) continue;
    scope.add(objectKey(table)).add(tableKey(table.schema, table.renamedFrom));
  }
  return scope;
}
