// The model as SQL: what every declaration means, beside the text as written and its place in the file. Normal forms
// are empty until the server has read them (`normalise`).
import type { CheckRole } from './label.ts';
import { tableKey, type ColumnModel, type FunctionModel, type IndexModel, type TableModel } from './model.ts';
import type { NewUserTrigger, RowTrigger } from './row-triggers.ts';
import type { Check, Column, ForeignKey, Index, Key, Policy, Signature } from './relation.ts';

export type Expression = {
  readonly sql: string;
  readonly written: string;
  readonly at: string;
  /** The normal form: the server's print. Empty until the server has read it. */
  readonly normal: string;
};

export type Desired = {
  readonly tables: readonly DesiredTable[];
  readonly functions: readonly DesiredFunction[];
  readonly storagePolicies: readonly DesiredStoragePolicy[];
  /** Of all tables, in scope or not. */
  readonly newUsers: readonly NewUserTrigger[];
};

export type DesiredTable = {
  readonly schema: string;
  readonly name: string;
  readonly model: TableModel;
  readonly columns: readonly DesiredColumn[];
  readonly keys: readonly DesiredKey[];
  readonly foreignKeys: readonly DesiredForeignKey[];
  readonly checks: readonly DesiredCheck[];
  readonly indexes: readonly DesiredIndex[];
  readonly policies: readonly DesiredPolicy[];
  readonly references: readonly DesiredReference[];
  readonly onUpdate: RowTrigger | null;
  readonly rowSecurity: boolean;
  readonly at: string;
};

export type DesiredColumn = Column<Expression> & {
  /** As sent to the server; for a serial column the integer type behind it. `type` is its normal form. */
  readonly typeSql: string;
  readonly model: ColumnModel;
  readonly at: string;
};

export type DesiredKey = Key & { readonly at: string };

export type DesiredForeignKey = ForeignKey & {
  /** The file declares foreign keys of one column only. */
  readonly column: string;
  readonly targetColumn: string;
  readonly at: string;
};

export type DesiredCheck = Check<Expression> & { readonly role: CheckRole; readonly column: string };

export type DesiredIndex = Index<Expression> & {
  readonly model: IndexModel;
  /** Of one that is not plain: the normal form, see `LiveIndex`. */
  readonly definition: string | null;
  readonly at: string;
};

export type DesiredPolicy = Policy<Expression> & { readonly name: string | null; readonly at: string };

export type DesiredStoragePolicy = DesiredPolicy & { readonly bucket: string };

export type DesiredReference = NonNullable<ColumnModel['ref']> & { readonly column: string };

export type DesiredFunction = {
  readonly schema: string;
  readonly name: string;
  readonly model: FunctionModel;
  /** `("a" integer, "b" text default 'x') returns …` up to and without the body. */
  readonly head: string;
  readonly body: string;
  readonly at: string;
  /** Null until the server has read it. */
  readonly normal: Signature | null;
};

export function columnKey(schema: string, table: string, column: string): string {
  return `${tableKey(schema, table)}.${column}`;
}

export function expression(text: string, at: string): Expression {
  return { sql: text, written: text, at, normal: '' };
}
