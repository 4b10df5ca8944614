// One node of a plan as a SELECT. Embeds are correlated sub-selects in the target list: PostgreSQL evaluates
// them after sorting and cutting, so they cost what the page costs and not what the table costs, and they cannot
// change the order of rows. Inner joins and null tests are EXISTS, which never multiplies rows either.
import { quoteIdent } from '../../postgres/sql.ts';
import type {
  FieldOutput,
  PlanNode,
  PlannedCondition,
  PlannedEmbed,
  PlannedHaving,
  PlannedOrder,
} from '../plan/plan.ts';
import { samePath } from '../plan/plan.ts';
import { isToOne } from '../plan/relationship.ts';
import type { Aggregate, Count, FieldPath } from '../request/query.ts';
import { embedSource, type Source } from './embed-source.ts';
import { isSearchVector, renderCast, renderField, renderOperation, renderOrder } from './expressions.ts';
import type { StatementParts } from './statement.ts';
import { findTextForm, type RowColumn, type TextForm } from './text-form.ts';

/** A single column of a node's result, including columns of spreads. */
type OutputColumn = {
  readonly name: string;
  readonly expression: string;
  readonly aggregate: Aggregate | undefined;
  /** Undefined when only PostgreSQL knows the JSON of it. */
  readonly form: TextForm | undefined;
  /** Source of a column that comes from a spread. */
  readonly lifted: { readonly node: PlanNode; readonly path: FieldPath } | undefined;
};

/**
 * `rows`: the columns' own types, under their names; PostgreSQL makes the JSON. `texts`: columns whose text is not
 * (nearly) JSON are converted with to_json; this process makes the JSON of the rows.
 */
export type OutputForm = 'rows' | 'texts';

export type Selection = {
  readonly text: string;
  /** Undefined when only the run time knows them. */
  readonly columns: readonly RowColumn[] | undefined;
};

/** `SELECT … FROM … WHERE …`, complete with grouping, order and page. */
export function renderSelect(
  node: PlanNode,
  source: Source,
  parts: StatementParts,
  form: OutputForm = 'rows',
): Selection {
  const columns = outputColumns(node, source.alias, parts, node.isGrouped);
  const rest = ` FROM ${source.from}${tail(node, source, columns, parts, true)}`;
  const described = node.hasUnknownColumns
    ? undefined
    : columns.map((column) => ({ name: column.name, form: column.form ?? 'json' }));
  if (form === 'texts' && !node.isGrouped) {
    const select = columns.map((column) => inForm(finalExpression(column), column));
    return { text: `SELECT ${select.join(', ')}${rest}`, columns: described };
  }
  const select = [
    ...columns.map((column) => `${finalExpression(column)} AS ${quoteIdent(column.name)}`),
    ...(node.hasUnknownColumns ? [`${quoteIdent(source.alias)}.*`] : []),
  ];
  const text = `SELECT ${select.join(', ')}${rest}`;
  if (form === 'rows') return { text, columns: described };
  // Groups are made before JSON, because json has no equality. By position: two columns may have the same name.
  const groups = quoteIdent(parts.alias('groups'));
  const names = columns.map((_, index) => `"c${index}"`);
  const shown = columns.map((column, index) => inForm(`${groups}.${names[index] ?? ''}`, column));
  return {
    text: `SELECT ${shown.join(', ')} FROM (${text}) AS ${groups}(${names.join(', ')})`,
    columns: described,
  };
}

function inForm(expression: string, { form }: OutputColumn): string {
  return form === undefined ? `to_json(${expression})` : expression;
}

/** How many rows `renderSelect` would give without its page. */
export function renderCount(node: PlanNode, source: Source, parts: StatementParts): string {
  if (!node.isGrouped) return `SELECT count(*) FROM ${source.from}${renderWhere(node, source, parts)}`;
  return `SELECT count(*) FROM (${renderRows(node, source, parts)}) AS ${quoteIdent(parts.alias('groups'))}`;
}

/** The rows without their columns, to count or estimate them, or to look for one more. */
export function renderRows(node: PlanNode, source: Source, parts: StatementParts): string {
  if (!node.isGrouped) return `SELECT 1 FROM ${source.from}${renderWhere(node, source, parts)}`;
  const columns = outputColumns(node, source.alias, parts, true);
  const select = columns.map((column) => finalExpression(column)).join(', ');
  return `SELECT ${select} FROM ${source.from}${tail(node, source, columns, parts, false)}`;
}

