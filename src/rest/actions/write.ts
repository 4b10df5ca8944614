// POST, PATCH, PUT and DELETE of a relation.
import { unreachable } from '../../lib/assert.ts';
import { readBody } from '../../http/body.ts';
import { ResultRow, runStatements, usesResponseSettings, type Exchange } from '../exchange.ts';
import { originOf, planRead } from '../plan/plan-read.ts';
import { planDelete, planInsert, planPut, planUpdate, type WritePlan } from '../plan/plan-write.ts';
import type { ExposedRelation } from '../plan/relation.ts';
import { invalidJson, pageOnPut } from '../problem.ts';
import { bodyFormat, EMPTY_OBJECT, readPayload, type Payload } from '../request/body.ts';
import { checkEncoding, decodeBody } from '../request/content-encoding.ts';
import { contentType, negotiate, type MediaType } from '../request/media-type.ts';
import { appliedHeader, checkStrict, type Preferences } from '../request/preferences.ts';
import { respond } from '../respond/respond.ts';
import { renderWrite } from '../sql/render-write.ts';
import type { ResultStatement } from '../sql/render-read.ts';
import type { Check } from '../sql/render-result.ts';
import { explainedBody, renderExplain } from './explain.ts';
import { findRelation, isServed, legacyWarnings, resourceName } from './read.ts';

type PreparedWrite = {
  readonly relation: ExposedRelation;
  readonly media: MediaType;
  readonly statement: ResultStatement;
  readonly applied: string | undefined;
  readonly warnings: readonly string[];
};

export async function write(exchange: Exchange, action: WriteAction): Promise<void> {
  const { request, exposed, plans, reply } = exchange;
  const { parsed, preferences } = request;
  if (action === 'put' && (parsed.rootLimit !== undefined || parsed.rootOffset !== undefined)) {
    throw pageOnPut();
  }
  const payload = await readWriteBody(exchange, action);
  const bodyShape = `${payload.isArray ? 'a' : 'o'}${payload.uniform ? '' : 'u'}${payload.rows > 1 ? '+' : ''}${JSON.stringify(payload.keys)}`;
  const key = `write\n${request.method}\n${request.schema}\n${request.path}\n${request.accept ?? ''}\n${request.preferHeader}\n${bodyShape}\n${parsed.shape}`;
  const plan = plans.get(exposed, key, () => prepare(exchange, action, payload));
  const [result] = await runStatements(
    exchange,
    [plan.statement],
    { values: parsed.values, body: payload.bytes },
    { readOnly: false },
  );
  if (plan.media.kind === 'plan') {
    const body = explainedBody(result, plan.media);
    return respond(reply, request, { status: 200, contentType: contentType(plan.media), body }, undefined);
  }
  const row = new ResultRow(result, plan.statement.columns);
  const affected = row.number('page') ?? affectedRows(result?.tag ?? '');
  const isShown = preferences.return === 'representation';
  return respond(
    reply,
    request,
    {
      status: statusOf(exchange, action, payload, row),
      contentType: isShown ? contentType(plan.media) : undefined,
      body: isShown ? row.bytes('body') : undefined,
      contentRange: rangeOf(action, affected, preferences),
      location: affected === 1 ? locationOf(plan.relation, row) : undefined,
      applied: plan.applied,
      warnings: plan.warnings,
    },
    row,
  );
}

async function readWriteBody({ request, body, context }: Exchange, action: WriteAction): Promise<Payload> {
  const { headers } = request;
  const maxBytes = context.snapshot().config.server.maxBodyBytes;
  // Also for DELETE, whose body means nothing: unread bytes would be taken for the next request.
  const encoding = headers['content-encoding'];
  if (action !== 'delete') checkEncoding(encoding);
  const received = await readBody(body, maxBytes, headers['content-length']);
  if (action === 'delete') return EMPTY_OBJECT;
  const bytes = encoding === undefined ? received : await decodeBody(received, encoding, maxBytes);
  const format = bodyFormat(headers['content-type']);
  if (bytes.length === 0) throw invalidJson();
  return readPayload(bytes, format);
}

