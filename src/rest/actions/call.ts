// GET, HEAD and POST of a function.
import { readBody } from '../../http/body.ts';
import { ResultRow, runStatements, usesResponseSettings, type Bindings, type Exchange } from '../exchange.ts';
import type { ExposedRoutine } from '../plan/relation.ts';
import type { CallPlan } from '../plan/plan.ts';
import {
  argumentTexts,
  findRoutine,
  needsRecord,
  originOfCall,
  planCallByGet,
  planCallByPost,
  planSingleObject,
} from '../plan/plan-call.ts';
import { planRead } from '../plan/plan-read.ts';
import { badBody, loginRequired, maxAffectedOnSingle, methodNotForRoutine, notSingular } from '../problem.ts';
import { bodyFormat, EMPTY_OBJECT, readPayload, type Payload } from '../request/body.ts';
import { checkEncoding, decodeBody } from '../request/content-encoding.ts';
import { contentType, negotiate, type MediaType } from '../request/media-type.ts';
import { toPage, type Page } from '../request/page.ts';
import { appliedHeader, checkStrict } from '../request/preferences.ts';
import type { Query } from '../request/query.ts';
import { contentRange, pageStatus } from '../respond/content-range.ts';
import { respond } from '../respond/respond.ts';
import { renderCall } from '../sql/render-call.ts';
import type { ResultStatement } from '../sql/render-read.ts';
import type { Check } from '../sql/render-result.ts';
import { explainedBody, renderExplain } from './explain.ts';
import { isServed, legacyWarnings, pageCounts, pageShape, resourceName } from './read.ts';

type PreparedCall = {
  readonly call: CallPlan;
  readonly media: MediaType;
  readonly statement: ResultStatement;
  readonly isReadOnly: boolean;
  readonly applied: string | undefined;
  readonly warnings: readonly string[];
};

export async function call(exchange: Exchange): Promise<void> {
  const { request, exposed, plans, reply } = exchange;
  const { parsed, method } = request;
  const page = toPage({
    limit: parsed.rootLimit,
    offset: parsed.rootOffset,
    rangeHeader: method === 'GET' ? request.headers.range : undefined,
    defaultLimit: undefined,
  });
  checkRoutine(exchange);
  const payload = method === 'POST' ? await readCallBody(exchange) : EMPTY_OBJECT;
  const routine = findRoutine(exposed, request.schema, resourceName(request.resource));
  const bodyShape = `${routine && needsRecord(routine, payload) ? 'r' : ''}${JSON.stringify(payload.keys)}`;
  const key = `call\n${method}\n${request.schema}\n${request.path}\n${pageShape(page)}\n${request.accept ?? ''}\n${request.preferHeader}\n${bodyShape}\n${parsed.shape}`;
  const plan = plans.get(exposed, key, () => prepare(exchange, payload, page));
  const bindings: Bindings = {
    values: parsed.values,
    page,
    body: payload.bytes,
    fields: plan.call.fromBody ? [] : argumentTexts(plan.call, payload),
  };
  const [result] = await runStatements(exchange, [plan.statement], bindings, { readOnly: plan.isReadOnly });
  const { media } = plan;
  if (media.kind === 'plan') {
    const body = explainedBody(result, media);
    return respond(reply, request, { status: 200, contentType: contentType(media), body }, undefined);
  }
  const row = new ResultRow(result, plan.statement.columns);
  const rows = row.number('page') ?? 0;
  const { isSetOf, returns } = plan.call.routine;
  if (returns.kind === 'void' && !isSetOf) {
    return respond(
      reply,
      request,
      {
        status: 204,
        contentRange: contentRange(0, 1, request.preferences.count === undefined ? undefined : 1),
        applied: plan.applied,
        warnings: plan.warnings,
      },
      row,
    );
  }
  if (media.kind === 'singular' && isSetOf && rows !== 1) throw notSingular(rows);
  const total = request.preferences.count === undefined ? undefined : (row.number('total') ?? rows);
  return respond(
    reply,
    request,
    {
      status: pageStatus(
        page.offset,
        rows,
        total,
        true,
        plan.applied === undefined ? {} : { 'preference-applied': plan.applied },
      ),
      contentType: contentType(media),
      body: row.bytes('body'),
      contentRange: contentRange(page.offset, rows, total),
      applied: plan.applied,
      warnings: plan.warnings,
    },
    row,
  );
}

