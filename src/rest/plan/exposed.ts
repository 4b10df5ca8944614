// What the data API serves: objects that are declared in the file and exist in the database. Nothing else can be
// read, embedded or appear in a suggestion.
import { keyOf, relationKey, type Catalog, type Relation, type Routine } from '../../catalog/catalog.ts';
import { withArguments } from '../../config/schema/overloads.ts';
import { groupBy } from '../../lib/group-by.ts';
import type { Snapshot } from '../../http/feature.ts';
import { relationNotFound } from '../problem.ts';
import { relationshipsOf } from './find-relationships.ts';
import {
  declaredColumns,
  NO_OTHER_NAMES,
  otherNamesOf,
  otherNamesOfRoutine,
  Renames,
} from './other-names.ts';
import type { ExposedRelation, ExposedRoutine, OtherNames } from './relation.ts';
import type { Relationship } from './relationship.ts';
import { closest } from './suggest.ts';
import { withKeys } from '../../catalog/view-keys.ts';

export type Exposed = {
  readonly schemas: readonly string[];
  readonly relations: ReadonlyMap<string, ExposedRelation>;
  /** All of one name, by `schema.name`. */
  readonly routines: ReadonlyMap<string, readonly ExposedRoutine[]>;
  /** Relations and functions by their other names during the rollout of a rename. */
  readonly other: {
    readonly relations: ReadonlyMap<string, ExposedRelation>;
    readonly routines: ReadonlyMap<string, readonly ExposedRoutine[]>;
  };
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
  const renames = new Renames(catalog);
  const relations = new Map<string, ExposedRelation>();
  for (const table of config.tables) {
    const relation = renames.find('relation', table, catalog.relations);
    if (!relation) continue;
    const { declared, other } = declaredColumns(relation, table, renames);
    relations.set(keyOf(relation), withColumns(relation, declared, other));
  }
  for (const view of config.views) {
    const relation = renames.find('relation', view, catalog.relations);
    // A view has no column that the file does not declare.
    if (relation && view.expose)
      relations.set(
        keyOf(relation),
        withColumns(withKeys(relation, catalog), new Set(relation.columns.map(({ name }) => name)), {
          ...NO_OTHER_NAMES,
          relation: otherNamesOf(view, relation.name),
        }),
      );
  }
  for (const { schema, name, columns } of config.expose.relations) {
    const relation = catalog.relations.get(relationKey(schema, name));
    if (!relation) continue;
    const shown = columns ?? relation.columns.map((column) => column.name);
    relations.set(relationKey(schema, name), withColumns(withKeys(relation, catalog), new Set(shown)));
  }
  const routines = exposeRoutines(config, catalog, renames);
  const schemas = new Set(['public']);
  for (const schema of [...relations.values(), ...[...routines.values()].flat()]
    .map((one) => one.schema)
    .sort())
    schemas.add(schema);
  return {
    schemas: [...schemas],
    relations,
    routines,
    other: {
      relations: new Map(
        [...byOtherNames(relations.values(), ({ other }) => other.relation)].map(([key, [one]]) => [
          key,
          one,
        ]),
      ),
      routines: byOtherNames([...routines.values()].flat(), ({ other }) => other.routine),
    },
    relationships: relationshipsOf(relations, routines, catalog),
    catalog,
    usesResponseSettings:
      catalog.usedSettings.has('response.headers') || catalog.usedSettings.has('response.status'),
    version,
  };
}

function exposeRoutines(
  { rpc, expose: { routines: others } }: Snapshot['config'],
  catalog: Catalog,
  renames: Renames,
): ReadonlyMap<string, readonly ExposedRoutine[]> {
  const declarations = groupBy(rpc, keyOf);
  const declared = rpc.flatMap((fn): ExposedRoutine[] => {
    const isOnly = declarations.get(keyOf(fn))?.length === 1;
    const pick = (overloads: readonly Routine[] = []): Routine | undefined =>
      isOnly && overloads.length === 1 ? overloads[0] : withArguments(overloads, fn.args);
    // Not renamed yet, where another function has the new name already.
    const former = relationKey(fn.schema, fn.renamedFrom ?? fn.name);
    const routine = pick(renames.find('routine', fn, catalog.routines)) ?? pick(catalog.routines.get(former));
    if (!routine || !fn.expose) return [];
    const { authRequired } = fn;
    return [{ ...routine, authRequired, other: otherNamesOfRoutine(routine, fn, renames) }];
  });
  const found = others.flatMap(({ schema, name, authRequired }) =>
    (catalog.routines.get(relationKey(schema, name)) ?? []).map((routine) => ({
      ...routine,
      authRequired,
      other: { routine: [], args: new Map<string, string>() },
    })),
  );
  return groupBy([...declared, ...found], keyOf);
}

function byOtherNames<T extends { readonly schema: string }>(
  all: Iterable<T>,
  namesOf: (one: T) => readonly string[],
): ReadonlyMap<string, readonly [T, ...T[]]> {
  const named = [...all].flatMap((one) =>
    namesOf(one).map((name) => ({ key: relationKey(one.schema, name), one })),
  );
  return new Map(
    [...groupBy(named, ({ key }) => key)].map(([key, [first, ...more]]) => [
      key,
      [first.one, ...more.map(({ one }) => one)],
    ]),
  );
}

function withColumns(
  relation: Relation,
  declared: ReadonlySet<string>,
  other: OtherNames = NO_OTHER_NAMES,
): ExposedRelation {
  const columns = relation.columns.filter((column) => declared.has(column.name));
  return {
    ...relation,
    columns,
    column: new Map(columns.map((column) => [column.name, column])),
    other,
    hidden: new Set(
      relation.columns.filter((column) => !declared.has(column.name)).map((column) => column.name),
    ),
  };
}

export function findRelation(exposed: Exposed, schema: string, name: string): ExposedRelation {
  const key = relationKey(schema, name);
  const relation = exposed.relations.get(key) ?? exposed.other.relations.get(key);
  if (relation) return relation;
  const names = [...exposed.relations.values()].filter((one) => one.schema === schema).map((one) => one.name);
  throw relationNotFound(schema, name, closest(name, names, 0.6));
}

/** All functions of a name. */
export function findOverloads(exposed: Exposed, schema: string, name: string): readonly ExposedRoutine[] {
  const key = relationKey(schema, name);
  return exposed.routines.get(key) ?? exposed.other.routines.get(key) ?? [];
}

/** Columns that a role may read of a relation that it may not read as a whole; none where there are no such grants. */
export function readableColumns({ relations }: Exposed, name: string, role: string): readonly string[] {
  const relation = [...relations.values()].find((one) => one.name === name);
  return (relation?.columns ?? [])
    .filter(({ readableBy }) => readableBy?.includes(role) === true)
    .map((column) => column.name);
}
