// A relation and a function as the data API exposes them: the catalog's, less what the file does not declare.
import type { Column, Relation, Routine } from '../../catalog/catalog.ts';

export type ExposedRelation = Relation & {
  readonly column: ReadonlyMap<string, Column>;
  /** In the database, but no longer in the file: answered as if they were not there. */
  readonly hidden: ReadonlySet<string>;
  readonly other: OtherNames;
};

export type ExposedRoutine = Routine & {
  readonly authRequired: boolean;
  readonly other: {
    /** Names that the function has or had in another file. */
    readonly routine: readonly string[];
    /** The same of its arguments, with what the database calls them. */
    readonly args: ReadonlyMap<string, string>;
  };
};

/** During the rollout of a rename some clients use one name and some the other. See other-names.ts. */
export type OtherNames = {
  /** Names that the relation itself has or had in another file. */
  readonly relation: readonly string[];
  /** The same of its columns, with what the database calls them. */
  readonly columns: ReadonlyMap<string, string>;
  /** What the file calls a column that the database knows by another name. */
  readonly declared: ReadonlyMap<string, string>;
};
