// The objects that the data API serves: declared in the file and present in the database. Other objects cannot be
// read or embedded, and never appear in a suggestion.
import {
  qualifiedKey,
  relationKey,
  type Catalog,
  type Relation,
  type Routine,
} from '../../catalog/catalog.ts';
import { withArguments } from '../../config/schema/overloads.ts';
import { groupBy } from '../../lib/group-by.ts';
import type { Snapshot } from '../../http/feature.ts';
import { relationNotFound } from '../problem.ts';
import { findRelationships } from './find-relationships.ts';
import {
  declaredColumns,
  NO_ALTERNATIVE_NAMES,
  namesOutsideDatabase,
  routineAlternatives,
  Renames,
} from './alternative-names.ts';
import type { ExposedRelation, ExposedRoutine, AlternativeNames } from './relation.ts';
import type { Relationship } from './relationship.ts';
import { closest } from './suggest.ts';
import { withKeys } from '../../catalog/view-keys.ts';

export type Exposed = {
  readonly schemas: readonly string[];
  readonly relations: ReadonlyMap<string, ExposedRelation>;
  /** Functions of the same name, keyed by `schema.name`. */
  readonly routines: ReadonlyMap<string, readonly ExposedRoutine[]>;
  /** Relations and functions keyed by their other names during the rollout of a rename. */
  readonly alternatives: {
    readonly relations: ReadonlyMap<string, ExposedRelation>;
    readonly routines: ReadonlyMap<string, readonly ExposedRoutine[]>;
  };
  readonly relationships: ReadonlyMap<string, readonly Relationship[]>;
  readonly catalog: Catalog;
  /** Whether SQL in the database sets headers or the status of the response. */
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
    const { declared, alternatives } = declaredColumns(relation, table, renames);
    relations.set(qualifiedKey(relation), withColumns(relation, declared, alternatives));
  }
  for (const view of config.views) {
    const relation = renames.find('relation', view, catalog.relations);
    // A view has no column that the file does not declare.
    if (relation && view.expose)
      relations.set(
        qualifiedKey(relation),
        withColumns(withKeys(relation, catalog), new Set(relation.columns.map(({ name }) => name)), {
          ...NO_ALTERNATIVE_NAMES,
          relation: namesOutsideDatabase(view, relation.name),
        }),
      );
  }
  for (const { schema, name, columns } of config.expose.relations) {
    const relation = catalog.relations.get(relationKey(schema, name));
    if (!relation) continue;
    const shown = columns ?? relation.columns.map((column) => column.name);
    relations.set(relationKey(schema, name), withColumns(withKeys(relation, catalog), new Set(shown)));
  }
  const known = exposeRoutines(config, catalog, renames);
  const routines = groupBy(
    known.filter(({ isCallable }) => isCallable).map(({ routine }) => routine),
    qualifiedKey,
  );
  const schemas = new Set(['public']);
  for (const schema of [...relations.values(), ...[...routines.values()].flat()]
    .map((rename) => rename.schema)
    .sort())
    schemas.add(schema);
  return {
    schemas: [...schemas],
    relations,
    routines,
    alternatives: {
      relations: new Map(
        [...byAlternativeNames(relations.values(), ({ alternatives }) => alternatives.relation)].map(
          ([key, [one]]) => [key, one],
        ),
      ),
      routines: byAlternativeNames([...routines.values()].flat(), ({ alternatives }) => alternatives.routine),
    },
    relationships: findRelationships(
      relations,
      known.map(({ routine }) => routine),
      catalog,
    ),
    catalog,
    usesResponseSettings:
      catalog.usedSettings.has('response.headers') || catalog.usedSettings.has('response.status'),
    version,
  };
}

type KnownRoutine = {
  readonly routine: ExposedRoutine;
  /** Whether the function is served under `/rpc`. Computed relationships need only the EXECUTE privilege. */
  readonly isCallable: boolean;
};

function exposeRoutines(
  { rpc, expose: { routines: others } }: Snapshot['config'],
  catalog: Catalog,
  renames: Renames,
): KnownRoutine[] {
  const declarations = groupBy(rpc, qualifiedKey);
  const declared = rpc.flatMap((fn): KnownRoutine[] => {
    const isOnly = declarations.get(qualifiedKey(fn))?.length === 1;
    const pick = (overloads: readonly Routine[] = []): Routine | undefined =>
      isOnly && overloads.length === 1 ? overloads[0] : withArguments(overloads, fn.args);
    // Not renamed yet, where another function has the new name already.
    const former = relationKey(fn.schema, fn.renamedFrom ?? fn.name);
    const routine = pick(renames.find('routine', fn, catalog.routines)) ?? pick(catalog.routines.get(former));
    if (!routine) return [];
    const { authRequired, expose: isCallable } = fn;
    const alternatives = routineAlternatives(routine, fn, renames);
    return [{ routine: { ...routine, authRequired, alternatives }, isCallable }];
  });
  const found = others.flatMap(({ schema, name, authRequired }) =>
    (catalog.routines.get(relationKey(schema, name)) ?? []).map((routine) => ({
      routine: { ...routine, authRequired, alternatives: { routine: [], args: new Map<string, string>() } },
      isCallable: true,
    })),
  );
  return [...declared, ...found];
}

function byAlternativeNames<T extends { readonly schema: string }>(
  all: Iterable<T>,
  alternativeNames: (item: T) => readonly string[],
): ReadonlyMap<string, readonly [T, ...T[]]> {
  const named = [...all].flatMap((item) =>
    alternativeNames(item).map((name) => ({ key: relationKey(item.schema, name), item })),
  );
  return new Map(
    [...groupBy(named, ({ key }) => key)].map(([key, [first, ...more]]) => [
      key,
      [first.item, ...more.map(({ item }) => item)],
    ]),
  );
}

function withColumns(
  relation: Relation,
  declared: ReadonlySet<string>,
  alternatives: AlternativeNames = NO_ALTERNATIVE_NAMES,
): ExposedRelation {
  const columns = relation.columns.filter((column) => declared.has(column.name));
  return {
    ...relation,
    columns,
    column: new Map(columns.map((column) => [column.name, column])),
    alternatives,
    hidden: new Set(
      relation.columns.filter((column) => !declared.has(column.name)).map((column) => column.name),
    ),
  };
}

export function findRelation(exposed: Exposed, schema: string, name: string): ExposedRelation {
  const key = relationKey(schema, name);
  const relation = exposed.relations.get(key) ?? exposed.alternatives.relations.get(key);
  if (relation) return relation;
  const names = [...exposed.relations.values()]
    .filter((candidate) => candidate.schema === schema)
    .map((candidate) => candidate.name);
  throw relationNotFound(schema, name, closest(name, names, 0.6));
}

/** All functions of a name. */
export function findOverloads(exposed: Exposed, schema: string, name: string): readonly ExposedRoutine[] {
  const key = relationKey(schema, name);
  return exposed.routines.get(key) ?? exposed.alternatives.routines.get(key) ?? [];
}

/**
 * Returns the columns of a relation on which a role has grants without a grant on the relation; empty without such
 * grants.
 */
export function readableColumns({ relations }: Exposed, name: string, role: string): readonly string[] {
  const relation = [...relations.values()].find((candidate) => candidate.name === name);
  return (relation?.columns ?? [])
    .filter(({ readableBy }) => readableBy?.includes(role) === true)
    .map((column) => column.name);
}
