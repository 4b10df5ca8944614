// A query that was checked against the catalog, as a tree. Values are still slots, and there is no SQL yet.
import type { Column } from '../../catalog/catalog.ts';
import type { Aggregate, Count, Embed, FieldPath, Filter, Group, OrderTerm, Slot } from '../request/query.ts';
import type { ExposedRelation, ExposedRoutine } from './relation.ts';
import type { Relationship } from './relationship.ts';

/** A column or a path into it; `column` is unknown for computed columns and results without a declared shape. */
export type Field = { readonly path: FieldPath; readonly column: Column | undefined };

export function samePath(one: FieldPath, other: FieldPath): boolean {
  return (
    one.column === other.column &&
    one.steps.length === other.steps.length &&
    one.steps.every(({ arrow, key }, index) => {
      const step = other.steps[index];
      return step?.arrow === arrow && step.key === key;
    })
  );
}

export type FieldOutput = {
  readonly name: string;
  /** `*` stands for the rows themselves, in `count()`. */
  readonly field: Field | '*';
  readonly cast: string | undefined;
  readonly aggregate: Aggregate | undefined;
};

export type PlannedEmbed = Pick<Embed, 'kind' | 'target' | 'join'> & {
  /** The key in the result, and the name by which filters address it. */
  readonly name: string;
  readonly hasAlias: boolean;
  readonly relationship: Relationship;
  readonly node: PlanNode;
};

export type PlannedCondition =
  | (Omit<Filter, 'path'> & { readonly field: Field })
  | (Omit<Group, 'terms'> & { readonly terms: readonly PlannedCondition[] })
  /** Whether the embed has a row at all. */
  | { readonly kind: 'exists'; readonly negated: boolean; readonly embed: PlannedEmbed };

export type PlannedHaving =
  | (Pick<Filter, 'negated' | 'operation'> & { readonly kind: 'output'; readonly name: string })
  | (Omit<Group, 'terms'> & { readonly terms: readonly PlannedHaving[] });

export type PlannedOrder = Pick<OrderTerm, 'direction' | 'nulls'> & {
  readonly by:
    | { readonly kind: 'field'; readonly field: Field }
    | { readonly kind: 'related'; readonly embed: PlannedEmbed; readonly field: Field }
    /** An output by its name: an aggregate, or in a grouped result a column as it was cast. */
    | { readonly kind: 'output'; readonly name: string; readonly isAggregate: boolean };
};

export type PlanNode = {
  /** As error messages and aliases call it. */
  readonly name: string;
  /** Null when rows come from a function and have no relation's type. */
  readonly relation: ExposedRelation | null;
  /** `*` when the columns are not known. */
  readonly hasUnknownColumns: boolean;
  readonly outputs: readonly FieldOutput[];
  readonly embeds: readonly PlannedEmbed[];
  readonly conditions: readonly PlannedCondition[];
  readonly orders: readonly PlannedOrder[];
  readonly having: readonly PlannedHaving[];
  /** Of embeds; the root's page is part of the request. */
  readonly limit: Count | undefined;
  readonly offset: Count | undefined;
  /** Has aggregates of its own or spread into it. */
  readonly isGrouped: boolean;
};

export type PlannedArgument = {
  readonly name: string;
  /** What the body calls it. */
  readonly key: string;
  readonly type: string;
  /** Takes the JSON text of its value, quotes included. */
  readonly isJson: boolean;
  readonly slots: readonly Slot[];
  readonly variadic: boolean;
};

export type CallPlan = {
  readonly routine: ExposedRoutine;
  readonly arguments: readonly PlannedArgument[];
  /** Some argument must be made from the JSON body by PostgreSQL itself. */
  readonly fromBody: boolean;
};
