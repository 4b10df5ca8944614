// A relationship between two relations, and the choice of the one that an embed means.
import { AmbiguousEmbed, noRelationship, type Alternative } from '../problem.ts';
import type { Embed } from '../request/query.ts';
import type { ExposedRelation } from './relation.ts';
import { wasForeignKey } from './other-names.ts';
import { closest } from './suggest.ts';

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
  readonly routine:
    | { readonly schema: string; readonly name: string; readonly otherNames: readonly string[] }
    | undefined;
};

export function isToOne({ cardinality }: Relationship): boolean {
  return cardinality === 'many-to-one' || cardinality === 'one-to-one';
}

/** The relationship that an embed means. None or several throw a problem that says what to write instead. */
export function chooseRelationship(
  origin: { readonly schema: string; readonly name: string },
  relationships: readonly Relationship[],
  { target, hint }: Pick<Embed, 'target' | 'hint'>,
): Relationship {
  const computed = relationships.filter((one) => one.routine?.name === target);
  const inSchema = relationships.filter((one) => one.target.schema === origin.schema && !one.routine);
  const known =
    computed.length > 0 && hint === undefined
      ? computed
      : inSchema.filter((one) => (hint === undefined ? isNamed(one, target) : isHinted(one, target, hint)));
  const candidates = known.length > 0 ? known : underOtherNames(relationships, inSchema, target, hint);
  const [only, ...others] = candidates;
  if (!only) {
    const names = inSchema.map((one) => one.target.name);
    throw noRelationship(origin.name, target, hint, origin.schema, closest(target, names, 0.33));
  }
  if (others.length > 0) throw ambiguous(origin.name, target, candidates);
  return only;
}

/** The same while a table, a column or a function is being renamed. */
function underOtherNames(
  relationships: readonly Relationship[],
  inSchema: readonly Relationship[],
  target: string,
  hint: string | undefined,
): Relationship[] {
  if (hint !== undefined) {
    return inSchema.filter((one) => isHinted(one, currentTarget(one, target), currentHint(one, hint)));
  }
  const computed = relationships.filter((one) => one.routine?.otherNames.includes(target));
  return computed.length > 0 ? computed : inSchema.filter((one) => isNamed(one, currentTarget(one, target)));
}

function currentTarget(one: Relationship, name: string): string {
  if (one.target.other.relation.includes(name)) return one.target.name;
  if (wasConstraint(one, name)) return one.constraint;
  return one.source.other.columns.get(name) ?? name;
}

function currentHint(one: Relationship, name: string): string {
  const { junction, source, target } = one;
  if (!junction) {
    if (wasConstraint(one, name)) return one.constraint;
    return source.other.columns.get(name) ?? target.other.columns.get(name) ?? name;
  }
  const { relation, sourceColumns, targetColumns, sourceConstraint, targetConstraint } = junction;
  if (relation.other.relation.includes(name)) return relation.name;
  if (wasForeignKey(relation, side(sourceColumns, 1), name)) return sourceConstraint;
  return wasForeignKey(relation, side(targetColumns, 0), name) ? targetConstraint : name;
}

function wasConstraint({ isOwner, source, target, columns, junction }: Relationship, name: string): boolean {
  if (junction) return false;
  return isOwner
    ? wasForeignKey(source, side(columns, 0), name)
    : wasForeignKey(target, side(columns, 1), name);
}

function side(columns: readonly ColumnPair[], index: 0 | 1): string[] {
  return columns.map((pair) => pair[index]);
}

function isNamed(one: Relationship, target: string): boolean {
  const isSelf = one.source === one.target;
  const [column] = one.columns;
  // Columns and constraints name the relationship to a table; a view is addressed by its own name.
  const isTable = one.target.kind !== 'view' && one.target.kind !== 'materialized-view';
  const isOwnColumn = isTable && one.isOwner && one.columns.length === 1 && column?.[0] === target;
  // In a table that references itself, its name means the children; the parent is addressed by the column.
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
  const list = (columns: readonly ColumnPair[], index: 0 | 1): string => side(columns, index).join(', ');
  const { junction } = one;
  return {
    cardinality: one.cardinality,
    embedding: `${origin} with ${one.target.name}`,
    relationship: junction
      ? `${junction.relation.name} using ${junction.sourceConstraint}(${list(junction.sourceColumns, 1)}) and ${junction.targetConstraint}(${list(junction.targetColumns, 0)})`
      : `${one.constraint} using ${origin}(${list(one.columns, 0)}) and ${one.target.name}(${list(one.columns, 1)})`,
  };
}
