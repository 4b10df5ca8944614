// A relation and a function as the data API exposes them: the catalog's, less what the file does not declare.
import type { Column, Relation, Routine } from '../../catalog/catalog.ts';

export type ExposedRelation = Relation & {
  readonly column: ReadonlyMap<string, Column>;
  /** In the database, but no longer in the file: answered as if they were not there. */
  readonly hidden: ReadonlySet<string>;
};

export type ExposedRoutine = Routine & { readonly authRequired: boolean };
