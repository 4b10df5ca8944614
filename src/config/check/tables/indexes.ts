// Indexes: their columns must exist, and none may be there twice.
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
        `PostgreSQL allows ${MAX_INDEX_COLUMNS} columns in an index; these are ${index.columns.length}`,
        'Name fewer columns.',
      );
    }
    const { name, ...said } = index;
    const shape = JSON.stringify({ ...said, where: index.where?.trim() });
    const twin = seen.get(shape);
    if (twin !== undefined) {
      context.report({
        code: 'duplicate',
        path: at,
        message: 'the same index is declared twice',
        // PostgreSQL allows it where the two have names of their own.
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
          message: `${twin.name} is unique already`,
          severity: 'warning',
          hint: 'Remove the index.',
        });
      }
    }
    if (index.name !== undefined) checkName(context, [...at, 'name'], index.name);
  });
}

/** Index names share one namespace with each other, schema by schema. */
export function checkIndexNames(context: CheckContext): void {
  const owners = new Map<string, string>();
  for (const [table, { schema, indexes }] of Object.entries(context.file.tables)) {
    for (const [number, { name }] of indexes.entries()) {
      if (name === undefined) continue;
      const key = `${schema}.${name}`;
      const other = owners.get(key);
      owners.set(key, table);
      if (other === undefined) continue;
      const path = ['tables', table, 'indexes', number, 'name'];
      context.report({
        code: 'duplicate',
        path,
        message: `an index of ${other} is called ${context.show(path, name)} already`,
        hint: 'Names of indexes are unique in their schema: choose another.',
      });
    }
  }
}
