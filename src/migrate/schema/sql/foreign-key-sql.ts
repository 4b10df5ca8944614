// The text of a foreign key, for the database and for people.
import { quoteIdent } from '../../../postgres/sql.ts';
import { nameOf, type Deferrable } from '../model.ts';
import type { ForeignKey } from '../relation.ts';

/** `foreign key ("a") references "public"."b" ("id") on delete cascade …` */
export function foreignKeySql(key: ForeignKey): string {
  const { columns, targetSchema, targetTable, targetColumns, matchFull } = key;
  const target = nameOf({ schema: targetSchema, name: targetTable });
  return [
    `foreign key (${columns.map(quoteIdent).join(', ')}) references ${target} (${targetColumns.map(quoteIdent).join(', ')})`,
    matchFull ? ' match full' : '',
    actionsOf(key, quoteIdent),
    deferrableSql(key.deferrable),
  ].join('');
}

/** For people: `foreign key list_id → lists.id on delete cascade`. */
export function describeForeignKey(key: ForeignKey): string {
  const { columns, targetTable, targetColumns, deferrable } = key;
  const list = (names: readonly string[]): string =>
    names.length === 1 ? (names[0] ?? '') : `(${names.join(', ')})`;
  const target = targetColumns.length === 1 ? `${targetTable}.` : targetTable;
  const when = deferrable === null ? '' : `, ${deferrable === 'deferred' ? 'deferred' : 'deferrable'}`;
  return `foreign key ${list(columns)} → ${target}${list(targetColumns)}${actionsOf(key, (name) => name)}${when}`;
}

export function deferrableSql(deferrable: Deferrable | null): string {
  if (deferrable === null) return '';
  return ` deferrable initially ${deferrable}`;
}

function actionsOf(key: ForeignKey, name: (column: string) => string): string {
  const { onDelete, onUpdate, onDeleteColumns } = key;
  const some = onDeleteColumns === null ? '' : ` (${onDeleteColumns.map(name).join(', ')})`;
  // Without the clause it is NO ACTION, which `restrict` has always been here.
  const update = onUpdate === 'restrict' ? '' : ` on update ${onUpdate.replace('_', ' ')}`;
  return ` on delete ${onDelete.replace('_', ' ')}${some}${update}`;
}
