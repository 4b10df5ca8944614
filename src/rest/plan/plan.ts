// A query as a tree, checked against the catalog. Values are still slots, and no SQL exists yet.
import type { Column } from '../../catalog/catalog.ts';
import type { Aggregate, Count, Embed, FieldPath, Filter, Group, OrderTerm, Slot } from '../request/query.ts';
import type { ExposedRelation, ExposedRoutine } from './relation.ts';
import type { Relationship } from './relationship.ts';

/** A column or a path into it; `column` is unknown for computed columns and results without a declared shape. */
export type Field = { readonly path: FieldPath; readonly column: Column | undefined };

export function samePath(left: FieldPath, right: FieldPath): boolean {
  return (
    left.column === right.column &&
    left.steps.length === right.steps.length &&
    left.steps.every(({ arrow, key }, index) => {
      const step = right.steps[index];
      return step?.arrow === arrow && step.key === key;
    })
  );
}

export type FieldOutput = {
  readonly name: string;
  /** The field; `*` means whole rows, in `count()`. */
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
    /** An output column: an aggregate, or in a grouped result a column with a cast. */
    | { readonly kind: 'output'; readonly name: string; readonly isAggregate: boolean };
};

export type PlanNode = {
  /** Name in error messages and aliases. */
  readonly name: string;
  /** Null if rows come from a function without a relation's type. */
  readonly relation: ExposedRelation | null;
  /** True if the columns are unknown, so that the SQL selects `*`. */
  readonly hasUnknownColumns: boolean;
  readonly outputs: readonly FieldOutput[];
  readonly embeds: readonly PlannedEmbed[];
  readonly conditions: readonly PlannedCondition[];
  readonly orders: readonly PlannedOrder[];
  readonly having: readonly PlannedHaving[];
  /** Page of an embed; the root's page is part of the request. */
  readonly limit: Count | undefined;
  readonly offset: Count | undefined;
  /** Whether the node has aggregates, or an embed spreads some into it. */
  readonly isGrouped: boolean;
};

export type PlannedArgument = {
  readonly name: string;
  /** Name in the body. */
  readonly key: string;
  readonly type: string;
  /** Receives the JSON text of its value, including quotes. */
  readonly isJson: boolean;
  readonly slots: readonly Slot[];
  readonly variadic: boolean;
};

export type CallPlan = {
  readonly routine: ExposedRoutine;
  readonly arguments: readonly PlannedArgument[];
  /** True if PostgreSQL must convert an argument from the JSON body. */
  readonly fromBody: boolean;
};
