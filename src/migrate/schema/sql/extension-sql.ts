// The text that makes an extension, for the database and for the shadow schema whose tables use its types.
import { quoteIdent, quoteLiteral } from '../../../postgres/sql.ts';
import type { ExtensionModel } from '../model.ts';

/** Where extensions are unless the file says otherwise. */
export const EXTENSIONS_SCHEMA = 'extensions';

/** Does nothing where it is installed. */
export function createExtensionSql({ name, schema, version, cascade }: ExtensionModel): string {
  const create = [
    `create extension if not exists ${quoteIdent(name)}`,
    schema === null ? '' : ` schema ${quoteIdent(schema)}`,
    version === null ? '' : ` version ${quoteLiteral(version)}`,
    cascade ? ' cascade' : '',
  ].join('');
  return schema === null ? create : `${createSchemaSql(schema)}; ${create}`;
}

// Whoever may not create schemas can still use one that is there.
function createSchemaSql(schema: string): string {
  const name = quoteIdent(schema);
  const body = `begin if to_regnamespace(${quoteLiteral(name)}) is null then create schema ${name}; grant usage on schema ${name} to anon, authenticated, service_role; end if; end`;
  return `do ${quoteLiteral(body)}`;
}
