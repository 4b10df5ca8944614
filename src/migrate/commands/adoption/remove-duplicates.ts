// Removes parts of a table that a file cannot express: duplicates, and foreign keys to tables of svc.
import type { LiveIndex } from '../../schema/indexes.ts';
import type { LiveKey, LiveTable } from '../../schema/live/live-schema.ts';
import { isPlainKey, sameList } from '../../schema/relation.ts';

const SVC_SCHEMAS: ReadonlySet<string> = new Set(['auth', 'storage', 'realtime', 'svc_meta', 'svc_events']);

/** Removes foreign keys to tables of svc, except to `auth.users.id`. Their columns stay. */
export function withoutSvcReferences(table: LiveTable, notes: string[]): LiveTable {
  const foreignKeys = table.foreignKeys.filter(({ label, targetSchema, targetTable, targetColumns }) => {
    if (!SVC_SCHEMAS.has(targetSchema)) return true;
    const target = `${targetSchema}.${targetTable}`;
    if (target === 'auth.users' && targetColumns.join() === 'id') return true;
    notes.push(
      `foreign key ${label}: it refers to ${target}(${targetColumns.join(', ')}), which svc manages`,
    );
    return false;
  });
  return { ...table, foreignKeys };
}

/** Removes parts that differ from an earlier part only in their name. */
export function withoutDuplicates(table: LiveTable, notes: string[]): LiveTable {
  const first = <T extends { readonly label: string }>(kind: string, list: readonly T[]): T[] => {
    const seen = new Map<string, string>();
    return list.filter((part) => {
      const { label, ...definition } = part;
      const shape = JSON.stringify({ ...definition, oid: undefined });
      const twin = seen.get(shape);
      if (twin === undefined) seen.set(shape, label);
      else notes.push(`${kind} ${label}: it duplicates ${twin}`);
      return twin === undefined;
    });
  };
  return {
    ...table,
    keys: first('constraint', table.keys),
    foreignKeys: first('foreign key', table.foreignKeys),
    checks: first('check', table.checks),
    indexes: first('index', table.indexes).filter((index) => {
      const key = table.keys.find((key) => isKeyIndex(index, key));
      if (key) notes.push(`index ${index.label}: it duplicates ${key.label}`);
      return key === undefined;
    }),
    exclusions: first('exclusion constraint', table.exclusions),
  };
}

/** Returns true if the index is redundant because of a unique constraint on the same columns. */
function isKeyIndex({ unique, plain, predicate, columns }: LiveIndex, key: LiveKey): boolean {
  return unique && plain && predicate === null && isPlainKey(key) && sameList(columns, key.columns);
}
