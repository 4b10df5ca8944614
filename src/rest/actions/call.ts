// GET, HEAD and POST of a function.
import type { RoutineArg } from '../../catalog/catalog.ts';
import type { Exchange } from '../exchange.ts';
import { findOverloads } from '../plan/exposed.ts';
import type { CallPlan, PlanNode } from '../plan/plan.ts';
import type { ExposedRoutine } from '../plan/relation.ts';
import { isByEmptyName, wholeBodyArgument } from '../plan/whole-body.ts';
import {
  argumentTexts,
  chooseByGet,
  chooseByPost,
  needsRecord,
  originOfCall,
  planCallByGet,
  planCallByPost,
  planSingleObject,
} from '../plan/plan-call.ts';
import { planRead } from '../plan/plan-read.ts';
import { badBody, loginRequired, maxAffectedOnSingle, methodNotForRoutine } from '../problem.ts';
import { readBytes } from '../request/body-bytes.ts';
import { bodyFormat, EMPTY_OBJECT, readPayload, type Payload, wholeBody } from '../request/body.ts';
import { readJsonBody } from '../request/json-keys.ts';
import { type MediaType, negotiateRows } from '../request/media-type.ts';
import { pageCounts, toPage } from '../request/page.ts';
import { affectedLimit, appliedHeader, checkGuards, checkStrict } from '../request/preferences.ts';
import type { Query } from '../request/query.ts';
import { contentRange, pageAnswer } from '../respond/page-answer.ts';
import { legacyWarnings } from '../respond/warnings.ts';
import { renderCall, type CallShape } from '../sql/render-call.ts';
import { affectedChecks } from '../sql/render-result.ts';
import type { Action, Plan } from './action.ts';

type PlannedCall = Plan & {
  readonly call: CallPlan;
  readonly node: PlanNode;
  readonly shape: CallShape;
  readonly applied: string | undefined;
  readonly warnings: readonly string[];
};

export const CALL: Action<PlannedCall> = {
  page({ request, exposed, caller }) {
    const { parsed, method, headers, schema, resource } = request;
    checkGuards(request.preferences);
    const page = toPage({
      limit: parsed.rootLimit,
      offset: parsed.rootOffset,
      rangeHeader: method === 'GET' ? headers.range : undefined,
      defaultLimit: undefined,
    });
    const overloads = findOverloads(exposed, schema, resource.name);
    const routine =
      method === 'POST' && overloads.length > 1
        ? undefined
        : chooseByGet(exposed, schema, resource.name, parsed.query);
    if (routine?.volatility === 'volatile' && method !== 'POST') {
      throw methodNotForRoutine(method, 'OPTIONS,POST');
    }
    // A caller without access to any of them is rejected before the body is read.
    const candidates = routine ? [routine] : overloads;
    if (candidates.length > 0 && candidates.every((candidate) => mustSignIn(candidate, caller)))
      throw loginRequired();
    return page;
  },

  payload: (exchange) => (exchange.request.method === 'POST' ? receive(exchange) : undefined),

  payloadShape({ request, exposed, caller }, payload) {
    const { schema, resource, parsed, method } = request;
    const routine =
      method === 'POST'
        ? chooseByPost(exposed, schema, resource.name, parsed.query.columns ?? payload.keys)
        : undefined;
    // Only the body decides which overload the call means.
    if (routine && mustSignIn(routine, caller)) throw loginRequired();
    const isByName = payload.fields.length > 0;
    return `${routine && needsRecord(routine, payload) ? 'r' : ''}${isByName ? 'n' : ''}${JSON.stringify(payload.keys)}`;
  },

  plan({ request, exposed, context }, payload, page) {
    const { preferences } = request;
    const { call, query } = planCall({ request, exposed }, payload);
    const { routine } = call;
    const { node, legacyNames } = planRead(exposed, originOfCall(exposed, routine), query);
    const media = negotiateRows(request.accept, {
      isDev: context.dev,
      hasGeoJson: exposed.catalog.hasGeoJson,
      value: resultValue(routine),
    });
    checkStrict(preferences);
    const maxAffected = affectedLimit(preferences);
    if (maxAffected !== undefined && !routine.isSetOf) throw maxAffectedOnSingle();
    const isReadOnly = routine.volatility !== 'volatile';
    return {
      call,
      node,
      media,
      isReadOnly,
      shape: {
        media,
        withBody: request.method !== 'HEAD',
        ...pageCounts(page),
        total: preferences.count === undefined || !routine.isSetOf ? undefined : 'exact',
        withResponseSettings: exposed.usesResponseSettings,
        // Part of the statement, so that a failure rolls back the writes of a volatile function.
        checks: media.kind === 'singular' && routine.isSetOf && !isReadOnly ? [{ kind: 'singular' }] : [],
        guards: affectedChecks(maxAffected),
      },
      applied: appliedHeader(preferences, {
        maxAffected: preferences.handling === 'strict' ? maxAffected : undefined,
      }),
      warnings: legacyWarnings(legacyNames),
    };
  },

  sql: ({ call, node, shape }) => ({ statement: renderCall(call, node, shape) }),

  fields: ({ call }, payload) => (call.fromBody ? [] : argumentTexts(call, payload)),

  answer({ request: { preferences } }, { call: { routine }, media, applied, warnings }, { row, page }) {
    const isCounted = preferences.count !== undefined;
    if (routine.returns.kind === 'void' && !routine.isSetOf) {
      return { status: 204, contentRange: contentRange(0, 1, isCounted ? 1 : undefined), applied, warnings };
    }
    const rows = row.number('page') ?? 0;
    return pageAnswer({
      media,
      body: isBinary(media, routine) ? decodeHex(row.bytes('body')) : row.bytes('body'),
      offset: page.offset,
      rows,
      isSet: routine.isSetOf,
      total: isCounted ? (row.number('total') ?? rows) : undefined,
      isExact: true,
      contentLocation: undefined,
      applied,
      warnings,
    });
  },
};

