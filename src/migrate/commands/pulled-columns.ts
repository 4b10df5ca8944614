// What a field says beyond type, key and default, and what a foreign key does, as the file writes them.
import type { LiveColumn, LiveForeignKey } from '../schema/live/live-schema.ts';

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

/** Without `references`. */
export function referenceKeys({ onDelete, onUpdate, deferrable }: LiveForeignKey): Node {
  return {
    // NO ACTION differs from RESTRICT only where the check can wait.
    on_delete: onDelete === 'no_action' && deferrable === null ? 'restrict' : onDelete,
    ...(onUpdate === 'no_action' || onUpdate === 'restrict' ? {} : { on_update: onUpdate }),
    ...(deferrable === null ? {} : { deferrable }),
  };
}

/** `"C"` is `C` in the file, `public."Nocase"` is `public.Nocase`. */
export function bare(name: string): string {
  return name.replaceAll(/"((?:[^"]|"")+)"/g, (_, inner: string) => inner.replaceAll('""', '"'));
}
