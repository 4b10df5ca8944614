// A parsed query string, before the catalog is consulted. Values are in a separate list and a Slot is an index into
// it, so requests that differ only in values have equal trees.
import type { AggregateName, CompareOperator, IsValue, SearchOperator } from './operators.ts';

/** Index into the request's values. */
export type Slot = number;

// Slots of values outside the query string, whose slots start at 0.
export const BODY: Slot = -1;
export const LIMIT: Slot = -2;
export const OFFSET: Slot = -3;
/** Slot of a body field that is a separate parameter: `FIELD - n` is the n-th argument. */
export const FIELD: Slot = -100;

export type JsonStep = {
  readonly arrow: '->' | '->>';
  /** A key, or an index when the text is a number. */
  readonly key: string | number;
};

export type FieldPath = { readonly column: string; readonly steps: readonly JsonStep[] };

export type Aggregate = { readonly name: AggregateName; readonly cast: string | undefined };

export type SelectItem =
  | { readonly kind: 'star' }
  | {
      readonly kind: 'field';
      readonly alias: string | undefined;
      readonly path: FieldPath;
      readonly cast: string | undefined;
      readonly aggregate: Aggregate | undefined;
    }
  | { readonly kind: 'count'; readonly alias: string | undefined; readonly cast: string | undefined }
  | Embed;

export type Embed = {
  readonly kind: 'embed' | 'spread';
  readonly alias: string | undefined;
  readonly target: string;
  readonly hint: string | undefined;
  readonly join: 'inner' | 'left';
  readonly select: readonly SelectItem[];
};

export type Operation =
  | {
      readonly kind: 'compare';
      readonly operator: CompareOperator;
      readonly quantifier: 'any' | 'all' | undefined;
      readonly slot: Slot;
    }
  | { readonly kind: 'in'; readonly slot: Slot }
  | { readonly kind: 'is'; readonly value: IsValue }
  | {
      readonly kind: 'search';
      readonly operator: SearchOperator;
      readonly language: string | undefined;
      readonly slot: Slot;
    };

export type Filter = {
  readonly kind: 'filter';
  readonly path: FieldPath;
  readonly negated: boolean;
  readonly operation: Operation;
};

export type Group = {
  readonly kind: 'group';
  readonly negated: boolean;
  readonly joiner: 'and' | 'or';
  readonly terms: readonly Condition[];
};

export type Condition = Filter | Group;

export type OrderTerm = {
  /** Name of the to-one embed in `rel(column)`. */
  readonly relation: string | undefined;
  readonly path: FieldPath;
  readonly direction: 'asc' | 'desc' | undefined;
  readonly nulls: 'first' | 'last' | undefined;
};

/** Maximum limit that is part of the shape and of the SQL text, where PostgreSQL's planner can use it. */
export const MAX_LITERAL = 1_000;

export type Count = { readonly literal: number } | { readonly slot: Slot };

/** A value for one embed, or for the root if `path` is empty. */
export type At<T> = { readonly path: readonly string[]; readonly value: T };

/** A parameter of an rpc call by GET. The catalog decides whether it is an argument or a filter on the result. */
export type Parameter = {
  readonly key: string;
  /** The whole value. */
  readonly slot: Slot;
  /** The same parsed as a filter, when that is possible. */
  readonly filter: At<Filter> | undefined;
};

export type Query = {
  readonly select: readonly SelectItem[];
  readonly conditions: ReadonlyArray<At<Condition>>;
  readonly orders: ReadonlyArray<At<readonly OrderTerm[]>>;
  readonly having: ReadonlyArray<At<readonly Condition[]>>;
  /** Limits of embeds. */
  readonly limits: ReadonlyArray<At<Count>>;
  readonly offsets: ReadonlyArray<At<Count>>;
  readonly columns: readonly string[] | undefined;
  readonly onConflict: readonly string[] | undefined;
  readonly parameters: readonly Parameter[];
};

export type ParsedQuery = {
  readonly query: Query;
  readonly values: readonly string[];
  /** Equal for two query strings exactly when their trees are equal. */
  readonly shape: string;
  readonly rootLimit: number | undefined;
  readonly rootOffset: number | undefined;
};
