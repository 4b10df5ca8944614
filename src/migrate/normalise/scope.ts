// Which part of the database a plan has to look at. When the catalog is as the last verified run left it, a table
// whose declaration did not change cannot differ; only what changed, and what depends on it, is read and compared.
import { keyOf, tableKey, type SchemaModel, viewsOf } from '../schema/model.ts';
import type { RelatedDeclarations } from './related.ts';
import { listedPartitions } from '../schema/partitions.ts';
import type { Ownership } from '../schema/managed.ts';
import { HOSTS } from '../schema/rights/hosts.ts';
import { USERS } from '../schema/triggers.ts';

/** Tables and views, by `schema.name`. */
export type Scope = ReadonlySet<string>;

export function scopeOf(
  model: SchemaModel,
  changed: ReadonlySet<string>,
  owned: Ownership,
  related: RelatedDeclarations,
): Scope {
  const scope = related.of(changed);
  // They are no tables of the file, and what is on them is read every time.
  for (const key of [...HOSTS, USERS]) scope.delete(key);
  const wanted = new Set([...model.tables, ...viewsOf(model)].map(keyOf));
  for (const key of owned.views) if (!wanted.has(key)) scope.add(key);
  for (const view of viewsOf(model))
    if (view.renamedFrom !== null) scope.add(keyOf(view)).add(tableKey(view.schema, view.renamedFrom));
  for (const [key, table] of owned.tables) if (!wanted.has(key) || table.fills) scope.add(key);
  for (const table of model.tables) {
    for (const { foreignKey, renamedFrom } of table.columns) {
      // A foreign key is dropped meanwhile when the column or key it refers to changes.
      const refers = foreignKey && changed.has(tableKey(foreignKey.schema, foreignKey.table));
      if (refers || renamedFrom !== null) scope.add(keyOf(table));
    }
    for (const one of table.constraints ?? []) {
      const refers = one.kind === 'foreign_key' && changed.has(tableKey(one.target.schema, one.target.table));
      if (refers) scope.add(keyOf(table));
    }
    // What has the name of a partition may be a table by itself.
    if (changed.has(keyOf(table)))
      for (const partition of listedPartitions(table)) scope.add(tableKey(table.schema, partition.name));
    if (table.renamedFrom === null) continue;
    scope.add(keyOf(table)).add(tableKey(table.schema, table.renamedFrom));
  }
  return scope;
}
