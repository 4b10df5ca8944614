// Renames a table or column by editing svc.yaml: the name, `renamed_from`, and keys that refer to it. SQL expressions
// that contain the name are not changed.
import { isMap, isScalar, isSeq, parseDocument, type YAMLMap } from 'yaml';
import type { ConfigEdit } from '../../config/edit/edit.ts';
import { editParts, type Texts } from '../../config/edit/edit-parts.ts';
import { mergedText } from '../../config/read/merged-text.ts';
import { Problem } from '../../problem/problem.ts';

/** Renames `todos.title` to `headline`, or `todos` to `tasks`. Returns the changed texts. */
export function renameInFiles(texts: Texts, path: string, name: string): Texts {
  const written = [...texts].map(([file, text]) => ({ name: file, text }));
  const [only, another] = written;
  const whole = only && !another ? only.text : mergedText(written, undefined);
  const tables = parseDocument(whole).get('tables');
  if (!isMap(tables)) throw notFound(path);
  const [table, column] = splitPath(tables, path);
  return editParts(
    texts,
    column === undefined ? tableEdits(tables, table, name) : columnEdits(tables, table, column, name),
  );
}

function splitPath(tables: YAMLMap, path: string): [string, string?] {
  if (tables.has(path)) return [path];
  const dot = path.lastIndexOf('.');
  return dot === -1 ? [path] : [path.slice(0, dot), path.slice(dot + 1)];
}

function notFound(path: string): Problem {
  return new Problem('rename_not_found', 400, `${path} is not in the file`, {
    hint: 'Name a table, or table.field.',
  });
}

function tableEdits(tables: YAMLMap, table: string, name: string): ConfigEdit[] {
  if (!isMap(tables.get(table))) throw notFound(table);
  return [
    ...referenceEdits(tables, (target) => renameSegment(target, table, null, name)),
    { kind: 'set', path: ['tables', table, 'renamed_from'], value: table, behind: null },
    // Must be last, because it changes the paths inside the table.
    { kind: 'rename', path: ['tables', table], name },
  ];
}

function columnEdits(tables: YAMLMap, table: string, column: string, name: string): ConfigEdit[] {
  const index = listItems(tables, table, 'fields').findIndex(
    (field) => isMap(field) && field.get('name') === column,
  );
  if (index === -1) throw notFound(`${table}.${column}`);
  const field = ['tables', table, 'fields', index];
  return [
    { kind: 'set', path: [...field, 'name'], value: name },
    { kind: 'set', path: [...field, 'renamed_from'], value: column, behind: 'name' },
    ...listItems(tables, table, 'indexes').flatMap((_, at) =>
      (['columns', 'include'] as const).flatMap((list) =>
        listItems(tables, table, 'indexes', at, list).flatMap((entry, place): ConfigEdit[] => {
          const path = ['tables', table, 'indexes', at, list, place];
          if (isScalar(entry) && entry.value === column) return [{ kind: 'set', path, value: name }];
          return isMap(entry) && entry.get('column') === column
            ? [{ kind: 'set', path: [...path, 'column'], value: name }]
            : [];
        }),
      ),
    ),
    ...referenceEdits(tables, (target) => renameSegment(target, table, column, name)),
  ];
}

function renameSegment(target: string, table: string, column: string | null, name: string): string | null {
  const parts = target.split('.');
  const last = parts.length - 1;
  if (parts[last - 1] !== table || (column !== null && parts[last] !== column)) return null;
  parts[column === null ? last - 1 : last] = name;
  return parts.join('.');
}

function referenceEdits(tables: YAMLMap, rename: (target: string) => string | null): ConfigEdit[] {
  return tables.items.flatMap(({ key }) => {
    const table = String(isScalar(key) ? key.value : key);
    return listItems(tables, table, 'fields').flatMap((field, index): ConfigEdit[] => {
      const target = isMap(field) ? field.getIn(['foreign_key', 'references']) : undefined;
      const renamed = typeof target === 'string' ? rename(target) : null;
      const path = ['tables', table, 'fields', index, 'foreign_key', 'references'];
      return renamed === null ? [] : [{ kind: 'set', path, value: renamed }];
    });
  });
}

/** Returns the entries of the list at the path, or an empty array if there is no list. */
function listItems(tables: YAMLMap, ...path: readonly (string | number)[]): readonly unknown[] {
  const list = tables.getIn(path);
  return isSeq(list) ? list.items : [];
}
