// The stages of the data API: parse → plan → sql → run → respond. The request line and headers are parsed already.
// The files in actions/ contain the differences between reads, writes and calls.
import { isDatabaseError } from '../postgres/pg-error.ts';
import type { WireResult } from '../postgres/wire/wire.ts';
import type { Action, Plan } from './actions/action.ts';
import { CALL } from './actions/call.ts';
import { DESCRIBE } from './actions/describe.ts';
import { options } from './actions/options.ts';
import { READ } from './actions/read.ts';
import { WRITES } from './actions/write.ts';
import type { Exchange } from './exchange.ts';
import { exposed as exposedBy } from './plan/exposed.ts';
import type { ApiRequest } from './request/api-request.ts';
import { EMPTY_OBJECT, type Payload } from './request/body.ts';
import { contentType, type ExplainMedia } from './request/media-type.ts';
import { pageShape, type Page } from './request/page.ts';
import { respond, type Answer } from './respond/respond.ts';
import { built } from './run/answer-bytes.ts';
import { ResultRow } from './run/result-row.ts';
import { run, type RequestSql } from './run/run.ts';
import type { ResultStatement } from './sql/render-result.ts';

export function serve(exchange: Exchange): Promise<void> {
  const { action } = exchange.request;
  switch (action) {
    case 'read':
      return stages(READ, exchange);
    case 'call':
      return stages(CALL, exchange);
    case 'describe':
      return stages(DESCRIBE, exchange);
    case 'options':
      return options(exchange);
    default:
      return stages(WRITES[action], exchange);
  }
}

/**
 * Runs the stages of a request. A request without a body has no await before its statement is sent, so that requests
 * of one tick share a socket write.
 */
async function stages<P extends Plan>(action: Action<P>, exchange: Exchange): Promise<void> {
  const page = action.page(exchange);
  if (action.payload) exchange.context.callers.assertRoom(exchange.caller, exchange.scope);
  const reading = action.payload?.(exchange);
  const payload = reading ? await reading : EMPTY_OBJECT;
  try {
    await answered(action, exchange, page, payload);
  } catch (error) {
    // A retry is possible: the statement was rolled back, and no part of the response is written.
    const snapshot = isNameGone(error)
      ? await exchange.context.snapshotAfter?.(exchange.exposed.version)
      : undefined;
    if (!snapshot) throw error;
    await answered(action, { ...exchange, exposed: exposedBy(snapshot) }, page, payload);
  }
}

/** Whether the statement failed on a missing name: another migration may have renamed it after planning. */
function isNameGone(error: unknown): boolean {
  return isDatabaseError(
    error,
    'undefined_column',
    'undefined_table',
    'undefined_function',
    'undefined_object',
  );
}

async function answered<P extends Plan>(
  action: Action<P>,
  exchange: Exchange,
  page: Page,
  payload: Payload,
): Promise<void> {
  const { request, exposed, plans, reply } = exchange;
  const key = planKey(request, page, action.payloadShape?.(exchange, payload) ?? '');
  const { plan, sql } = plans.get(exposed, key, () => {
    const made = action.plan(exchange, payload, page);
    const { media } = made;
    const rendered = action.sql(made);
    return { plan: made, sql: media.kind === 'plan' ? explain(rendered.statement, media) : rendered };
  });

  const fields = action.fields?.(plan, payload) ?? [];
  const results = await run(exchange, sql, plan, { page, payload, fields });
  built(exchange, plan, results[0]);

  const row = new ResultRow(results[0], sql.statement.columns);
  const { media } = plan;
  const answer =
    media.kind === 'plan'
      ? explained(results[0], media)
      : action.answer(exchange, plan, { row, results, payload, page });
  respond(reply, request, answer, row);
}

/** Requests with the same key differ only in values, and share a plan and its SQL. */
function planKey(request: ApiRequest, page: Page, payloadShape: string): string {
  const { action, method, schema, path, accept, preferHeader, parsed } = request;
  return `${action}\n${method}\n${schema}\n${path}\n${pageShape(page)}\n${accept ?? ''}\n${preferHeader}\n${payloadShape}\n${parsed.shape}`;
}

/** Returns EXPLAIN of a statement instead of its result; only for `svc dev`. */
function explain({ text, slots }: ResultStatement, { format, options }: ExplainMedia): RequestSql {
  const words = [`FORMAT ${format.toUpperCase()}`, ...options.map((option) => option.toUpperCase())];
  return { statement: { text: `EXPLAIN (${words.join(', ')}) ${text}`, slots, columns: [] } };
}

function explained(result: WireResult | undefined, media: ExplainMedia): Answer {
  const lines = (result?.rows ?? []).map(([line]) => line?.toString('utf8') ?? '');
  const body = media.format === 'json' ? lines.join('\n') : lines.map((line) => `${line}\n`).join('');
  return { status: 200, contentType: contentType(media), body };
}
