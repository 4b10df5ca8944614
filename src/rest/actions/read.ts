// GET and HEAD of a relation.
import { relationKey } from '../../catalog/catalog.ts';
import { ResultRow, runStatements, usesResponseSettings, type Exchange } from '../exchange.ts';
import type { Exposed } from '../plan/exposed.ts';
import type { ExposedRelation } from '../plan/relation.ts';
import type { PlanNode } from '../plan/plan.ts';
import { originOf, planRead, type PlannedRead } from '../plan/plan-read.ts';
import { isRepeatable } from '../plan/repeatable.ts';
import { closest } from '../plan/suggest.ts';
import { notSingular, relationNotFound, responseTooLarge } from '../problem.ts';
import { contentType, negotiate, type MediaType } from '../request/media-type.ts';
import { DEFAULT_LIMIT, toPage, type Page } from '../request/page.ts';
import { appliedHeader, checkStrict } from '../request/preferences.ts';
import type { Count } from '../request/query.ts';
import { clampEstimate, contentRange, pageStatus } from '../respond/content-range.ts';
import { explainedBody, renderExplain } from './explain.ts';
import { contentLocation, respond } from '../respond/respond.ts';
import { JsonRows, rowFrame, type RowFrame } from '../respond/json-rows.ts';
import {
  renderEstimate,
  renderRead,
  renderReadRows,
  type ResultStatement,
  type RowStatement,
} from '../sql/render-read.ts';
import { LIMIT, OFFSET } from '../request/slots.ts';
import type { Statement } from '../sql/statement.ts';

const LARGEST_LITERAL = 1_000;

type ReadPlan = {
  readonly media: MediaType;
  readonly statement: ResultStatement;
  /** The planner's opinion on the number of rows. */
  readonly estimate: Statement | undefined;
  readonly legacyNames: readonly string[];
  /** One answer at a time, however often it is asked. */
  readonly isRepeatable: boolean;
  /** For long lists: rows one by one. */
  readonly rows: RowPlan | undefined;
};

type RowPlan = {
  readonly statement: RowStatement;
  readonly frame: RowFrame;
  /** Size of the last body, as a guess for the next. */
  lastBytes: number;
};

/** From this many rows on JSON is made here and not by the database. */
const MANY_ROWS = 200;

export async function read(exchange: Exchange): Promise<void> {
  const { request, exposed, plans, reply } = exchange;
  const { parsed, preferences } = request;
  const page = toPage({
    limit: parsed.rootLimit,
    offset: parsed.rootOffset,
    rangeHeader: request.method === 'GET' ? request.headers.range : undefined,
    defaultLimit: DEFAULT_LIMIT,
  });
  const key = `read\n${request.method}\n${request.schema}\n${request.path}\n${pageShape(page)}\n${request.accept ?? ''}\n${request.preferHeader}\n${parsed.shape}`;
  const plan = plans.get(exposed, key, () => prepare(exchange, page));
  const { statement, estimate, media } = plan;
  if (plan.rows) return readRows(exchange, plan, plan.rows, page);
  const statements = estimate ? [statement, estimate] : [statement];
  const results = await runStatements(
    exchange,
    statements,
    { values: parsed.values, page },
    { readOnly: true, repeatable: plan.isRepeatable },
  );
  if (media.kind === 'plan') {
    return respond(
      reply,
      request,
      { status: 200, contentType: contentType(media), body: explainedBody(results[0], media) },
      undefined,
    );
  }

  const row = new ResultRow(results[0], statement.columns);
  const rows = row.number('page') ?? 0;
  if (media.kind === 'singular' && rows !== 1) throw notSingular(rows);
  const isExact = preferences.count === 'exact';
  const estimated = estimate ? plannedRows(results[1]?.rows[0]?.[0]) : row.number('total');
  const total =
    estimated === undefined || isExact ? estimated : clampEstimate(estimated, page.offset, rows, page.limit);
  const location = contentLocation(request);
  const applied = request.preferHeader === '' ? undefined : appliedHeader(preferences, APPLIED);
  const isCut = row.text('cut') === 't';
  if (isCut && exchange.context.dev) sayCut(exchange);
  return respond(
    reply,
    request,
    {
      status: pageStatus(page.offset, rows, total, isExact, {
        ...(location === undefined ? {} : { 'content-location': location }),
        ...(applied === undefined ? {} : { 'preference-applied': applied }),
      }),
      contentType: contentType(media),
      body: row.bytes('body'),
      contentRange: contentRange(page.offset, rows, total),
      contentLocation: location,
      applied,
      warnings: warnings(plan, isCut),
    },
    row,
  );
}

async function readRows(
  { request, reply, ...exchange }: Exchange,
  plan: ReadPlan,
  rows: RowPlan,
  page: Page,
): Promise<void> {
  const { maxResponseBytes } = exchange.context.snapshot().config.server;
  const json = new JsonRows(rows.frame, rows.lastBytes);
  let isTooLarge = false;
  const onRow = (bytes: Buffer, start: number, end: number): void => {
    if (isTooLarge) return;
    json.row(bytes, start, end);
    if (json.length <= maxResponseBytes) return;
    isTooLarge = true;
    // The rows that are still to come would be thrown away.
    exchange.scope.cancel?.();
  };
  try {
    await runStatements(
      { request, reply, ...exchange },
      [rows.statement],
      { values: request.parsed.values, page },
      { readOnly: true, onRow },
    );
  } catch (error) {
    if (!isTooLarge) throw error;
  }
  if (isTooLarge) throw responseTooLarge(maxResponseBytes);
  const body = json.finish();
  rows.lastBytes = body.length + 4096;
  // Not on 'close': a connection that broke may still have a write under way.
  reply.raw.once('finish', () => json.release());
  return respond(
    reply,
    request,
    {
      status: 200,
      contentType: contentType(plan.media),
      body,
      contentRange: contentRange(page.offset, json.count, undefined),
      contentLocation: contentLocation(request),
      applied: request.preferHeader === '' ? undefined : appliedHeader(request.preferences, APPLIED),
      warnings: legacyWarnings(plan.legacyNames),
    },
    undefined,
  );
}

