// Comments, collations, storage parameters and whether a table is logged: what the file says is compared, and what it said before is taken back. Others stay as found.
import type { DesiredColumn } from '../schema/desired.ts';
import type { LiveColumn } from '../schema/live/live-schema.ts';
import type { OwnedTable } from '../schema/managed.ts';
import type { TableDiff } from './table-diff.ts';

export function diffComments({ table, live, owned, changes }: TableDiff): void {
  const compare = (
    commented: DesiredColumn | null,
    wanted: string | null,
    found: string | null,
    attribute: string,
  ): void => {
    const isOurs = wanted !== null || owned.attributes?.includes(attribute);
    if (isOurs && wanted !== found)
      changes.push({ kind: 'set-comment', table, live, commented, comment: wanted });
  };
  const remade = new Set(
    changes.flatMap((change) =>
      change.kind === 'remake-column' && change.table === table ? [change.column.name] : [],
    ),
  );
  compare(null, table.model.comment ?? null, live.comment, 'comment');
  for (const column of table.columns) {
    const wanted = column.model.comment ?? null;
    // A column that is made anew has none.
    const found = remade.has(column.name) ? null : (live.columns.get(column.name)?.comment ?? null);
    compare(column, wanted, found, `comment ${column.name}`);
  }
}

export function diffStorage({ table, live, owned, changes }: TableDiff): void {
  const { with: wanted = {}, unlogged = false } = table.model;
  const isOurs = (attribute: string): boolean => owned.attributes?.includes(attribute) === true;
  const set = Object.fromEntries(Object.entries(wanted).filter(([name, value]) => live.with[name] !== value));
  const reset = Object.keys(live.with).filter((name) => !(name in wanted) && isOurs(`with ${name}`));
  if (Object.keys(set).length > 0 || reset.length > 0)
    changes.push({ kind: 'set-storage', table, live, set, reset });
  if (unlogged !== live.unlogged && (unlogged || isOurs('unlogged')))
    changes.push({ kind: 'set-logged', table, live, logged: !unlogged });
}

export function collationDiffers(
  { name, collateSql, collation }: DesiredColumn,
  live: LiveColumn,
  owned: OwnedTable,
): boolean {
  if (collateSql !== '') return collation !== live.collation;
  return live.collation !== null && owned.attributes?.includes(`collate ${name}`) === true;
}

/** What is the file's of this table, as `OwnedTable` records it; undefined for nothing. */
export function attributesOf({ model, columns }: TableDiff['table']): readonly string[] | undefined {
  const found = [
    ...(model.comment === undefined ? [] : ['comment']),
    ...(model.realtime === undefined ? [] : ['published']),
    ...(model.realtime?.old === 'full' ? ['identity'] : []),
    ...(model.partitioning === undefined ? [] : ['partitioned']),
    ...(model.unlogged ? ['unlogged'] : []),
    ...Object.keys(model.with ?? {}).map((name) => `with ${name}`),
    ...columns.flatMap(({ name, collateSql, model: column }) => [
      ...(column.comment === undefined ? [] : [`comment ${name}`]),
      ...(collateSql === '' ? [] : [`collate ${name}`]),
    ]),
  ];
  return found.length === 0 ? undefined : found;
}
