// Relationships between relations, and the choice of the one for an embed.
import { AmbiguousEmbed, noRelationship, type Alternative } from '../problem.ts';
import type { Embed } from '../request/query.ts';
import type { ExposedRelation } from './relation.ts';
import { wasForeignKey } from './alternative-names.ts';
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
    | { readonly schema: string; readonly name: string; readonly alternativeNames: readonly string[] }
    | undefined;
};

export function isToOne({ cardinality }: Relationship): boolean {
  return cardinality === 'many-to-one' || cardinality === 'one-to-one';
}

/** Returns the relationship of an embed. Throws a problem with alternatives if there are several or none. */
export function chooseRelationship(
  origin: { readonly schema: string; readonly name: string },
  relationships: readonly Relationship[],
  { target, hint }: Pick<Embed, 'target' | 'hint'>,
): Relationship {
  const computed = relationships.filter((relationship) => relationship.routine?.name === target);
  const inSchema = relationships.filter(
    (relationship) => relationship.target.schema === origin.schema && !relationship.routine,
  );
  const known =
    computed.length > 0 && hint === undefined
      ? computed
      : inSchema.filter((relationship) =>
          hint === undefined ? isNamed(relationship, target) : isHinted(relationship, target, hint),
        );
  const candidates = known.length > 0 ? known : underOtherNames(relationships, inSchema, target, hint);
  const [only, ...others] = candidates;
  if (!only) {
    const names = inSchema.map((relationship) => relationship.target.name);
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
    return inSchema.filter((relationship) =>
      isHinted(relationship, currentTarget(relationship, target), currentHint(relationship, hint)),
    );
  }
  const computed = relationships.filter((relationship) =>
    relationship.routine?.alternativeNames.includes(target),
  );
  return computed.length > 0
    ? computed
    : inSchema.filter((relationship) => isNamed(relationship, currentTarget(relationship, target)));
}

function currentTarget(relationship: Relationship, name: string): string {
  if (relationship.target.alternatives.relation.includes(name)) return relationship.target.name;
  if (wasConstraint(relationship, name)) return relationship.constraint;
  return relationship.source.alternatives.columns.get(name) ?? name;
}

function currentHint(relationship: Relationship, name: string): string {
  const { junction, source, target } = relationship;
  if (!junction) {
    if (wasConstraint(relationship, name)) return relationship.constraint;
    return source.alternatives.columns.get(name) ?? target.alternatives.columns.get(name) ?? name;
  }
  const { relation, sourceColumns, targetColumns, sourceConstraint, targetConstraint } = junction;
  if (relation.alternatives.relation.includes(name)) return relation.name;
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

function isNamed(relationship: Relationship, target: string): boolean {
  const isSelf = relationship.source === relationship.target;
  const [column] = relationship.columns;
  // Columns and constraints identify a relationship to a table. A view is identified only by its name.
  const isTable = relationship.target.kind !== 'view' && relationship.target.kind !== 'materialized-view';
  const isOwnColumn =
    isTable && relationship.isOwner && relationship.columns.length === 1 && column?.[0] === target;
  // For a self-reference, the table's name means the children, and the column's name the parent.
  if (isSelf && relationship.junction === undefined) {
    return isOwnColumn || (!relationship.isOwner && relationship.target.name === target);
  }
  if (relationship.target.name === target) return true;
  if (relationship.junction) return false;
  return isOwnColumn || (isTable && relationship.constraint === target);
}

function isHinted(relationship: Relationship, target: string, hint: string): boolean {
  if (relationship.target.name !== target) return false;
  if (relationship.junction) {
    const { relation, sourceConstraint, targetConstraint } = relationship.junction;
    return relation.name === hint || sourceConstraint === hint || targetConstraint === hint;
  }
  if (relationship.source === relationship.target && relationship.isOwner) return false;
  const [column] = relationship.columns;
  const isColumn = relationship.columns.length === 1 && (column?.[0] === hint || column?.[1] === hint);
  return isColumn || relationship.constraint === hint;
}

function ambiguous(origin: string, target: string, candidates: readonly Relationship[]): AmbiguousEmbed {
  const alternatives = candidates.map((candidate) => describe(origin, candidate));
  const hints = candidates.map(
    (candidate) => `'${target}!${candidate.junction?.relation.name ?? candidate.constraint}'`,
  );
  return new AmbiguousEmbed(
    `Could not embed because more than one relationship was found for '${origin}' and '${target}'`,
    `Try changing '${target}' to one of the following: ${hints.join(', ')}. ` +
      `Find the desired relationship in the 'details' key.`,
    alternatives,
  );
}

function describe(origin: string, relationship: Relationship): Alternative {
  const list = (columns: readonly ColumnPair[], index: 0 | 1): string => side(columns, index).join(', ');
  const { junction } = relationship;
  return {
    cardinality: relationship.cardinality,
    embedding: `${origin} with ${relationship.target.name}`,
    relationship: junction
      ? `${junction.relation.name} using ${junction.sourceConstraint}(${list(junction.sourceColumns, 1)}) ` +
        `and ${junction.targetConstraint}(${list(junction.targetColumns, 0)})`
      : `${relationship.constraint} using ${origin}(${list(relationship.columns, 0)}) ` +
        `and ${relationship.target.name}(${list(relationship.columns, 1)})`,
  };
}
