// Decides whether concurrent requests for the same read can share one response. Reads of stored columns can.
// Functions, computed columns and views may be volatile (`random()`, `gen_random_uuid()`), so each request runs them
// again.
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
      // The list of embeds includes this embed, so it is checked there.
      return true;
  }
}

function isByColumn({ by }: PlannedOrder): boolean {
  return by.kind === 'output' || by.field.column !== undefined;
}