function tail(
  node: PlanNode,
  source: Source,
  columns: readonly OutputColumn[],
  parts: StatementParts,
  paged: boolean,
): string {
  let text = renderWhere(node, source, parts);
  if (node.isGrouped) {
    // Ordinals, because a name would be looked up among the input columns first.
    const keys = columns.flatMap((column, index) => (column.aggregate ? [] : [index + 1]));
    if (keys.length > 0) text += ` GROUP BY ${keys.join(', ')}`;
    if (node.having.length > 0) {
      text += ` HAVING ${node.having.map((term) => renderHaving(term, columns, parts)).join(' AND ')}`;
    }
  }
  if (!paged) return text;
  const orders = renderOrders(node, source.alias, parts, columns);
  if (orders.length > 0) text += ` ORDER BY ${orders.join(', ')}`;
  return text + renderLimits(source, parts);
}

export function renderLimits(
  { limit, offset }: Pick<Source, 'limit' | 'offset'>,
  parts: StatementParts,
): string {
  return (
    (limit === undefined ? '' : ` LIMIT ${renderNumber(limit, parts)}`) +
    (offset === undefined ? '' : ` OFFSET ${renderNumber(offset, parts)}`)
  );
}

export function renderNumber(count: Count, parts: StatementParts): string {
  return 'literal' in count ? String(count.literal) : `${parts.param(count.slot)}::bigint`;
}

function renderWhere(node: PlanNode, source: Source, parts: StatementParts): string {
  const where = [
    ...source.where,
    ...node.conditions.map((condition) => renderCondition(condition, source.alias, parts)),
    // `!inner`: the parent stays only if the embed has a row, whatever page of it is shown.
    ...node.embeds
      .filter((embed) => embed.join === 'inner')
      .map((embed) => renderExists(embed, source.alias, parts)),
  ];
  return where.length === 0 ? '' : ` WHERE ${where.join(' AND ')}`;
}

export function renderCondition(condition: PlannedCondition, alias: string, parts: StatementParts): string {
  switch (condition.kind) {
    case 'filter': {
      const { field, operation, negated } = condition;
      return renderOperation(renderField(field, alias), operation, negated, parts, isSearchVector(field));
    }
    case 'exists': {
      const text = renderExists(condition.embed, alias, parts);
      return condition.negated ? `NOT ${text}` : text;
    }
    case 'group': {
      const terms = condition.terms.map((term) => renderCondition(term, alias, parts));
      const text = `(${terms.join(condition.joiner === 'or' ? ' OR ' : ' AND ')})`;
      return condition.negated ? `NOT ${text}` : text;
    }
  }
}

function renderHaving(term: PlannedHaving, columns: readonly OutputColumn[], parts: StatementParts): string {
  if (term.kind === 'group') {
    const terms = term.terms.map((child) => renderHaving(child, columns, parts));
    const text = `(${terms.join(term.joiner === 'or' ? ' OR ' : ' AND ')})`;
    return term.negated ? `NOT ${text}` : text;
  }
  // HAVING cannot see output names, so the expression is written again. Aggregates win over group columns.
  const column =
    columns.find((candidate) => candidate.name === term.name && candidate.aggregate) ??
    columns.find((candidate) => candidate.name === term.name);
  const expression = column ? finalExpression(column) : 'NULL';
  return renderOperation(expression, term.operation, term.negated, parts);
}

/** `columns` of the same SELECT: groups can only be ordered by what is selected. */
function renderOrders(
  node: PlanNode,
  alias: string,
  parts: StatementParts,
  columns: readonly OutputColumn[],
): string[] {
  return node.orders.flatMap((order) => {
    const place = outputPlace(order, node, columns);
    if (place !== undefined) return [renderOrder(String(place), order)];
    switch (order.by.kind) {
      case 'field':
        return [renderOrder(renderField(order.by.field, alias), order)];
      case 'output':
        // The parent makes the groups of a spread.
        return [];
      case 'related': {
        const source = embedSource(order.by.embed, alias, parts);
        const field = renderField(order.by.field, source.alias);
        return [renderOrder(`(${renderScalar(order.by.embed.node, source, field, parts)})`, order)];
      }
    }
  });
}

/** The number of the output column that an order means; a name would be looked up among the input columns first. */
function outputPlace(
  { by }: PlannedOrder,
  { isGrouped }: PlanNode,
  columns: readonly OutputColumn[],
): number | undefined {
  if (by.kind === 'field' || (by.kind === 'related' && !isGrouped)) return undefined;
  const index = columns.findIndex((column) =>
    by.kind === 'output'
      ? column.name === by.name && (column.aggregate !== undefined) === by.isAggregate
      : column.lifted?.node === by.embed.node &&
        column.aggregate === undefined &&
        samePath(column.lifted.path, by.field.path),
  );
  return index < 0 ? undefined : index + 1;
}