function prepare(
  { request, exposed, context }: Exchange,
  action: WriteAction,
  payload: Payload,
): PreparedWrite {
  const { parsed, preferences } = request;
  const relation = findRelation(exposed, request.schema, resourceName(request.resource));
  const { query } = parsed;
  const shownQuery =
    action === 'insert' ? { ...query, conditions: query.conditions.filter(isEmbedded) } : query;
  const { node, legacyNames } = planRead(exposed, originOf(relation), shownQuery);
  const plan = planOf(action, relation, query, payload, preferences);
  checkStrict(preferences);
  const media = negotiate(request.accept, (one) => isServed(one, context.dev));
  const statement = renderWrite(relation, plan, node, {
    media,
    withBody: preferences.return === 'representation',
    limit: undefined,
    offset: undefined,
    tellCut: false,
    total: undefined,
    withResponseSettings: usesResponseSettings(exposed),
    isSingleRow: false,
    checks: checksOf(action, media, preferences),
    withLocation:
      action === 'insert' && preferences.return === 'headers-only' && relation.primaryKey.length > 0,
    countInserted: plan.kind === 'insert' && plan.conflict?.action === 'merge',
  });
  return {
    relation,
    media,
    statement: media.kind === 'plan' ? renderExplain(statement, media) : statement,
    applied:
      request.preferHeader === ''
        ? undefined
        : appliedHeader(preferences, {
            resolution: plan.kind === 'insert' && plan.conflict !== undefined && action === 'insert',
            missing: action === 'insert' || action === 'update',
            return: true,
            maxAffected: action !== 'put' && preferences.handling === 'strict',
          }),
    warnings: legacyWarnings(legacyNames),
  };
}

export type WriteAction = 'insert' | 'update' | 'put' | 'delete';

function isEmbedded({ path }: { readonly path: readonly string[] }): boolean {
  return path.length > 0;
}

function planOf(
  action: WriteAction,
  relation: ExposedRelation,
  query: Parameters<typeof planInsert>[1],
  payload: Payload,
  preferences: Preferences,
): WritePlan {
  switch (action) {
    case 'insert':
      return planInsert(relation, query, payload, preferences);
    case 'update':
      return planUpdate(relation, query, payload, preferences);
    case 'put':
      return planPut(relation, query, payload);
    case 'delete':
      return planDelete(query);
    default:
      return unreachable(action);
  }
}

function checksOf(action: string, media: MediaType, preferences: Preferences): Check[] {
  const checks: Check[] = [];
  if (action === 'put') checks.push({ kind: 'put' });
  if (media.kind === 'singular') checks.push({ kind: 'singular' });
  if (preferences.maxAffected !== undefined && preferences.handling !== 'lenient') {
    checks.push({ kind: 'max-affected', most: preferences.maxAffected });
  }
  return checks;
}

/** `INSERT 0 3`, `UPDATE 3`, `DELETE 3`: the number is the last word. */
function affectedRows(tag: string): number {
  const number = Number(tag.slice(tag.lastIndexOf(' ') + 1));
  return tag.startsWith('SELECT') || Number.isNaN(number) ? 0 : number;
}

function statusOf({ request }: Exchange, action: WriteAction, payload: Payload, row: ResultRow): number {
  const isShown = request.preferences.return === 'representation';
  switch (action) {
    case 'insert': {
      if (request.preferences.resolution !== 'merge-duplicates') return 201;
      const inserted = row.text('inserted');
      if (payload.rows === 0) return 200;
      return inserted === undefined || Number(inserted) > 0 ? 201 : 200;
    }
    case 'put':
      if (!isShown) return 204;
      return Number(row.text('inserted') ?? '0') > 0 ? 201 : 200;
    case 'update':
    case 'delete':
      return isShown ? 200 : 204;
    default:
      return unreachable(action);
  }
}

function rangeOf(action: WriteAction, affected: number, { count }: Preferences): string | undefined {
  const total = count === undefined ? '*' : String(affected);
  switch (action) {
    case 'put':
      return undefined;
    case 'update':
      return `${affected > 0 ? `0-${affected - 1}` : '*'}/${total}`;
    case 'insert':
    case 'delete':
      return `*/${total}`;
    default:
      return unreachable(action);
  }
}

function locationOf(relation: ExposedRelation, row: ResultRow): string | undefined {
  const json = row.text('location');
  if (json === undefined) return undefined;
  const values: unknown = JSON.parse(json);
  if (!Array.isArray(values)) return undefined;
  const pairs = relation.primaryKey.map((key, index) => {
    const value: unknown = values[index];
    const test = typeof value === 'string' ? `eq.${value}` : 'is.null';
    return `${encodeURIComponent(key)}=${encodeURIComponent(test)}`;
  });
  return `/${encodeURIComponent(relation.name)}?${pairs.join('&')}`;
}
