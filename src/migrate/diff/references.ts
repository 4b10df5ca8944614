// Compares the triggers that track references from columns to stored objects.
import type { DesiredReference, DesiredTable } from '../schema/desired.ts';
import { quoteLiteral } from '../../postgres/sql.ts';
import { REFERENCE_PREFIX, referenceTriggerLabels } from '../schema/label.ts';
import { primaryKeyColumns } from '../schema/relation.ts';
import type { TableDiff } from './table-diff.ts';

export function diffReferences({ table, live, key, changingColumns, changes }: TableDiff): void {
  const expected = new Set<string>();
  for (const reference of table.references) {
    const labels = referenceTriggerLabels(reference.column);
    expected.add(labels.row).add(labels.truncate);
    const row = live.triggers.find((trigger) => trigger.label === labels.row);
    const truncate = live.triggers.some((trigger) => trigger.label === labels.truncate && trigger.enabled);
    const mustRebuild = [reference.column, ...primaryKeyColumns(table)].some((column) =>
      changingColumns.has(`${key}.${column}`),
    );
    if (row && mustRebuild) changes.push({ kind: 'suspend-reference', table, live, reference });
    const isTracked = row?.enabled === true && row.definition.endsWith(trackCall(table, reference));
    if (!isTracked || !truncate || mustRebuild)
      changes.push({ kind: 'add-reference', table, live, reference });
  }
  for (const trigger of live.triggers) {
    if (trigger.label.startsWith(REFERENCE_PREFIX) && !expected.has(trigger.label))
      changes.push({ kind: 'drop-reference', table, live, trigger });
  }
}

/** Returns the function call of a reference trigger. The plan writes it, and the comparison recognises it. */
export function trackCall(table: DesiredTable, reference: DesiredReference): string {
  const { column, bucket, cascade } = reference;
  const args = [column, bucket, cascade ? 'cascade' : 'keep', ...primaryKeyColumns(table)];
  return `storage.track_ref(${args.map((arg) => quoteLiteral(arg)).join(', ')})`;
}