const APPLIED = { resolution: false, missing: false, return: false, maxAffected: false };

function prepare({ request, exposed, context }: Exchange, page: Page): ReadPlan {
  const { parsed, preferences } = request;
  const relation = findRelation(exposed, request.schema, resourceName(request.resource));
  const { node, legacyNames }: PlannedRead = planRead(exposed, originOf(relation), parsed.query);
  const media = negotiate(request.accept, (one) => isServed(one, context.dev));
  checkStrict(preferences);
  // One key has one row: nothing to cut off, and nothing to look for behind it.
  const isOneRow = isByKey(node);
  const isWholePage = isOneRow && page.offset === 0 && page.limit !== 0;
  const { limit, offset } = pageCounts(isWholePage ? { ...page, limit: undefined } : page);
  // Under row security the raw statistic would tell of rows the caller may not see.
  const isWhole =
    node.conditions.length === 0 &&
    node.having.length === 0 &&
    !node.isGrouped &&
    node.embeds.every((embed) => embed.join === 'left') &&
    relation.kind === 'table' &&
    !relation.rowSecurity &&
    relation.estimatedRows >= 0;
  const total =
    preferences.count === 'exact'
      ? 'exact'
      : preferences.count === 'estimated' && isWhole
        ? 'statistic'
        : undefined;
  const statement = renderRead(node, {
    media,
    withBody: request.method === 'GET',
    limit,
    offset,
    tellCut: page.isDefault && !isOneRow,
    total,
    withResponseSettings: usesResponseSettings(exposed),
    isSingleRow: false,
    checks: [],
  });
  const explained = media.kind === 'plan' ? renderExplain(statement, media) : statement;
  const estimate =
    media.kind !== 'plan' && preferences.count !== undefined && total === undefined
      ? renderEstimate(node)
      : undefined;
  const isLong = (page.limit ?? Number.POSITIVE_INFINITY) >= MANY_ROWS && !page.isDefault;
  const rowStatement =
    isLong &&
    request.method === 'GET' &&
    media.kind === 'json' &&
    preferences.count === undefined &&
    !usesResponseSettings(exposed)
      ? renderReadRows(node, { limit, offset })
      : undefined;
  const rows = rowStatement && {
    statement: rowStatement,
    frame: rowFrame(rowStatement.columns),
    lastBytes: 64 * 1024,
  };
  return { media, statement: explained, estimate, legacyNames, isRepeatable: isRepeatable(node), rows };
}

/** Whether the filters fix every column of the primary key, so that there is one row at most. */
function isByKey({ relation, conditions, isGrouped }: PlanNode): boolean {
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

export function isServed(media: MediaType, dev: boolean): boolean {
  switch (media.kind) {
    case 'json':
    case 'stripped':
    case 'singular':
    case 'csv':
      return true;
    case 'plan':
      return dev && media.of.kind !== 'plan' && isServed(media.of, dev);
    case 'geojson':
    case 'openapi':
      return false;
  }
}

export function findRelation(exposed: Exposed, schema: string, name: string): ExposedRelation {
  const relation = exposed.relations.get(relationKey(schema, name));
  if (relation) return relation;
  const names = [...exposed.relations.values()].filter((one) => one.schema === schema).map((one) => one.name);
  throw relationNotFound(schema, name, closest(name, names, 0.6));
}

export function resourceName(resource: Exchange['request']['resource']): string {
  return resource.kind === 'root' ? '' : resource.name;
}

/** Small limits are literals and part of the shape; offsets vary freely and are parameters. */
export function pageShape({ limit, offset, isDefault }: Page): string {
  const shown = limit === undefined ? '' : limit <= LARGEST_LITERAL ? String(limit) : '$';
  return `${shown}${isDefault ? 'd' : ''},${offset > 0 ? '$' : ''}`;
}

export function pageCounts({ limit, offset }: Page): {
  readonly limit: Count | undefined;
  readonly offset: Count | undefined;
} {
  return {
    limit: limit === undefined ? undefined : limit <= LARGEST_LITERAL ? { literal: limit } : { slot: LIMIT },
    offset: offset > 0 ? { slot: OFFSET } : undefined,
  };
}

/** Client libraries do not show headers: whoever develops reads it here. */
function sayCut({ context, request }: Exchange): void {
  context.log.warn(
    `${request.method} ${request.path} was cut at ${DEFAULT_LIMIT} rows: there are more, ask for them with limit`,
  );
}

function warnings({ legacyNames }: ReadPlan, isCut: boolean): string[] {
  const list: string[] = [];
  if (isCut) {
    list.push(
      `299 svc "default limit ${DEFAULT_LIMIT} applied: there are more rows, ask for them with limit or Range"`,
    );
  }
  list.push(...legacyWarnings(legacyNames));
  return list;
}

export function legacyWarnings(names: readonly string[]): string[] {
  return names.map(
    (name) =>
      `299 svc "embed addressed as ${name.replaceAll(/[^\x20-\x7e]|["\\]/g, '?')} although it has an alias"`,
  );
}

/** `Plan Rows` at the top of EXPLAIN (FORMAT JSON). */
function plannedRows(json: Buffer | null | undefined): number | undefined {
  if (!json) return undefined;
  const match = /"Plan Rows": (\d+)/.exec(json.toString('utf8'));
  return match ? Number(match[1]) : undefined;
}
