// What the data API serves: objects that are declared in the file and exist in the database. Nothing else can be
// read, embedded or appear in a suggestion.
import { keyOf, relationKey, type Catalog, type Relation } from '../../catalog/catalog.ts';
import type { Snapshot } from '../../http/feature.ts';
import { relationNotFound } from '../problem.ts';
import { relationshipsOf } from './find-relationships.ts';
import type { ExposedRelation, ExposedRoutine } from './relation.ts';
import type { Relationship } from './relationship.ts';
import { closest } from './suggest.ts';
import { withKeys } from '../../catalog/view-keys.ts';

export type Exposed = {
  readonly schemas: readonly string[];
  readonly relations: ReadonlyMap<string, ExposedRelation>;
  readonly routines: ReadonlyMap<string, ExposedRoutine>;
  readonly relationships: ReadonlyMap<string, readonly Relationship[]>;
  readonly catalog: Catalog;
  /** Some SQL in the database sets headers or the status of the answer. */
  readonly usesResponseSettings: boolean;
  readonly version: number;
};

const MADE = new WeakMap<Snapshot, Exposed>();

export function exposed(snapshot: Snapshot): Exposed {
  const known = MADE.get(snapshot);
  if (known) return known;
  const made = expose(snapshot);
  MADE.set(snapshot, made);
  return made;
}

function expose({ config, catalog, version }: Snapshot): Exposed {
  const relations = new Map<string, ExposedRelation>();
  for (const table of config.tables) {
    const relation = catalog.relations.get(keyOf(table));
    if (!relation) continue;
    const declared = new Set(table.fields.map((field) => field.name));
    relations.set(keyOf(table), withColumns(relation, declared));
  }
  for (const view of config.views) {
    const relation = catalog.relations.get(keyOf(view));
    // A view has no column that the file does not declare.
    if (relation && view.expose)
      relations.set(
        keyOf(view),
        withColumns(withKeys(relation, catalog), new Set(relation.columns.map(({ name }) => name))),
      );
  }
  for (const { schema, name, columns } of config.expose.relations) {
    const relation = catalog.relations.get(relationKey(schema, name));
    if (!relation) continue;
    const shown = columns ?? relation.columns.map((column) => column.name);
    relations.set(relationKey(schema, name), withColumns(withKeys(relation, catalog), new Set(shown)));
  }
  const routines = new Map<string, ExposedRoutine>();
  for (const declared of config.rpc) {
    const key = relationKey(declared.schema, declared.name);
    const routine = catalog.routines.get(key);
    if (!routine || !declared.expose) continue;
    routines.set(key, { ...routine, authRequired: declared.authRequired });
  }
  for (const { schema, name, authRequired } of config.expose.routines) {
    const routine = catalog.routines.get(relationKey(schema, name));
    if (routine) routines.set(relationKey(schema, name), { ...routine, authRequired });
  }
  const schemas = new Set(['public']);
  for (const schema of [...relations.values(), ...routines.values()].map((one) => one.schema).sort())
    schemas.add(schema);
  return {
    schemas: [...schemas],
    relations,
    routines,
    relationships: relationshipsOf(relations, routines, catalog),
    catalog,
    usesResponseSettings:
      catalog.usedSettings.has('response.headers') || catalog.usedSettings.has('response.status'),
    version,
  };
}

function withColumns(relation: Relation, declared: ReadonlySet<string>): ExposedRelation {
  const columns = relation.columns.filter((column) => declared.has(column.name));
  return {
    ...relation,
    columns,
    column: new Map(columns.map((column) => [column.name, column])),
    hidden: new Set(
      relation.columns.filter((column) => !declared.has(column.name)).map((column) => column.name),
    ),
  };
}

export function findRelation(exposed: Exposed, schema: string, name: string): ExposedRelation {
  const relation = exposed.relations.get(relationKey(schema, name));
  if (relation) return relation;
  const names = [...exposed.relations.values()].filter((one) => one.schema === schema).map((one) => one.name);
  throw relationNotFound(schema, name, closest(name, names, 0.6));
}

export function findRoutine(exposed: Exposed, schema: string, name: string): ExposedRoutine | undefined {
  return exposed.routines.get(relationKey(schema, name));
}

/** Columns that a role may read of a relation that it may not read as a whole; none where there are no such grants. */
export function readableColumns({ relations }: Exposed, name: string, role: string): readonly string[] {
  const relation = [...relations.values()].find((one) => one.name === name);
  return (relation?.columns ?? [])
    .filter(({ readableBy }) => readableBy?.includes(role) === true)
    .map((column) => column.name);
}