function outputColumns(
  node: PlanNode,
  alias: string,
  parts: StatementParts,
  comparable: boolean,
): OutputColumn[] {
  const columns: OutputColumn[] = node.outputs.map((output) => ({
    name: output.name,
    expression: outputExpression(output, alias),
    aggregate: output.aggregate,
    form: findTextForm(output),
    lifted: undefined,
  }));
  for (const embed of node.embeds) {
    if (embed.kind === 'spread') columns.push(...spreadColumns(embed, alias, parts, comparable));
    else if (hasOutput(embed.node)) columns.push(embedColumn(embed, alias, parts, comparable));
  }
  return columns;
}

/** Returns false for an embed that selects nothing and only filters. Embeds in it count as output, as in PostgREST. */
function hasOutput({ outputs, hasUnknownColumns, embeds }: PlanNode): boolean {
  return outputs.length > 0 || hasUnknownColumns || embeds.length > 0;
}

function outputExpression({ field, cast }: FieldOutput, alias: string): string {
  return field === '*' ? '*' : renderCast(renderField(field, alias), cast);
}

function finalExpression({ expression, aggregate }: OutputColumn): string {
  if (!aggregate) return expression;
  return renderCast(`${aggregate.name}(${expression})`, aggregate.cast);
}

/** `comparable`: as jsonb, because json has no equality to group by. */
function embedColumn(
  embed: PlannedEmbed,
  alias: string,
  parts: StatementParts,
  comparable: boolean,
): OutputColumn {
  const source = embedSource(embed, alias, parts);
  const row = quoteIdent(parts.alias('row'));
  const rows = `(${renderSelect(embed.node, source, parts).text}) AS ${row}`;
  const expression = isToOne(embed.relationship)
    ? `(SELECT ${comparable ? 'to_jsonb' : 'row_to_json'}(${row}) FROM ${rows})`
    : `(SELECT coalesce(${comparable ? 'jsonb_agg' : 'json_agg'}(${row}), '[]') FROM ${rows})`;
  return { name: embed.name, expression, aggregate: undefined, form: 'json', lifted: undefined };
}

/** Each column of a spread becomes a column of the parent: a value when to-one, an array when to-many. */
function spreadColumns(
  embed: PlannedEmbed,
  alias: string,
  parts: StatementParts,
  comparable: boolean,
): OutputColumn[] {
  const { node } = embed;
  const isOne = isToOne(embed.relationship);
  const source = embedSource(embed, alias, parts);
  return outputColumns(node, source.alias, parts, comparable).map((column, index) => {
    const { name, expression, aggregate } = column;
    if (isOne) {
      const value = expression === '*' ? '1' : expression;
      const field = node.outputs[index]?.field;
      const lifted = field === undefined || field === '*' ? undefined : { node, path: field.path };
      return { ...column, expression: `(${renderScalar(node, source, value, parts)})`, aggregate, lifted };
    }
    const item = quoteIdent(parts.alias('item'));
    const value = renderScalar(node, source, `${expression} AS "value"`, parts, true);
    const collect = comparable ? 'jsonb_agg' : 'json_agg';
    return {
      name,
      expression: `(SELECT coalesce(${collect}(${item}."value"), '[]') FROM (${value}) AS ${item})`,
      aggregate: undefined,
      form: 'json',
      lifted: undefined,
    };
  });
}

function renderScalar(
  node: PlanNode,
  source: Source,
  expression: string,
  parts: StatementParts,
  aligned = false,
): string {
  let text = `SELECT ${expression} FROM ${source.from}${renderWhere(node, source, parts)}`;
  const orders = renderOrders(node, source.alias, parts, []);
  // Arrays of one spread are made by separate sub-selects and must be in one order.
  if (aligned) {
    for (const key of node.relation?.primaryKey ?? []) {
      orders.push(`${quoteIdent(source.alias)}.${quoteIdent(key)}`);
    }
  }
  if (orders.length > 0) text += ` ORDER BY ${orders.join(', ')}`;
  return text + renderLimits(source, parts);
}

/** Whether the embed has a row in the answer. A spread is not grouped here: its parent does that. */
function renderExists(embed: PlannedEmbed, alias: string, parts: StatementParts): string {
  const source = embedSource(embed, alias, parts);
  const { limit, offset } = source;
  const none = limit !== undefined && 'literal' in limit && limit.literal === 0 ? limit : undefined;
  const rows = renderRows(
    embed.kind === 'spread' ? { ...embed.node, isGrouped: false } : embed.node,
    source,
    parts,
  );
  return `EXISTS (${rows}${renderLimits({ limit: none, offset }, parts)})`;
}
