// Lists of options, such as the storage parameters of a table or an index.
import { quoteIdent, quoteLiteral } from '../../../postgres/sql.ts';

/** Returns `fillfactor = '70', …`. */
export function optionsSql(options: Readonly<Record<string, string>>): string {
  return Object.entries(options)
    .map(([name, value]) => `${quoteIdent(name)} = ${quoteLiteral(value)}`)
    .join(', ');
}
