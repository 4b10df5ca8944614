// The names a plan uses: qualified relations, the columns it needs, and names that aliases must avoid.
import { quoteIdent } from '../../postgres/sql.ts';
import type { PlanNode, PlannedEmbed } from '../plan/plan.ts';

export function qualifiedName({ schema, name }: { readonly schema: string; readonly name: string }): string {
  return `${quoteIdent(schema)}.${quoteIdent(name)}`;
}

/** Columns of the root that outputs, orders and joins use; undefined when they are not all known. */
export function neededColumns(node: PlanNode): ReadonlySet<string> | undefined {
  const needed = new Set<string>();
  const add = (name: string): boolean => {
    needed.add(name);
    return node.relation?.column.has(name) ?? false;
  };
  let known = !node.hasUnknownColumns;
  for (const output of node.outputs) {
    if (output.field !== '*') known = add(output.field.path.column) && known;
  }
  for (const order of node.orders) {
    if (order.by.kind === 'field') known = add(order.by.field.path.column) && known;
    if (order.by.kind === 'related') known = addJoin(order.by.embed, add) && known;
  }
  for (const embed of node.embeds) known = addJoin(embed, add) && known;
  return known ? needed : undefined;
}

function addJoin({ relationship }: PlannedEmbed, add: (name: string) => boolean): boolean {
  if (relationship.routine) return false;
  const pairs = relationship.junction?.sourceColumns ?? relationship.columns;
  return pairs.map(([source]) => add(source)).every(Boolean);
}

/** All names in the plan; a generated alias must not equal one of them. */
export function namesIn(node: PlanNode): string[] {
  return [
    node.name,
    ...(node.relation ? [node.relation.name] : []),
    ...node.outputs.map((output) => output.name),
    ...node.embeds.flatMap((embed) => [embed.name, ...namesIn(embed.node)]),
  ];
}
