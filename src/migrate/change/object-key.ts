// Keys by which changes refer to each other. A change that requires a key waits for the change that provides it.
import { sqlWords } from '../../lib/sql/sql-text.ts';
import type { Expression } from '../schema/expression.ts';
import { tableKey } from '../schema/model.ts';

type TableName = { readonly schema: string; readonly name: string };

export type ObjectKey =
  /** A column whose type changes. */
  | `column ${string}`
  /** A name in SQL text: a changed column, function, view or statement. */
  | `name ${string}`
  /** A table name in a function: the row type of the table changes. */
  | `row-type ${string}`
  /** A new table, by `schema.table`. */
  | `table ${string}`
  /** The name of a new table in SQL text. */
  | `table-name ${string}`
  /** A new primary or unique key, which a foreign key may refer to. */
  | `key ${string}`
  /** The primary key of a table is dropped. A table cannot have two. */
  | `primary-key ${string}`
  /** The policies and grants of one table. They change together, otherwise rows would be exposed in between. */
  | `policies ${string}`
  /** The label of a constraint or index that is dropped. */
  | `label ${string}`
  /** A name in SQL text that stays in use. A column with this name keeps its type until then. */
  | `in-use ${string}`
  /** The cutover itself. */
  | 'cutover';

export function columnKey({ schema, name }: TableName, column: string): ObjectKey {
  return `column ${tableKey(schema, name)}.${column}`;
}

export function newTableKey({ schema, name }: TableName): ObjectKey {
  return `table ${tableKey(schema, name)}`;
}

export function policiesKey({ schema, name }: TableName): ObjectKey {
  return `policies ${tableKey(schema, name)}`;
}

/** Identifies a key by its columns. `table`: `schema.table`. */
export function columnsKey(table: string, columns: readonly string[]): string {
  return JSON.stringify([table, columns]);
}

export type SqlText = Expression | string | null | undefined;

/** Returns a key of this kind for each word in the texts. */
export function wordKeys<Kind extends 'name' | 'row-type' | 'table-name' | 'in-use'>(
  kind: Kind,
  ...texts: readonly SqlText[]
): `${Kind} ${string}`[] {
  return texts.flatMap((text) =>
    [...sqlWords(typeof text === 'string' ? text : (text?.sql ?? ''))].map(
      (word): `${Kind} ${string}` => `${kind} ${word}`,
    ),
  );
}
