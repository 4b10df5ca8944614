// Indexes: existing columns, and no duplicates.
import type { KeyPath } from '../../mistakes/mistake.ts';
import type { RawTable } from '../../schema/tables/tables.ts';
import type { CheckContext } from '../context.ts';
import { checkIndexParts, plainColumns } from './index-parts.ts';
import { checkName } from '../name.ts';

/** PostgreSQL's INDEX_MAX_KEYS. */
const MAX_INDEX_COLUMNS = 32;

export function checkIndexes(context: CheckContext, path: KeyPath, table: RawTable): void {
  const [, tableName] = path;
  const columns = new Set(table.fields.map((field) => field.name));
  const seen = new Map<string, { readonly name: string | undefined }>();
  table.indexes.forEach((index, number) => {
    const at: KeyPath = [...path, 'indexes', number];
    checkIndexParts(context, at, index, { tableName: String(tableName), columns });
    if (index.columns.length > MAX_INDEX_COLUMNS) {
      context.badValue(
        [...at, 'columns', MAX_INDEX_COLUMNS],
        `PostgreSQL allows ${MAX_INDEX_COLUMNS} columns in an index; this index has ${index.columns.length}`,
        'Name fewer columns.',
      );
    }
    const { name, ...definition } = index;
    const shape = JSON.stringify({ ...definition, where: index.where?.trim() });
    const twin = seen.get(shape);
    if (twin !== undefined) {
      context.report({
        code: 'duplicate',
        path: at,
        message: 'the same index is declared twice',
        // PostgreSQL allows the duplicate if both have a name.
        severity: name !== undefined && twin.name !== undefined ? 'warning' : 'error',
        hint: 'Remove one of the two.',
      });
    }
    seen.set(shape, { name });
    const plain = plainColumns(index);
    if (index.unique && !index.where && plain?.length === 1) {
      const [only] = plain;
      const twin = table.fields.find((field) => field.name === only && (field.unique || field.primaryKey));
      const isOnlyKey = twin?.unique ?? table.fields.filter((field) => field.primaryKey).length === 1;
      if (twin && isOnlyKey) {
        context.report({
          code: 'duplicate',
          path: at,
          message: `${twin.name} is already unique`,
          severity: 'warning',
          hint: 'Remove the index.',
        });
      }
    }
    if (index.name !== undefined) checkName(context, [...at, 'name'], index.name);
  });
}

/** Index names are unique within a schema. */
export function checkIndexNames(context: CheckContext): void {
  const owners = new Map<string, string>();
  for (const [table, { schema, indexes }] of Object.entries(context.file.tables)) {
    for (const [number, { name }] of indexes.entries()) {
      if (name === undefined) continue;
      const key = `${schema}.${name}`;
      const owner = owners.get(key);
      owners.set(key, table);
      if (owner === undefined) continue;
      const path = ['tables', table, 'indexes', number, 'name'];
      context.report({
        code: 'duplicate',
        path,
        message: `an index of ${owner} already has the name ${context.show(path, name)}`,
        hint: 'Choose another name: names of indexes are unique in a schema.',
      });
    }
  }
}
