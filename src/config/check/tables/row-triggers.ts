// Columns that `on_update` and `on_new_user` write: they must exist, and required columns must get a value.
import type { KeyPath } from '../../mistakes/mistake.ts';
import type { RawField, RawTable } from '../../schema/tables/tables.ts';
import { type CheckContext, didYouMean } from '../context.ts';
import { typeFamily } from './type-family.ts';

export function checkOnUpdate(context: CheckContext, field: RawField, at: KeyPath): void {
  const { onUpdate, type, name } = field;
  const path = [...at, 'on_update'];
  const family = type === undefined ? undefined : typeFamily(type);
  const isTime = onUpdate === 'now()' || onUpdate === 'current_date';
  if (isTime && family !== undefined && family !== 'time') {
    context.conflict(
      path,
      `${onUpdate} is a time, and ${name} has the type ${type}`,
      'Use a column of type timestamptz, or write { sql: … }.',
    );
  }
  if (onUpdate !== undefined && field.primaryKey) {
    context.conflict(
      path,
      `${name} is part of the primary key: updates must not change it`,
      'Remove on_update.',
      'key',
    );
  }
}

export function checkOnNewUser(context: CheckContext, path: KeyPath, table: RawTable): void {
  if (table.onNewUser === undefined) return;
  const { set } = table.onNewUser;
  const at = [...path, 'on_new_user'];
  const isLong = context.isWritten([...at, 'set']) && context.scalar([...at, 'set']) === undefined;
  const columns = new Map(table.fields.map((field) => [field.name, field]));
  if (context.broken.touches([...path, 'fields'])) return;
  for (const column of Object.keys(set)) {
    if (columns.has(column)) continue;
    const place = [...at, ...(isLong ? ['set'] : []), column];
    context.report({
      code: 'unknown-reference',
      path: place,
      message: `the table ${path[1]} has no column ${column}`,
      hint: () =>
        didYouMean(column, columns.keys()) ?? `Columns: ${[...columns.keys()].slice(0, 20).join(', ')}.`,
      part: 'key',
    });
  }
  const missing = table.fields.filter(
    (field) =>
      (field.required || field.primaryKey) &&
      (field.default === undefined || field.default === null) &&
      !/serial\d?$/i.test(field.type ?? '') &&
      field.identity === undefined &&
      field.generated === undefined &&
      !Object.hasOwn(set, field.name),
  );
  const names = missing.map((field) => field.name);
  if (missing.length > 0) {
    context.report({
      code: 'missing-key',
      path: at,
      message: `every sign-up would fail, because on_new_user does not set ${names.join(', ')} of ${path[1]}`,
      hint:
        `Add ${names.map((name) => `${name}: …`).join(', ')}, ` +
        `or add a default to ${names.length === 1 ? 'the column' : 'the columns'}.`,
      part: 'key',
    });
  }
}
