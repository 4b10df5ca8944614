// How exposed relations hang together: foreign keys seen from both sides, pairs of them through a junction,
// and functions that take a row. Found once per snapshot; choosing among them for one embed is here too.
import { relationKey, type Catalog, type ForeignKey } from '../../catalog/catalog.ts';
import { AmbiguousEmbed, noRelationship, type Alternative } from '../problem.ts';
import type { ExposedRelation, ExposedRoutine } from './exposed.ts';
import { closest } from './suggest.ts';
import { shownColumns } from './view-keys.ts';

export type Cardinality = 'many-to-one' | 'one-to-many' | 'one-to-one' | 'many-to-many';

export type ColumnPair = readonly [source: string, target: string];

export type Junction = {
  readonly relation: ExposedRelation;
  readonly sourceConstraint: string;
  readonly targetConstraint: string;
  /** Columns of the source and of the junction. */
  readonly sourceColumns: readonly ColumnPair[];
  /** Columns of the junction and of the target. */
  readonly targetColumns: readonly ColumnPair[];
};

export type Relationship = {
  readonly source: ExposedRelation;
  readonly target: ExposedRelation;
  readonly cardinality: Cardinality;
  /** True when the key is in the source. */
  readonly isOwner: boolean;
  readonly constraint: string;
  readonly columns: readonly ColumnPair[];
  readonly junction: Junction | undefined;
  /** A function from a row of the source to rows of the target. */
  readonly routine: { readonly schema: string; readonly name: string } | undefined;
};

export function isToOne({ cardinality }: Relationship): boolean {
  return cardinality === 'many-to-one' || cardinality === 'one-to-one';
}

type Relations = ReadonlyMap<string, ExposedRelation>;

export function relationshipsOf(
  relations: Relations,
  routines: ReadonlyMap<string, ExposedRoutine>,
  catalog: Catalog,
): ReadonlyMap<string, readonly Relationship[]> {
  const found = new Map<string, Relationship[]>([...relations.keys()].map((key) => [key, []]));
  const add = (relationship: Relationship): void => {
    found.get(keyOf(relationship.source))?.push(relationship);
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
  for (const routine of routines.values()) {
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
      const key = relationKey(base.schema, base.name);
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

/** Two keys that both lie in the primary key make a relation a junction of the two it points to. */
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
    routine: { schema: routine.schema, name: routine.name },
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

function keyOf(relation: ExposedRelation): string {
  return relationKey(relation.schema, relation.name);
}

export type Wanted = { readonly target: string; readonly hint: string | undefined };

/** The one relationship an embed means; none or several are problems that say what to write instead. */
export function chooseRelationship(
  origin: { readonly schema: string; readonly name: string },
  relationships: readonly Relationship[],
  { target, hint }: Wanted,
): Relationship {
  const computed = relationships.filter((one) => one.routine?.name === target);
  const inSchema = relationships.filter((one) => one.target.schema === origin.schema && !one.routine);
  const candidates =
    computed.length > 0 && hint === undefined
      ? computed
      : inSchema.filter((one) => (hint === undefined ? isNamed(one, target) : isHinted(one, target, hint)));
  const [only, ...others] = candidates;
  if (!only) {
    const names = inSchema.map((one) => one.target.name);
    throw noRelationship(origin.name, target, hint, origin.schema, closest(target, names, 0.33));
  }
  if (others.length > 0) throw ambiguous(origin.name, target, candidates);
  return only;
}

function isNamed(one: Relationship, target: string): boolean {
  const isSelf = one.source === one.target;
  const [column] = one.columns;
  // The names of columns and constraints mean tables; a view goes by its own name.
  const isTable = one.target.kind !== 'view' && one.target.kind !== 'materialized-view';
  const isOwnColumn = isTable && one.isOwner && one.columns.length === 1 && column?.[0] === target;
  // Seen from a table that points to itself, its name means the children; the parent goes by the column.
  if (isSelf && one.junction === undefined) {
    return isOwnColumn || (!one.isOwner && one.target.name === target);
  }
  if (one.target.name === target) return true;
  if (one.junction) return false;
  return isOwnColumn || (isTable && one.constraint === target);
}

function isHinted(one: Relationship, target: string, hint: string): boolean {
  if (one.target.name !== target) return false;
  if (one.junction) {
    const { relation, sourceConstraint, targetConstraint } = one.junction;
    return relation.name === hint || sourceConstraint === hint || targetConstraint === hint;
  }
  if (one.source === one.target && one.isOwner) return false;
  const [column] = one.columns;
  const isColumn = one.columns.length === 1 && (column?.[0] === hint || column?.[1] === hint);
  return isColumn || one.constraint === hint;
}

function ambiguous(origin: string, target: string, candidates: readonly Relationship[]): AmbiguousEmbed {
  const alternatives = candidates.map((one) => describe(origin, one));
  const hints = candidates.map((one) => `'${target}!${one.junction?.relation.name ?? one.constraint}'`);
  return new AmbiguousEmbed(
    `Could not embed because more than one relationship was found for '${origin}' and '${target}'`,
    `Try changing '${target}' to one of the following: ${hints.join(', ')}. Find the desired relationship in the 'details' key.`,
    alternatives,
  );
}

function describe(origin: string, one: Relationship): Alternative {
  const list = (columns: readonly ColumnPair[], side: 0 | 1): string =>
    columns.map((pair) => pair[side]).join(', ');
  const { junction } = one;
  return {
    cardinality: one.cardinality,
    embedding: `${origin} with ${one.target.name}`,
    relationship: junction
      ? `${junction.relation.name} using ${junction.sourceConstraint}(${list(junction.sourceColumns, 1)}) and ${junction.targetConstraint}(${list(junction.targetColumns, 0)})`
      : `${one.constraint} using ${origin}(${list(one.columns, 0)}) and ${one.target.name}(${list(one.columns, 1)})`,
  };
}
