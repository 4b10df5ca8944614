// Declared and live indexes of tables and materialized views.
import type { Expression } from './expression.ts';
import type { IndexModel } from './model.ts';
import type { Index } from './relation.ts';

export type DesiredIndex = Index<Expression> & {
  readonly model: IndexModel;
  /** Normal form of an index that is not plain, see `LiveIndex`. */
  readonly definition: string | null;
  readonly at: string;
};

export type LiveIndex = Index<string> & {
  readonly valid: boolean;
  /** Printed CREATE INDEX statement, starting at USING. */
  readonly definition: string;
  /** Printed columns and expressions of an index that is not plain, without their options. */
  readonly keys: readonly string[] | null;
};
