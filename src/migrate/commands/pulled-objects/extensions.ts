// Extensions as the file lists them; nothing when there are none.
import type { LiveExtension } from '../../schema/live/live-schema.ts';
import { EXTENSIONS_SCHEMA } from '../../schema/sql/extension-sql.ts';

type Node = Record<string, unknown>;

export function extensionsKey(extensions: readonly LiveExtension[]): Node {
  if (extensions.length === 0) return {};
  return {
    extensions: extensions.map(({ name, schema }) =>
      // One in pg_catalog decided that itself.
      schema === EXTENSIONS_SCHEMA || schema === 'pg_catalog' ? name : { name, schema },
    ),
  };
}
