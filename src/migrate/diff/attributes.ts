// Compares comments, collations and table attributes. Attributes that left the file are reset. Attributes that the file
// never set are not changed.
import { ofKind } from './change-kinds.ts';
import type { DesiredColumn } from '../schema/desired.ts';
import type { LiveColumn } from '../schema/live/live-schema.ts';
import type { OwnedTable } from '../schema/managed.ts';
import { attributeChanges, ownedAttributes } from '../schema/sql/table-attributes.ts';
import type { TableDiff } from './table-diff.ts';

export function diffComments({ table, live, owned, changes }: TableDiff): void {
  const compare = (
    commented: DesiredColumn | null,
    desired: string | null,
    found: string | null,
    attribute: string,
  ): void => {
    const isOurs = desired !== null || owned.attributes?.includes(attribute);
    if (isOurs && desired !== found)
      changes.push({ kind: 'set-comment', table, live, commented, comment: desired });
  };
  const remade = new Set(
    ofKind(changes, 'remake-column')
      .filter((change) => change.table === table)
      .map(({ column }) => column.name),
  );
  compare(null, table.model.comment ?? null, live.comment, 'comment');
  for (const column of table.columns) {
    const desired = column.model.comment ?? null;
    // A recreated column has no comment.
    const found = remade.has(column.name) ? null : (live.columns.get(column.name)?.comment ?? null);
    compare(column, desired, found, `comment ${column.name}`);
  }
}

export function diffAttributes({ table, live, owned, changes }: TableDiff): void {
  for (const change of attributeChanges(table.model, live, owned.attributes))
    changes.push({ kind: 'set-attribute', table, live, ...change });
}

export function collationDiffers(
  { name, collateSql, collation }: DesiredColumn,
  live: LiveColumn,
  owned: OwnedTable,
): boolean {
  if (collateSql !== '') return collation !== live.collation;
  return live.collation !== null && owned.attributes?.includes(`collate ${name}`) === true;
}

/**
 * Returns the attributes that the file sets, in the form of `OwnedTable.attributes`, or undefined if there are none.
 */
export function declaredAttributes({ model, columns }: TableDiff['table']): readonly string[] | undefined {
  const found = [
    ...(model.comment === undefined ? [] : ['comment']),
    ...(model.realtime === undefined ? [] : ['published']),
    ...(model.realtime?.old === 'full' ? ['identity'] : []),
    ...(model.partitioning === undefined ? [] : ['partitioned']),
    ...ownedAttributes(model),
    ...columns.flatMap(({ name, collateSql, model: column }) => [
      ...(column.comment === undefined ? [] : [`comment ${name}`]),
      ...(collateSql === '' ? [] : [`collate ${name}`]),
    ]),
  ];
  return found.length === 0 ? undefined : found;
}
