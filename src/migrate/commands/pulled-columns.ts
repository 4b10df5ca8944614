// Converts column attributes other than type, key and default, and the actions of foreign keys, to keys of the file.
import { isOfPostgres } from '../../config/check/tables/type-family.ts';
import type { Live, LiveColumn, LiveForeignKey } from '../schema/live/live-schema.ts';

type Node = Record<string, unknown>;

export function columnKeys(
  { generated, identity, collation, comment, default: value }: LiveColumn,
  strip: (text: string) => string,
): Node {
  const sql = strip(value ?? '');
  return {
    ...(generated === null ? {} : { generated: generated === 'virtual' ? { sql, virtual: true } : sql }),
    ...(identity === null ? {} : { identity }),
    ...(collation === null ? {} : { collate: bare(collation) }),
    ...(comment === null ? {} : { comment }),
  };
}

/** Returns the keys of a foreign key, without `references`. */
export function referenceKeys({ onDelete, onUpdate, deferrable }: LiveForeignKey): Node {
  return {
    ...(onDelete === 'restrict' ? {} : { on_delete: onDelete }),
    ...(onUpdate === 'no_action' || onUpdate === 'restrict' ? {} : { on_update: onUpdate }),
    ...(deferrable === null ? {} : { deferrable }),
  };
}

/** Removes quotes: `"C"` is `C` in the file, and `public."Nocase"` is `public.Nocase`. */
export function bare(name: string): string {
  return name.replaceAll(/"((?:[^"]|"")+)"/g, (_, inner: string) => inner.replaceAll('""', '"'));
}

/**
 * Returns a function that converts a printed type to its name in the file: without `public` if the file declares it.
 */
export function typeNamer({ types, tables }: Pick<Live, 'types' | 'tables'>): (type: string) => string {
  return (type) => {
    const [, before = '', name = ''] = /^(setof )?public\.([a-z_][a-z0-9_]*)(?:\[\])*$/i.exec(type) ?? [];
    const key = `public.${name}`;
    const isDeclared = name !== '' && (types.has(key) || tables.has(key)) && !isOfPostgres(name);
    return isDeclared ? `${before}${type.slice(`${before}public.`.length)}` : shortType(type);
  };
}

/** Abbreviates a printed type: `character varying(9)` becomes `varchar(9)`. */
export function shortType(type: string): string {
  return type
    .replace(/^character varying/, 'varchar')
    .replace(/^character(?=\(|\[|$)/, 'char')
    .replace(/^(time|timestamp)(\(\d\))? with time zone/, '$1tz$2')
    .replace(/^(time|timestamp)(\(\d\))? without time zone/, '$1$2');
}
