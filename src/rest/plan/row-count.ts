// What is known about the number of rows before the statement runs.
import type { PlanNode } from './plan.ts';
import type { ExposedRelation } from './relation.ts';

/** Whether the filters fix every column of the primary key, so that there is one row at most. */
export function isByKey({ relation, conditions, isGrouped }: PlanNode): boolean {
  // A view may show the row of one key several times.
  if (isGrouped || relation?.kind !== 'table' || relation.primaryKey.length === 0) return false;
  const fixed = new Set<string>();
  for (const condition of conditions) {
    if (condition.kind !== 'filter' || condition.negated || condition.field.path.steps.length > 0) continue;
    const { operation } = condition;
    if (operation.kind !== 'compare' || operation.operator !== 'eq' || operation.quantifier) continue;
    fixed.add(condition.field.path.column);
  }
  return relation.primaryKey.every((column) => fixed.has(column));
}

/** Whether the statistic of the table is an estimate of these rows; under row security it would count hidden ones. */
export function isWholeTable(node: PlanNode, relation: ExposedRelation): boolean {
  return (
    node.conditions.length === 0 &&
    node.having.length === 0 &&
    !node.isGrouped &&
    node.embeds.every((embed) => embed.join === 'left') &&
    relation.kind === 'table' &&
    !relation.rowSecurity &&
    relation.estimatedRows >= 0
  );
}
