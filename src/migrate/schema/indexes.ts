// Indexes of tables and materialized views: as the file declares them, and as the database has them.
import type { Expression } from './expression.ts';
import type { IndexModel } from './model.ts';
import type { Index } from './relation.ts';

export type DesiredIndex = Index<Expression> & {
  readonly model: IndexModel;
  /** Of one that is not plain: the normal form, see `LiveIndex`. */
  readonly definition: string | null;
  readonly at: string;
};

export type LiveIndex = Index<string> & {
  readonly valid: boolean;
  /** The print of CREATE INDEX from USING on. */
  readonly definition: string;
  /** Of one that is not plain: the print of each column and expression, without what follows it. */
  readonly keys: readonly string[] | null;
};
