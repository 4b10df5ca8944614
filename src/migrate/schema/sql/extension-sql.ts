// CREATE EXTENSION statements, for the database and for the shadow schema.
import { quoteIdent, quoteLiteral } from '../../../postgres/sql.ts';
import type { ExtensionModel } from '../model.ts';

/** Default schema of extensions. */
export const EXTENSIONS_SCHEMA = 'extensions';

/** Returns a statement that installs the extension unless it is installed. */
export function createExtensionSql(extension: ExtensionModel): string {
  const { schema } = extension;
  const create = createSql(extension);
  return schema === null ? create : `${createSchemaSql(schema)}; ${create}`;
}

/**
 * Returns a statement for an administrator. svc_owner becomes the owner of a new schema, because it must use its
 * objects.
 */
export function administratorExtensionSql(extension: ExtensionModel): string {
  const create = createSql(extension);
  if (extension.schema === null) return create;
  const schema = quoteIdent(extension.schema);
  return (
    `create schema if not exists ${schema} authorization svc_owner; grant usage on ` +
    `schema ${schema} to anon, authenticated, service_role; ${create}`
  );
}

function createSql({ name, schema, version, cascade }: ExtensionModel): string {
  return [
    `create extension if not exists ${quoteIdent(name)}`,
    schema === null ? '' : ` schema ${quoteIdent(schema)}`,
    version === null ? '' : ` version ${quoteLiteral(version)}`,
    cascade ? ' cascade' : '',
  ].join('');
}

// CREATE SCHEMA IF NOT EXISTS would fail for a role that cannot create schemas, even if the schema exists.
function createSchemaSql(schema: string): string {
  const name = quoteIdent(schema);
  const body =
    `begin if to_regnamespace(${quoteLiteral(name)}) is null then create schema ${name}; grant ` +
    `usage on schema ${name} to anon, authenticated, service_role; end if; end`;
  return `do ${quoteLiteral(body)}`;
}