/** Before the body is read: what the method and the caller alone decide. */
function checkRoutine({ request, exposed, caller }: Exchange): void {
  const routine = findRoutine(exposed, request.schema, resourceName(request.resource));
  if (!routine) return;
  if (routine.volatility === 'volatile' && request.method !== 'POST') {
    throw methodNotForRoutine(request.method, 'OPTIONS,POST');
  }
  if (routine.authRequired && caller.role !== 'service_role' && caller.user === null) throw loginRequired();
}

async function readCallBody({ request, body, context }: Exchange): Promise<Payload> {
  const { headers } = request;
  const maxBytes = context.snapshot().config.server.maxBodyBytes;
  const encoding = headers['content-encoding'];
  checkEncoding(encoding);
  const received = await readBody(body, maxBytes, headers['content-length']);
  const bytes = encoding === undefined ? received : await decodeBody(received, encoding, maxBytes);
  if (bytes.length === 0) return EMPTY_OBJECT;
  const format = bodyFormat(headers['content-type']);
  if (request.preferences.singleObject && format === 'json') {
    // Any JSON will do; PostgreSQL reads it.
    return { ...EMPTY_OBJECT, bytes };
  }
  const payload = readPayload(bytes, format);
  if (!payload.isArray) return payload;
  if (format === 'csv' && payload.rows > 0) return firstRow(payload);
  throw badBody(
    'The arguments of a function are one JSON object',
    'Send an object with one key per argument.',
  );
}

function firstRow({ bytes }: Payload): Payload {
  const rows: unknown = JSON.parse(bytes.toString('utf8'));
  const first: unknown = Array.isArray(rows) ? rows[0] : undefined;
  return readPayload(Buffer.from(JSON.stringify(first)), 'json');
}

function prepare({ request, exposed, context }: Exchange, payload: Payload, page: Page): PreparedCall {
  const { parsed, preferences, schema, method } = request;
  const name = resourceName(request.resource);
  const isPost = method === 'POST';
  let plan: CallPlan;
  let query: Query = parsed.query;
  if (!isPost) {
    ({ call: plan, query } = planCallByGet(exposed, schema, name, query, parsed.values));
  } else if (preferences.singleObject) {
    plan = planSingleObject(exposed, schema, name);
  } else {
    plan = planCallByPost(exposed, schema, name, query.columns ?? payload.keys, payload);
  }
  const { routine } = plan;
  const { node, legacyNames } = planRead(exposed, originOfCall(exposed, routine), query);
  const media = negotiate(request.accept, (one) => isServed(one, context.dev));
  checkStrict(preferences);
  const checksAffected = preferences.maxAffected !== undefined && preferences.handling !== 'lenient';
  if (checksAffected && !routine.isSetOf) throw maxAffectedOnSingle();
  const isReadOnly = routine.volatility !== 'volatile';
  const { limit, offset } = pageCounts(page);
  const statement = renderCall(plan, node, {
    media,
    withBody: method !== 'HEAD',
    limit,
    offset,
    tellCut: false,
    total: preferences.count === undefined || !routine.isSetOf ? undefined : 'exact',
    withResponseSettings: usesResponseSettings(exposed),
    isSingleRow: false,
    checks: checksOf(routine, media, checksAffected ? preferences.maxAffected : undefined, isReadOnly),
  });
  return {
    call: plan,
    media,
    statement: media.kind === 'plan' ? renderExplain(statement, media) : statement,
    isReadOnly,
    applied:
      request.preferHeader === ''
        ? undefined
        : appliedHeader(preferences, {
            resolution: false,
            missing: false,
            return: false,
            maxAffected: preferences.handling === 'strict',
          }),
    warnings: legacyWarnings(legacyNames),
  };
}

/** What has been written is undone when the result is not what was asked for. */
function checksOf(
  routine: ExposedRoutine,
  media: MediaType,
  maxAffected: number | undefined,
  isReadOnly: boolean,
): Check[] {
  const checks: Check[] = [];
  if (media.kind === 'singular' && routine.isSetOf && !isReadOnly) checks.push({ kind: 'singular' });
  if (maxAffected !== undefined) checks.push({ kind: 'max-affected', most: maxAffected });
  return checks;
}
