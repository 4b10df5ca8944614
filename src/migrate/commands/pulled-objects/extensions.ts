// Converts extensions to the key `extensions`.
import type { LiveExtension } from '../../schema/live/live-schema.ts';
import { EXTENSIONS_SCHEMA } from '../../schema/sql/extension-sql.ts';

type Node = Record<string, unknown>;

export function extensionsKey(extensions: readonly LiveExtension[]): Node {
  if (extensions.length === 0) return {};
  return {
    extensions: extensions.map(({ name, schema }) =>
      // Extensions in `pg_catalog` determine their schema themselves.
      schema === EXTENSIONS_SCHEMA || schema === 'pg_catalog' ? name : { name, schema },
    ),
  };
}
