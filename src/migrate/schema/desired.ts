// The desired schema: the model as SQL, with the text as written and its path in the file. Normal forms are empty until
// `normalise` has sent the declarations to the server.
import type { DesiredIndex } from './indexes.ts';
import type { Expression } from './expression.ts';
import type { PerHost } from './rights/hosts.ts';
import type { CheckRole } from './label.ts';
import {
  tableKey,
  type Attribute,
  type ColumnModel,
  type ExtensionModel,
  type FunctionModel,
  type SequenceModel,
  type TableModel,
  type TypeModel,
} from './model.ts';
import type { NewUserTrigger, RowTrigger } from './row-triggers.ts';
import type { DesiredPartitioning } from './partitions.ts';
import type { DesiredStatement } from './statements.ts';
import type { DesiredTrigger } from './triggers.ts';
import type { DesiredView } from './views.ts';
import type { Check, Column, ForeignKey, Key, Policy, Signature } from './relation.ts';

export type Desired = {
  readonly types: readonly DesiredType[];
  /** Each with its target schema, or null if the extension determines the schema. */
  readonly extensions: readonly ExtensionModel[];
  readonly sequences: readonly SequenceModel[];
  readonly statements: readonly DesiredStatement[];
  readonly tables: readonly DesiredTable[];
  readonly functions: readonly DesiredFunction[];
  readonly hosted: PerHost<readonly DesiredHostedPolicy[]>;
  readonly views: readonly DesiredView[];
  /** Triggers for all tables, also those outside the scope of the plan. */
  readonly newUsers: readonly NewUserTrigger[];
  readonly userTriggers: readonly DesiredTrigger[];
};

export type DesiredType = {
  readonly schema: string;
  readonly name: string;
  readonly model: TypeModel;
  /** Null before normalisation. */
  readonly normal: TypeForm | null;
  readonly functions: FunctionNames;
  readonly at: string;
};

/**
 * Returns whether a word in an expression may call a function of the file. If the file declares operators or casts,
 * `has` returns true for every word, because expressions use them without a name.
 */
export type FunctionNames = Pick<ReadonlySet<string>, 'has'>;

/** Normal form of a type. Values of an enum have no separate printed form. */
export type TypeForm =
  | { readonly kind: 'enum' }
  | {
      readonly kind: 'domain';
      readonly base: string;
      readonly default: string | null;
      readonly collation: string | null;
      /** Checks in the order of the declaration. */
      readonly checks: readonly string[];
    }
  | { readonly kind: 'composite'; readonly attributes: readonly Attribute[] };

export type DesiredTable = {
  readonly schema: string;
  readonly name: string;
  readonly model: TableModel;
  readonly columns: readonly DesiredColumn[];
  readonly keys: readonly DesiredKey[];
  readonly foreignKeys: readonly DesiredForeignKey[];
  readonly checks: readonly DesiredCheck[];
  readonly exclusions: readonly DesiredExclusion[];
  readonly indexes: readonly DesiredIndex[];
  readonly policies: readonly DesiredPolicy[];
  readonly references: readonly DesiredReference[];
  readonly onUpdate: RowTrigger | null;
  readonly triggers: readonly DesiredTrigger[];
  readonly rowSecurity: boolean;
  /** Null if the file does not partition the table. */
  readonly partitioning: DesiredPartitioning | null;
  readonly at: string;
};

export type DesiredColumn = Column<Expression> & {
  /** Type as sent to the server: the integer type in place of `serial`. `type` is its normal form. */
  readonly typeSql: string;
  /** Collation as printed by the server: null if the file sets none, empty before normalisation. */
  readonly collation: string | null;
  /** ` collate "C"`, or an empty string. */
  readonly collateSql: string;
  /** The generation expression calls a function of the file, which must be created first. */
  readonly callsDeclaredFunction: boolean;
  readonly model: ColumnModel;
  readonly at: string;
};

export type DesiredKey = Key & { readonly at: string };

export type DesiredForeignKey = ForeignKey & {
  /** NOT VALID: existing rows are never checked. */
  readonly notValid: boolean;
  readonly at: string;
};

export type DesiredCheck = Check<Expression> & {
  readonly role: CheckRole;
  /** Null for a check of the table. */
  readonly column: string | null;
  /** NOT VALID: existing rows are never checked. */
  readonly notValid: boolean;
};

export type DesiredExclusion = {
  readonly label: string;
  /** Columns that the constraint names, also in expressions and in its condition. */
  readonly columns: readonly string[];
  /** `exclude using gist (…)`: the text after the label. */
  readonly sql: string;
  /** Expressions and condition, joined. */
  readonly text: string;
  /** Constraint as printed by the server. Empty before normalisation. */
  readonly definition: string;
  /** Short form for messages. */
  readonly describe: string;
  readonly at: string;
};

export type DesiredPolicy = Policy<Expression> & { readonly name: string | null; readonly at: string };

/** Policy on a table of svc, such as `storage.objects`. */
export type DesiredHostedPolicy = DesiredPolicy & {
  /** `storage.photos`, or `realtime`. */
  readonly home: string;
  /** Prefix of the labels. */
  readonly stem: string;
};

export type DesiredReference = NonNullable<ColumnModel['ref']> & { readonly column: string };

export type DesiredFunction = {
  readonly schema: string;
  readonly name: string;
  readonly model: FunctionModel;
  /** `("a" integer, "b" text default 'x') returns …` up to and without the body. */
  readonly head: string;
  /** The signature uses the row type of a declared view, so the view is created first. */
  readonly usesViewRows: boolean;
  /** A declared range type calls the function, so the function is created before the tables. */
  readonly isUsedByRange?: boolean;
  readonly body: string;
  /** Body that replaces `body` while expressions are parsed in a plan that must not evaluate any. */
  readonly stub?: string;
  readonly at: string;
  /** Null before normalisation. */
  readonly normal: Signature | null;
};

export function columnKey(schema: string, table: string, column: string): string {
  return `${tableKey(schema, table)}.${column}`;
}
