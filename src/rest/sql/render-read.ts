// Reading a relation: the page, its number of rows, and, when asked for, the total.
import { quoteIdent } from '../../postgres/sql.ts';
import type { PlannedEmbed, PlanNode } from '../plan/plan.ts';
import type { MediaType } from '../request/media-type.ts';
import type { Count } from '../request/query.ts';
import type { Source } from './embed-source.ts';
import { namesIn, neededColumns, qualifiedName } from './names.ts';
import {
  renderCount,
  renderNumber,
  renderRows,
  renderSelect,
  type OutputForm,
  type Selection,
} from './render-node.ts';
import {
  checkedCount,
  renderBody,
  selectResult,
  type Check,
  type ResultEntry,
  type ResultStatement,
} from './render-result.ts';
import { StatementParts, type Statement } from './statement.ts';
import type { RowColumn } from './text-form.ts';

export type ReadShape = {
  readonly media: MediaType;
  /** HEAD: everything but the body. */
  readonly withBody: boolean;
  readonly limit?: Count | undefined;
  readonly offset?: Count | undefined;
  /** Return whether the default limit left rows out. */
  readonly tellCut?: boolean;
  readonly total?: 'exact' | 'statistic' | undefined;
  readonly withResponseSettings: boolean;
  /** Rows of a function that returns exactly one. */
  readonly isSingleRow?: boolean;
  readonly checks?: readonly Check[];
};

export function renderRead(node: PlanNode, shape: ReadShape): ResultStatement {
  const parts = new StatementParts(namesIn(node));
  return renderResult(node, relationSource(node, shape), shape, { parts });
}

export type RowStatement = Statement & { readonly columns: readonly RowColumn[] };

/** The rows themselves instead of one row with the body; undefined when their columns are not known. */
export function renderReadRows(
  node: PlanNode,
  page: Pick<ReadShape, 'limit' | 'offset'>,
): RowStatement | undefined {
  const parts = new StatementParts(namesIn(node));
  const { text, columns } = renderPage(node, relationSource(node, page), parts, 'texts');
  return columns && columns.length > 0 ? { ...parts.statement(text), columns } : undefined;
}

/** EXPLAIN of the rows that an exact count would count. */
export function renderEstimate(node: PlanNode): Statement {
  const parts = new StatementParts(namesIn(node));
  const source = relationSource(node, {});
  return parts.statement(`EXPLAIN (FORMAT JSON) ${renderRows(node, source, parts)}`);
}

export type ResultParts = {
  readonly parts: StatementParts;
  /** Common table expressions in front of the statement. */
  readonly prefix?: string;
  /** Columns of the result in front of all others. */
  readonly extra?: readonly ResultEntry[];
};

/** Shared by reads, writes with a representation (`with` holds the write) and calls. */
export function renderResult(
  node: PlanNode,
  source: Source,
  shape: ReadShape,
  { parts, prefix = '', extra = [] }: ResultParts,
): ResultStatement {
  const { text: rows } = renderPage(node, source, parts, 'rows');
  const { media, withBody, isSingleRow, checks, total, tellCut } = shape;
  const alias = parts.alias('row');
  const entries: ResultEntry[] = [...extra];
  if (withBody) entries.push(['body', renderBody(media, alias, csvHeader(node), isSingleRow)]);
  entries.push(['page', checkedCount(checks)]);
  if (total === 'exact') entries.push(['total', renderTotal(node, source, parts)]);
  if (total === 'statistic') entries.push(['total', renderStatistic(node)]);
  if (tellCut) entries.push(['cut', renderCut(node, source, parts)]);
  return selectResult(parts, shape, entries, `(${rows}) AS ${quoteIdent(alias)}`, prefix);
}

function relationSource(node: PlanNode, page: Pick<ReadShape, 'limit' | 'offset'>): Source {
  const { relation, name } = node;
  const from = relation ? `${qualifiedName(relation)} AS ${quoteIdent(name)}` : quoteIdent(name);
  return { from, alias: name, where: [], limit: page.limit, offset: page.offset };
}

