// Whether concurrent requests for the same read may share one answer. Reads of stored columns may. Functions, computed
// columns and views may be volatile (`random()`, `gen_random_uuid()`), so each request gets an answer of its own.
import type { ExposedRelation } from './relation.ts';
import type { PlanNode, PlannedCondition, PlannedOrder } from './plan.ts';

export function isRepeatable({ relation, outputs, embeds, conditions, orders }: PlanNode): boolean {
  return (
    isStored(relation) &&
    outputs.every(({ field }) => field === '*' || field.column !== undefined) &&
    conditions.every(isOfColumns) &&
    orders.every(isByColumn) &&
    embeds.every(
      ({ relationship: { routine, junction }, node }) =>
        routine === undefined &&
        (junction === undefined || isStored(junction.relation)) &&
        isRepeatable(node),
    )
  );
}

const STORED = new Set(['table', 'partitioned-table', 'materialized-view']);

function isStored(relation: ExposedRelation | null): boolean {
  return relation !== null && STORED.has(relation.kind);
}

function isOfColumns(condition: PlannedCondition): boolean {
  switch (condition.kind) {
    case 'filter':
      return condition.field.column !== undefined;
    case 'group':
      return condition.terms.every(isOfColumns);
    case 'exists':
      // The embed itself is checked with the others.
      return true;
  }
}

function isByColumn({ by }: PlannedOrder): boolean {
  return by.kind === 'output' || by.field.column !== undefined;
}
