// Parts of tables and functions that the desired and the live schema share. `Text` is an SQL expression: printed text
// in the live schema, an `Expression` in the desired schema.
import type { Deferrable, ReferenceAction } from './model.ts';

export type Column<Text> = {
  readonly name: string;
  /** Type as printed by `format_type`. */
  readonly type: string;
  readonly notNull: boolean;
  /** Default, or the expression of a generated column. */
  readonly default: Text | null;
  readonly generated: Generated | null;
  /** The column owns a sequence. Includes identity columns. */
  readonly serial: boolean;
};

export type Generated = 'stored' | 'virtual';

export type Key = {
  readonly label: string;
  readonly kind: 'primary' | 'unique';
  readonly columns: readonly string[];
  readonly deferrable: Deferrable | null;
  readonly nullsNotDistinct: boolean;
};

/** Returns whether a unique index on the same columns is equivalent to the key. */
export function isPlainKey({ deferrable, nullsNotDistinct }: Key): boolean {
  return deferrable === null && !nullsNotDistinct;
}

export type ForeignKey = {
  readonly label: string;
  readonly columns: readonly string[];
  readonly targetSchema: string;
  readonly targetTable: string;
  readonly targetColumns: readonly string[];
  readonly onDelete: ReferenceAction;
  readonly onUpdate: ReferenceAction;
  /** Columns that SET NULL or SET DEFAULT changes. Null: all columns of the key. */
  readonly onDeleteColumns: readonly string[] | null;
  readonly deferrable: Deferrable | null;
  /** MATCH FULL. */
  readonly matchFull: boolean;
};

export type Check<Text> = {
  readonly label: string;
  readonly columns: readonly string[];
  readonly expression: Text;
};

export type Index<Text> = {
  readonly label: string;
  /** Columns of a plain index. For other indexes, all columns that its elements and expressions name. */
  readonly columns: readonly string[];
  /** A btree on columns without options. May be partial. */
  readonly plain: boolean;
  readonly unique: boolean;
  readonly predicate: Text | null;
};

export type Command = 'select' | 'insert' | 'update' | 'delete' | 'all';

export type Policy<Text> = {
  readonly command: Command;
  /** Sorted names, joined by commas. PUBLIC is `public`. */
  readonly roles: string;
  readonly permissive: boolean;
  readonly using: Text | null;
  readonly check: Text | null;
};

/** Signature of a function as printed by the server. */
export type Signature = {
  /** Names, types and defaults, printed by `pg_get_function_arguments`. */
  readonly arguments: string;
  readonly argumentTypes: readonly string[];
  readonly argumentNames: readonly string[];
  /** Number of arguments with a default. */
  readonly defaults: number;
  readonly result: string;
  /** Mode and type of each output argument. Absent if there are none. */
  readonly outputs?: readonly string[] | undefined;
  /** Entries of `pg_proc.proconfig`. Set only if the file declares settings. */
  readonly settings?: readonly string[];
  /** Body of an atomic function: the text between BEGIN ATOMIC and END, or `RETURN …`. */
  readonly atomicBody?: string;
};

export function primaryKeyColumns(table: { readonly keys: readonly Key[] }): readonly string[] {
  return table.keys.find((key) => key.kind === 'primary')?.columns ?? [];
}

export function sameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item, index) => item === b[index]);
}
