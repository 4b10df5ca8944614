// Columns that refer to stored objects, and the triggers that follow their values.
import type { DesiredReference, DesiredTable } from '../schema/desired.ts';
import { quoteLiteral } from '../../postgres/sql.ts';
import { REFERENCE_PREFIX, referenceTriggerLabels } from '../schema/label.ts';
import { primaryKeyOf } from '../schema/relation.ts';
import type { TableDiff } from './table-diff.ts';

export function diffReferences({ table, live, key, unsettled, changes }: TableDiff): void {
  const expected = new Set<string>();
  for (const reference of table.references) {
    const labels = referenceTriggerLabels(reference.column);
    expected.add(labels.row).add(labels.truncate);
    const row = live.triggers.find((one) => one.label === labels.row);
    const truncate = live.triggers.some((one) => one.label === labels.truncate && one.enabled);
    const again = [reference.column, ...primaryKeyOf(table)].some((column) =>
      unsettled.has(`${key}.${column}`),
    );
    if (row && again) changes.push({ kind: 'suspend-reference', table, live, reference });
    const isTracked = row?.enabled === true && row.definition.endsWith(trackCall(table, reference));
    if (!isTracked || !truncate || again) changes.push({ kind: 'add-reference', table, live, reference });
  }
  for (const trigger of live.triggers) {
    if (trigger.label.startsWith(REFERENCE_PREFIX) && !expected.has(trigger.label))
      changes.push({ kind: 'drop-reference', table, live, trigger });
  }
}

/** How the trigger of a reference prints its call: the plan writes it, the comparison recognises it. */
export function trackCall(table: DesiredTable, reference: DesiredReference): string {
  const { column, bucket, cascade } = reference;
  const args = [column, bucket, cascade ? 'cascade' : 'keep', ...primaryKeyOf(table)];
  return `storage.track_ref(${args.map((arg) => quoteLiteral(arg)).join(', ')})`;
}
