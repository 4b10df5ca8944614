// Foreign keys as SQL and as text for messages.
import { quoteIdent } from '../../../postgres/sql.ts';
import { quoteName, type Deferrable } from '../model.ts';
import type { ForeignKey } from '../relation.ts';

/** Returns `foreign key ("a") references "public"."b" ("id") on delete cascade …`. */
export function foreignKeySql(key: ForeignKey): string {
  const { columns, targetSchema, targetTable, targetColumns, matchFull } = key;
  const target = quoteName({ schema: targetSchema, name: targetTable });
  return [
    `foreign key (${columns.map(quoteIdent).join(', ')}) references ` +
      `${target} (${targetColumns.map(quoteIdent).join(', ')})`,
    matchFull ? ' match full' : '',
    actionsSql(key, quoteIdent),
    deferrableSql(key.deferrable),
  ].join('');
}

/** Returns a short text such as `foreign key list_id → lists.id on delete cascade`. */
export function describeForeignKey(key: ForeignKey): string {
  const { columns, targetTable, targetColumns, deferrable } = key;
  const list = (names: readonly string[]): string =>
    names.length === 1 ? (names[0] ?? '') : `(${names.join(', ')})`;
  const target = targetColumns.length === 1 ? `${targetTable}.` : targetTable;
  const when = deferrable === null ? '' : `, ${deferrable === 'deferred' ? 'deferred' : 'deferrable'}`;
  return `foreign key ${list(columns)} → ${target}${list(targetColumns)}${actionsSql(key, (name) => name)}${when}`;
}

export function deferrableSql(deferrable: Deferrable | null): string {
  if (deferrable === null) return '';
  return ` deferrable initially ${deferrable}`;
}

function actionsSql(key: ForeignKey, name: (column: string) => string): string {
  const { onDelete, onUpdate, onDeleteColumns } = key;
  const onlyColumns = onDeleteColumns === null ? '' : ` (${onDeleteColumns.map(name).join(', ')})`;
  // `restrict` omits the clause, which means NO ACTION. Existing foreign keys were created this way.
  const update = onUpdate === 'restrict' ? '' : ` on update ${onUpdate.replace('_', ' ')}`;
  return ` on delete ${onDelete.replace('_', ' ')}${onlyColumns}${update}`;
}