/**
 * The rows of the page. With an offset PostgreSQL would also compute the embeds of the rows it skips, so an inner query
 * makes the page and the outer one embeds. The inner query lists columns by name: the caller may not be allowed to
 * read all of them.
 */
function renderPage(node: PlanNode, source: Source, parts: StatementParts, form: OutputForm): Selection {
  const inner = source.offset === undefined ? undefined : withoutEmbeds(node);
  if (!inner) return renderSelect(node, source, parts, form);
  const outer: PlanNode = {
    ...node,
    conditions: [],
    embeds: node.embeds.map((embed) => ({ ...embed, join: 'left' })),
  };
  const page = renderSelect(inner, source, parts).text;
  const from = `(${page}) AS ${quoteIdent(source.alias)}`;
  return renderSelect(outer, { from, alias: source.alias, where: [] }, parts, form);
}

/** The columns that the outer query needs; undefined when they are not known. */
function withoutEmbeds(node: PlanNode): PlanNode | undefined {
  if (node.isGrouped || node.embeds.length === 0 || !node.relation) return undefined;
  const needed = neededColumns(node);
  if (!needed || needed.size === 0) return undefined;
  return {
    ...node,
    outputs: [...needed].map((name) => ({
      name,
      field: { path: { column: name, steps: [] }, column: node.relation?.column.get(name) },
      cast: undefined,
      aggregate: undefined,
    })),
    // Inner joins still decide which rows are on the page.
    embeds: innerJoins(node),
  };
}

function innerJoins({ embeds }: PlanNode): PlannedEmbed[] {
  return embeds
    .filter((embed) => embed.join === 'inner')
    .map((embed) => ({ ...embed, node: nothing(embed.node) }));
}

/** The same filters without any output. */
function nothing(node: PlanNode): PlanNode {
  // Without its aggregates it would return different rows.
  if (node.isGrouped) return node;
  return { ...node, outputs: [], hasUnknownColumns: false, embeds: innerJoins(node) };
}

/** A page with fewer rows than its limit is the last one. The total follows from it, so the sub-select never runs. */
function renderTotal(node: PlanNode, source: Source, parts: StatementParts): string {
  const counted = `(${renderCount(node, source, parts)})`;
  const offset = source.offset === undefined ? undefined : renderNumber(source.offset, parts);
  if (source.limit === undefined) {
    if (offset === undefined) return 'count(*)';
    return `CASE WHEN count(*) > 0 THEN ${offset} + count(*) ELSE ${counted} END`;
  }
  const limit = renderNumber(source.limit, parts);
  const isLast = `count(*) < ${limit}`;
  if (offset === undefined) return `CASE WHEN ${isLast} THEN count(*) ELSE ${counted} END`;
  return `CASE WHEN ${isLast} AND count(*) > 0 THEN ${offset} + count(*) ELSE ${counted} END`;
}

function renderStatistic({ relation }: PlanNode): string {
  if (!relation) return 'NULL';
  const name = qualifiedName(relation).replaceAll("'", "''");
  return `(SELECT reltuples::bigint FROM pg_catalog.pg_class WHERE oid = '${name}'::regclass)`;
}

/** Whether there is one more row behind a full page; looked up only when the page is full. */
function renderCut(node: PlanNode, source: Source, parts: StatementParts): string {
  if (source.limit === undefined) return 'false';
  const limit = renderNumber(source.limit, parts);
  const offset = source.offset === undefined ? limit : `${renderNumber(source.offset, parts)} + ${limit}`;
  const rows = `${renderRows(node, source, parts)} LIMIT 1 OFFSET ${offset}`;
  return `CASE WHEN count(*) = ${limit} THEN EXISTS (${rows}) END`;
}

/** Names of the columns in order; undefined when only the run time knows them. */
function csvHeader(node: PlanNode): string[] | undefined {
  if (node.hasUnknownColumns) return undefined;
  const names = node.outputs.map((output) => output.name);
  for (const embed of node.embeds) {
    if (embed.kind === 'embed') {
      if (embed.node.outputs.length > 0 || embed.node.embeds.length > 0) names.push(embed.name);
      continue;
    }
    const inner = csvHeader(embed.node);
    if (!inner) return undefined;
    names.push(...inner);
  }
  return names;
}
