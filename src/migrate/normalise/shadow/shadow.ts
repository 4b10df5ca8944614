// Input and result of the shadow schema.
import type { Desired, DesiredTable } from '../../schema/desired.ts';
import type { DesiredIndex } from '../../schema/indexes.ts';
import type { Live } from '../../schema/live/live-schema.ts';
import type { Check, Generated, Key, Policy } from '../../schema/relation.ts';
import type { StatementForm } from '../../schema/statements.ts';
import type { OverloadMarks } from './overloads.ts';
import type { Piece } from './shadow-errors.ts';

/** The parts of a table that the shadow needs. */
export type ShadowTable = Pick<DesiredTable, 'schema' | 'name' | 'at'> & {
  readonly keys: readonly Key[];
  readonly columns: ReadonlyArray<{
    readonly name: string;
    readonly typeSql: string;
    readonly collateSql: string;
    readonly default: Piece | null;
    readonly generated: Generated | null;
    readonly callsDeclaredFunction: boolean;
  }>;
  readonly checks: ReadonlyArray<Pick<Check<Piece>, 'label' | 'expression'>>;
  readonly indexes: ReadonlyArray<
    Pick<DesiredIndex, 'columns' | 'plain' | 'unique' | 'predicate' | 'model' | 'at'>
  >;
  readonly policies: ReadonlyArray<Policy<Piece> & { readonly at: string }>;
  readonly exclusions: DesiredTable['exclusions'];
  readonly onUpdate: DesiredTable['onUpdate'];
  readonly triggers: DesiredTable['triggers'];
  readonly partitioning: DesiredTable['partitioning'];
  /** Storage parameters, whose names only the server can check. */
  readonly options: DesiredTable['model']['with'];
};

export type Shadow = Omit<Desired, 'tables'> & { readonly tables: readonly ShadowTable[] };

/** The shadow as read from the catalog. Temporary schema names are replaced by the real ones. */
export type ShadowResult = Pick<
  Live,
  'types' | 'tables' | 'functions' | 'hosted' | 'userTriggers' | 'views'
> & {
  /** Keyed by the position of the declaration. */
  readonly statements: ReadonlyMap<number, StatementForm>;
  /** Printed indexes of materialized views, keyed by their labels in the shadow. */
  readonly viewIndexes: ReadonlyMap<string, string>;
  readonly marks: OverloadMarks;
};
