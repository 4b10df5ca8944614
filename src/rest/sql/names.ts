// Names that a plan brings into its statement.
import { quoteIdent } from '../../postgres/sql.ts';
import type { PlanNode, PlannedEmbed } from '../plan/plan.ts';

export function qualifiedName({ schema, name }: { readonly schema: string; readonly name: string }): string {
  return `${quoteIdent(schema)}.${quoteIdent(name)}`;
}

/** Columns of the root that outputs and joins refer to; undefined when only whole rows are safe. */
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

/** Every name of the plan that an invented alias must not take. */
export function namesIn(node: PlanNode): string[] {
  return [
    node.name,
    ...(node.relation ? [node.relation.name] : []),
    ...node.outputs.map((output) => output.name),
    ...node.embeds.flatMap((embed) => [embed.name, ...namesIn(embed.node)]),
  ];
}
