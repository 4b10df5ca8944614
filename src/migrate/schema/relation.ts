// What a table and a function are made of, on either side of the comparison. `Text` is an SQL expression: the
// server's own print in the live schema, an `Expression` with its place in the file in the desired one.
import type { Deferrable, ReferenceAction } from './model.ts';

export type Column<Text> = {
  readonly name: string;
  /** As `format_type` prints it. */
  readonly type: string;
  readonly notNull: boolean;
  /** Of a generated column: the expression that makes its value. */
  readonly default: Text | null;
  readonly generated: Generated | null;
  /** Fed by a sequence of its own. An identity column counts as serial. */
  readonly serial: boolean;
};

/** Whether the value is computed when the row is written, or when it is read. */
export type Generated = 'stored' | 'virtual';

export type Key = {
  readonly label: string;
  readonly kind: 'primary' | 'unique';
  readonly columns: readonly string[];
  readonly deferrable: Deferrable | null;
  /** Two nulls are equal. */
  readonly nullsNotDistinct: boolean;
};

/** A btree on the columns alone: what a unique index does as well, and what a foreign key can refer to. */
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
  /** Of SET NULL and SET DEFAULT: only these of the columns. */
  readonly onDeleteColumns: readonly string[] | null;
  readonly deferrable: Deferrable | null;
  /** Either all of its columns are null, or none. */
  readonly matchFull: boolean;
};

export type Check<Text> = {
  readonly label: string;
  readonly columns: readonly string[];
  readonly expression: Text;
};

export type Index<Text> = {
  readonly label: string;
  /** A plain one is on these; any other names them, in expressions, too. */
  readonly columns: readonly string[];
  /** A btree on columns, perhaps partial, of which nothing else is said. */
  readonly plain: boolean;
  readonly unique: boolean;
  /** Of a partial index. */
  readonly predicate: Text | null;
};

export type Command = 'select' | 'insert' | 'update' | 'delete' | 'all';

export type Policy<Text> = {
  readonly command: Command;
  /** Names joined by commas, sorted; `public` for PUBLIC. */
  readonly roles: string;
  readonly permissive: boolean;
  readonly using: Text | null;
  readonly check: Text | null;
};

/** As the server prints it. */
export type Signature = {
  /** Names, types and defaults, as `pg_get_function_arguments` prints them. */
  readonly arguments: string;
  readonly argumentTypes: readonly string[];
  readonly argumentNames: readonly string[];
  /** How many of the last arguments have a default. */
  readonly defaults: number;
  readonly result: string;
  /** Mode and type of what is returned as columns. Absent: nothing is. */
  readonly outputs?: readonly string[] | undefined;
  /** As `pg_proc.proconfig` has them, where the file says settings. */
  readonly settings?: readonly string[];
  /** Of an atomic body: what stands between BEGIN ATOMIC and END, or `RETURN …`. */
  readonly atomicBody?: string;
};

export function primaryKeyOf(table: { readonly keys: readonly Key[] }): readonly string[] {
  return table.keys.find((key) => key.kind === 'primary')?.columns ?? [];
}

export function sameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((one, index) => one === b[index]);
}