function resultValue({ returns, isSetOf }: ExposedRoutine): 'scalar' | 'scalars' | undefined {
  if (returns.kind === 'composite' || returns.kind === 'columns') return undefined;
  return returns.kind === 'scalar' && !isSetOf ? 'scalar' : 'scalars';
}

/** Whether the result is binary. PostgreSQL sends bytes as hexadecimal digits. */
function isBinary({ kind }: MediaType, { returns }: ExposedRoutine): boolean {
  return kind === 'raw' && returns.kind === 'scalar' && returns.baseType === 'bytea';
}

function decodeHex(digits: Buffer | undefined): Buffer | undefined {
  return digits && Buffer.from(digits.toString('latin1'), 'hex');
}

function planCall(
  { request, exposed }: Pick<Exchange, 'request' | 'exposed'>,
  payload: Payload,
): { readonly call: CallPlan; readonly query: Query } {
  const { parsed, preferences, schema, method } = request;
  const { query } = parsed;
  const { name } = request.resource;
  if (method !== 'POST') return planCallByGet(exposed, schema, name, query, parsed.values);
  const call = preferences.singleObject
    ? planSingleObject(exposed, schema, name)
    : planCallByPost(exposed, schema, name, query.columns ?? payload.keys, payload);
  return { call, query };
}

async function receive({ request, exposed, body, context }: Exchange): Promise<Payload> {
  const { headers, preferences } = request;
  const bytes = await readBytes(body, headers, context.snapshot().config.server.maxBodyBytes);
  const overloads = findOverloads(exposed, request.schema, request.resource.name);
  const whole = overloads.map(wholeBodyArgument).find((arg) => arg !== undefined);
  if (whole && (overloads.length === 1 || isOneValue(bytes, headers['content-type']))) {
    const named = byEmptyName(bytes, whole, headers['content-type']);
    if (named) return named;
    const value = wholeBody(bytes, whole.baseType, headers['content-type']);
    // The empty key belongs to an argument without a name, which only this function has.
    return { ...EMPTY_OBJECT, bytes: value, keys: overloads.length === 1 ? [] : [''] };
  }
  if (bytes.length === 0) return EMPTY_OBJECT;
  const format = bodyFormat(headers['content-type']);
  // A single json parameter takes any JSON, which PostgreSQL checks.
  if (preferences.singleObject && format === 'json') return { ...EMPTY_OBJECT, bytes };
  const payload = readPayload(bytes, format);
  if (!payload.isArray) return payload;
  if (format === 'csv' && payload.rows > 0) return firstRow(payload);
  throw badBody(
    'The arguments of a function are one JSON object',
    'Send an object with one key per argument.',
  );
}

function mustSignIn({ authRequired }: ExposedRoutine, caller: Exchange['caller']): boolean {
  return authRequired && caller.role !== 'service_role' && caller.user === null;
}

function byEmptyName(bytes: Buffer, whole: RoutineArg, type = 'application/json'): Payload | undefined {
  if (!/^application\/json\b/i.test(type)) return undefined;
  const body = readJsonBody(bytes);
  return body && isByEmptyName(whole, body) ? readPayload(bytes, bodyFormat(type)) : undefined;
}

/** The body has no keys that could be the arguments of a function. */
function isOneValue(bytes: Buffer, type = 'application/json'): boolean {
  if (/^(text\/plain|application\/octet-stream)/i.test(type)) return true;
  return /json/i.test(type) && bytes.length > 0 && !/^\s*\{/.test(bytes.toString('utf8', 0, 64));
}

function firstRow({ bytes }: Payload): Payload {
  const rows: unknown = JSON.parse(bytes.toString('utf8'));
  const first: unknown = Array.isArray(rows) ? rows[0] : undefined;
  return { ...readPayload(Buffer.from(JSON.stringify(first)), 'json'), isText: true };
}
