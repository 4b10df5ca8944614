// Relations and functions of the data API: those of the catalog without undeclared parts.
import type { Column, Relation, Routine } from '../../catalog/catalog.ts';

export type ExposedRelation = Relation & {
  readonly column: ReadonlyMap<string, Column>;
  /** Columns that exist in the database but no longer in the file. The API treats them as missing. */
  readonly hidden: ReadonlySet<string>;
  readonly alternatives: AlternativeNames;
};

export type ExposedRoutine = Routine & {
  readonly authRequired: boolean;
  readonly alternatives: {
    /** Names that the function has or had in another file. */
    readonly routine: readonly string[];
    /** Alternative names of arguments, with the names in the database. */
    readonly args: ReadonlyMap<string, string>;
  };
};

/** Alternative names during the rollout of a rename, when clients use either name. See alternative-names.ts. */
export type AlternativeNames = {
  /** Names that the relation itself has or had in another file. */
  readonly relation: readonly string[];
  /** Alternative names of columns, with the names in the database. */
  readonly columns: ReadonlyMap<string, string>;
  /** Names in the file of columns that have another name in the database. */
  readonly declared: ReadonlyMap<string, string>;
};
