// Writes a declared rename into svc.yaml: the name, `renamed_from`, and the places that name the column or table
// structurally. Edits the text in place, so comments and layout stay as they are.
import { isMap, isScalar, isSeq, parseDocument, type Scalar, type YAMLMap } from 'yaml';
import { Problem } from '../problem/problem.ts';

type Edit = { readonly from: number; readonly to: number; readonly text: string };

/** `todos.title` → `headline`, or `todos` → `tasks`. */
export function renameInFile(text: string, path: string, name: string): string {
  const document = parseDocument(text);
  const tables = document.get('tables');
  if (!isMap(tables)) throw notFound(path);
  const [table, column] = splitPath(tables, path);
  const pair = tables.items.find((one) => isScalar(one.key) && String(one.key.value) === table);
  if (!pair || !isMap(pair.value) || !isScalar(pair.key)) throw notFound(path);
  const edits =
    column === undefined
      ? tableEdits(text, tables, pair.key, pair.value, name)
      : columnEdits(text, tables, table, pair.value, column, name);
  return apply(text, edits);
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

function tableEdits(text: string, tables: YAMLMap, key: Scalar, value: YAMLMap, name: string): Edit[] {
  const old = String(key.value);
  return [
    replace(key, name),
    ...addRenamedFrom(text, value, null, old),
    ...referenceEdits(tables, (target) => renameSegment(target, old, null, name)),
  ];
}

function columnEdits(
  text: string,
  tables: YAMLMap,
  table: string,
  value: YAMLMap,
  column: string,
  name: string,
): Edit[] {
  const fields = value.get('fields');
  const items = isSeq(fields) ? fields.items.filter(isMap) : [];
  const field = items.find((one) => one.get('name') === column);
  const scalar = field?.get('name', true);
  if (!field || !isScalar(scalar)) throw notFound(`${table}.${column}`);
  const indexes = value.get('indexes');
  const inIndexes = (isSeq(indexes) ? indexes.items.filter(isMap) : []).flatMap((index) => {
    const columns = index.get('columns');
    return isSeq(columns)
      ? columns.items
          .filter(isScalar)
          .filter((one) => one.value === column)
          .map((one) => replace(one, name))
      : [];
  });
  return [
    replace(scalar, name),
    ...addRenamedFrom(text, field, scalar, column),
    ...inIndexes,
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

function referenceEdits(tables: YAMLMap, rename: (target: string) => string | null): Edit[] {
  const edits: Edit[] = [];
  for (const pair of tables.items) {
    const fields = isMap(pair.value) ? pair.value.get('fields') : undefined;
    for (const field of isSeq(fields) ? fields.items.filter(isMap) : []) {
      const scalar = field.getIn(['foreign_key', 'references'], true);
      const renamed = isScalar(scalar) ? rename(String(scalar.value)) : null;
      if (isScalar(scalar) && renamed !== null) edits.push(replace(scalar, renamed));
    }
  }
  return edits;
}

function replace(scalar: Scalar, value: string): Edit {
  const [from, to] = scalar.range ?? [0, 0];
  return { from, to, text: quoted(value) };
}

function quoted(value: string): string {
  return /^[A-Za-z_][\w-]*$/.test(value) && !/^(true|false|null|yes|no|on|off)$/i.test(value)
    ? value
    : JSON.stringify(value);
}

/** Behind the name in a field, at the head of a table. */
function addRenamedFrom(text: string, map: YAMLMap, after: Scalar | null, old: string): Edit[] {
  const existing = map.get('renamed_from', true);
  if (isScalar(existing)) return [replace(existing, old)];
  const line = `renamed_from: ${quoted(old)}`;
  const start = map.range?.[0] ?? 0;
  if (map.flow) {
    const at = after?.range?.[1] ?? start + 1;
    return [{ from: at, to: at, text: after ? `, ${line}` : ` ${line},` }];
  }
  const indent = ' '.repeat(start - (text.lastIndexOf('\n', start - 1) + 1));
  const at = after?.range?.[1] ?? start;
  return [{ from: at, to: at, text: after ? `\n${indent}${line}` : `${line}\n${indent}` }];
}

function apply(text: string, edits: readonly Edit[]): string {
  return [...edits]
    .sort((a, b) => b.from - a.from)
    .reduce((result, edit) => result.slice(0, edit.from) + edit.text + result.slice(edit.to), text);
}
