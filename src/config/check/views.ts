// Views: unique names, existing files, and queries instead of statements.
import type { RawView } from '../schema/tables/views.ts';
import type { CheckContext } from './context.ts';
import { checkName, checkObjectName, checkRenames, isReservedSchema } from './name.ts';
import { checkReferencedFile } from './referenced-file.ts';
import { checkIndexParts } from './tables/index-parts.ts';
import { checkViewTriggers } from './tables/triggers.ts';

export function checkViews(context: CheckContext): void {
  const { tables, views } = context.file;
  const entries = Object.entries(views);
  for (const [name, view] of entries) {
    if (context.isFull) return;
    const path = ['views', name];
    checkObjectName(context, path, name);
    if (isReservedSchema(view.schema)) {
      context.report({
        code: 'reserved-name',
        path: [...path, 'schema'],
        message: `the schema ${context.show([...path, 'schema'], view.schema)} is reserved`,
        hint: 'Omit schema to use public, or choose another name.',
      });
    } else checkName(context, [...path, 'schema'], view.schema);
    if (tables[name]?.schema === view.schema) {
      context.report({
        code: 'duplicate',
        path,
        message: `${name} is already a table of this file`,
        hint: 'Give the view another name.',
        part: 'key',
      });
    }
    checkQuery(context, name, view);
    checkMaterialized(context, name, view);
    checkViewTriggers(context, [...path, 'triggers'], view.triggers);
  }
  checkRenames(
    context,
    entries.map(([name, view]) => ({ path: ['views', name], name, from: view.renamedFrom })),
  );
}

/** Rejects keys that only apply when a view runs its query. A materialized view stores rows. */
function checkMaterialized(context: CheckContext, name: string, view: RawView): void {
  const path = ['views', name];
  if (!view.materialized) {
    if (view.indexes.length > 0)
      context.conflict(
        [...path, 'indexes'],
        'only a materialized view stores rows that can be indexed',
        'Add materialized: true, or index the underlying tables.',
        'key',
      );
    return;
  }
  if (view.triggers.length > 0)
    context.conflict(
      [...path, 'triggers'],
      'rows of a materialized view cannot be written, so a trigger would never run',
      'Remove triggers.',
      'key',
    );
  for (const key of ['security', 'barrier', 'check_option'])
    if (context.isWritten([...path, key]))
      context.conflict(
        [...path, key],
        `${key} is not valid for a materialized view, which is refreshed with the rights of its owner`,
        `Remove ${key}.`,
        'key',
      );
  for (const [role, privileges] of Object.entries(view.grants ?? {}))
    privileges.forEach((privilege, number) => {
      if (privilege === 'select') return;
      context.badValue(
        [...path, 'grants', role, number],
        `the privilege ${privilege} is not valid for a materialized view`,
        'Grant select.',
      );
    });
  const labels = new Set<string>();
  view.indexes.forEach((index, number) => {
    const at = [...path, 'indexes', number];
    checkIndexParts(context, at, index, { tableName: name, columns: null });
    if (index.name === undefined) return;
    checkName(context, [...at, 'name'], index.name);
    if (labels.has(index.name))
      context.reportTwice([...at, 'name'], `the view already has an index ${index.name}`);
    labels.add(index.name);
  });
}

function checkQuery(context: CheckContext, name: string, { query }: RawView): void {
  const path = ['views', name, 'query'];
  if (typeof query !== 'string') {
    if (context.options.directory === undefined)
      context.report({
        code: 'missing-file',
        path: [...path, 'file'],
        message: 'a remote configuration cannot refer to files',
        hint: 'Write the query inline.',
      });
    else checkReferencedFile(context, [...path, 'file'], query.file);
    return;
  }
  const code = query.replace(/^(\s|--[^\n]*(\n|$)|\/\*[^]*?\*\/)+/, '');
  if (!/^create\b/i.test(code)) return;
  context.badValue(path, 'the query is a CREATE statement', 'Write only the query after AS.');
}
