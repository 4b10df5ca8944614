// What a table and a function are made of, on either side of the comparison. `Text` is an SQL expression: the
// server's own print in the live schema, an `Expression` with its place in the file in the desired one.
import type { OnDelete } from './model.ts';

export type Column<Text> = {
  readonly name: string;
  /** As `format_type` prints it. */
  readonly type: string;
  readonly notNull: boolean;
  readonly default: Text | null;
  /** Fed by a sequence of its own. An identity column counts as serial. */
  readonly serial: boolean;
};

export type Key = {
  readonly label: string;
  readonly kind: 'primary' | 'unique';
  readonly columns: readonly string[];
};

export type ForeignKey<Action = OnDelete> = {
  readonly label: string;
  readonly columns: readonly string[];
  readonly targetSchema: string;
  readonly targetTable: string;
  readonly targetColumns: readonly string[];
  readonly onDelete: Action;
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
};

export function primaryKeyOf(table: { readonly keys: readonly Key[] }): readonly string[] {
  return table.keys.find((key) => key.kind === 'primary')?.columns ?? [];
}

export function sameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((one, index) => one === b[index]);
}
