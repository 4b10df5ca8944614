// Which part of the database a plan has to look at. When the catalog is as the last verified run left it, a table
// whose declaration did not change cannot differ; only what changed, and what stands on it, is read and compared.
import { keyOf } from './canonical.ts';
import type { Desired } from './desired.ts';
import type { SchemaModel } from './model.ts';
import type { Neighbourhood } from './neighbourhood.ts';
import type { Ownership } from './ownership.ts';

/** Tables by `schema.table`. */
export type Scope = ReadonlySet<string>;

export function scopeOf(
  model: SchemaModel,
  declared: Desired,
  changed: ReadonlySet<string>,
  owned: Ownership,
  neighbourhood: Neighbourhood,
): Scope {
  const scope = neighbourhood.of(changed);
  const wanted = new Set(declared.tables.map(keyOf));
  for (const [key, table] of owned.tables) if (!wanted.has(key) || table.fills) scope.add(key);
  for (const table of declared.tables) {
    // A foreign key steps aside when the column or the key it points at changes.
    const refers = table.foreignKeys.some((one) =>
      changed.has(keyOf({ schema: one.targetSchema, name: one.targetTable })),
    );
    if (refers) scope.add(keyOf(table));
  }
  for (const table of model.tables) {
    if (table.renamedFrom === null && table.columns.every((column) => column.renamedFrom === null)) continue;
    scope.add(keyOf(table));
    if (table.renamedFrom !== null) scope.add(keyOf({ schema: table.schema, name: table.renamedFrom }));
  }
  return scope;
}

/** Functions and storage policies are few and stay whole. */
export function within(declared: Desired, scope: Scope): Desired {
  return { ...declared, tables: declared.tables.filter((table) => scope.has(keyOf(table))) };
}
