// The number of rows, as far as it is known before the statement runs.
import type { PlanNode } from './plan.ts';
import type { ExposedRelation } from './relation.ts';

/** Whether the filters fix every column of the primary key, so that at most one row matches. */
export function isByKey({ relation, conditions, isGrouped }: PlanNode): boolean {
  // A view may contain several rows for one key.
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

/** Whether the table statistic estimates these rows. With row security it would count hidden rows. */
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
