// How SQL names a table or function: quoted, with its schema.
import { quoteIdent } from '../../postgres/sql.ts';

export function nameOf({ schema, name }: { readonly schema: string; readonly name: string }): string {
  return `${quoteIdent(schema)}.${quoteIdent(name)}`;
}
