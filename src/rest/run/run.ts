// Runs the statements of a request as its caller, in one transaction and one round trip.
import { SMALL_BYTES } from '../../http/answer-budget.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { RowRefused, type WireResult } from '../../postgres/wire/wire.ts';
import type { OnRow } from '../../postgres/wire/statement.ts';
import type { WireValue } from '../../postgres/wire/frames.ts';
import type { WireStatement } from '../../postgres/wire/statement.ts';
import { noRoomForAnswer } from '../../problem/overloaded.ts';
import type { Exchange } from '../exchange.ts';
import { invalidJson, responseTooLarge } from '../problem.ts';
import { EMPTY_OBJECT, type Payload } from '../request/body.ts';
import type { Page } from '../request/page.ts';
import { BODY, FIELD, LIMIT, OFFSET, type Slot } from '../request/query.ts';
import type { ResultStatement } from '../sql/render-result.ts';
import type { Statement } from '../sql/statement.ts';
import { admit, assertRoomForAnswer, maxAnswerBytes } from './answer-bytes.ts';
import { callerSettings } from './caller-settings.ts';
import { JsonRows, type RowFrame } from './json-rows.ts';

export type RequestSql = {
  readonly statement: ResultStatement;
  /** An EXPLAIN of the rows without their page. */
  readonly estimate?: Statement | undefined;
  /** Set if the statement returns plain rows, from which this process builds the body. */
  readonly list?: List | undefined;
};

export type List = {
  readonly frame: RowFrame;
  /** Initial buffer size: a little more than the last body. */
  expectedBytes: number;
};

export type RunMode = {
  readonly isReadOnly: boolean;
  /** Whether concurrent requests can share one response, see plan/repeatable.ts. */
  readonly isRepeatable?: boolean | undefined;
};

/** Values of slots outside the query string. */
export type Bindings = {
  readonly page: Page;
  readonly payload: Payload;
  readonly fields: ReadonlyArray<string | null>;
};

/** Receives rows on arrival instead of collecting them. */
type RowTaker = {
  readonly onRow?: OnRow;
  readonly onRestart?: () => void;
  readonly admitRow?: (bytes: number) => boolean;
};

const NOBODY: RowTaker = {};

/** A growing list is counted in steps of this. */
const COUNTED_BYTES = 256 * 1024;

/** The results in the order of their statements. */
export function run(
  exchange: Exchange,
  { statement, estimate, list }: RequestSql,
  mode: RunMode,
  bindings: Bindings,
): Promise<WireResult[]> {
  if (list) return runList(exchange, statement, list, bindings);
  const statements = estimate ? [statement, estimate] : [statement];
  const results = send(exchange, statements, mode, bindings);
  if (mode.isRepeatable === true && exchange.scope.answers?.isScarce === true) {
    // The caller that ran the shared read had no memory for its response.
    return results.catch((error: unknown) => {
      if (!(error instanceof RowRefused) || exchange.scope.answer) throw error;
      return send(exchange, statements, { ...mode, isRepeatable: false }, bindings);
    });
  }
  const { bytes } = bindings.payload;
  if (bytes === EMPTY_OBJECT.bytes) return results;
  return results.catch((error: unknown) => {
    throw isAboutJson(error) && !isJson(bytes) ? invalidJson() : error;
  });
}

/** Collects the rows into the same result as for short lists: one row with the body and the number of rows. */
async function runList(
  exchange: Exchange,
  statement: Statement,
  list: List,
  bindings: Bindings,
): Promise<WireResult[]> {
  const maxBytes = maxAnswerBytes(exchange);
  let json = new JsonRows(list.frame, list.expectedBytes);
  const onRestart = (): void => {
    json.release();
    json = new JsonRows(list.frame, list.expectedBytes);
  };
  let isTooLarge = false;
  let isOver = false;
  /** The remaining rows would only be discarded. */
  const stop = (): void => {
    isOver = true;
    json.release();
    exchange.scope.cancel?.();
  };
  /** Below this size no check is needed. */
  let known = Math.min(SMALL_BYTES, maxBytes);
  const onRow = (bytes: Buffer, start: number, end: number): void => {
    if (isOver) return;
    json.row(bytes, start, end);
    if (json.length <= known) return;
    isTooLarge = json.length > maxBytes;
    known = Math.min(json.length + COUNTED_BYTES, maxBytes);
    if (isTooLarge) stop();
    else admit(exchange, known, stop);
  };
  const admitRow = (bytes: number): boolean => !isOver && admit(exchange, json.length + bytes, stop);
  try {
    await send(exchange, [statement], { isReadOnly: true }, bindings, { onRow, onRestart, admitRow });
  } catch (error) {
    if (!isTooLarge) throw error;
  }
  if (isTooLarge) throw responseTooLarge(maxBytes);
  if (isOver) throw noRoomForAnswer();
  const body = json.finish();
  list.expectedBytes = body.length + 4096;
  // Not on 'close': a broken connection may still have a write in progress.
  exchange.reply.raw.once('finish', () => json.release());
  return [{ rows: [[body, Buffer.from(String(json.count))]], columns: [], tag: '' }];
}

function send(
  exchange: Exchange,
  statements: readonly Statement[],
  { isReadOnly, isRepeatable }: RunMode,
  bindings: Bindings,
  { onRow, onRestart, admitRow }: RowTaker = NOBODY,
): Promise<WireResult[]> {
  const { context, request, scope } = exchange;
  const giveUp = isReadOnly ? (): void => scope.cancel?.() : undefined;
  const admits = admitRow ?? ((bytes: number) => admit(exchange, bytes, giveUp));
  if (!isReadOnly) assertRoomForAnswer(exchange);
  const maxRowBytes = isReadOnly
    ? maxAnswerBytes(exchange)
    : context.snapshot().config.server.maxResponseBytes;
  const batch: WireStatement[] = [];
  for (const { text, slots } of statements) {
    const values: WireValue[] = [];
    for (const slot of slots) values.push(slotValue(slot, request.parsed.values, bindings));
    batch.push({ text, values, onRow, maxRowBytes, admitRow: admits });
  }
  const { tx, read } = request.preferences;
  const options = {
    readOnly: isReadOnly,
    repeatable: isRepeatable,
    onRestart,
    rollback: tx === 'rollback',
    cancellable: scope,
  };
  const caller = callerSettings(exchange);
  const { reads, callers } = context;
  if (!isReadOnly) return callers.run(caller, batch, options);
  const { raw } = exchange.reply;
  const onStaleness = (staleness: string): void =>
    void (raw.headersSent || raw.setHeader('X-Svc-Staleness', staleness));
  if (reads !== undefined && tx === undefined && read !== 'primary') {
    return reads.run({ caller, statements: batch, options, onStaleness });
  }
  const hadStandIns = callers.readsFromStandIn;
  const answer = callers.run(caller, batch, options);
  if (!callers.hasStandIns) return answer;
  return answer.then((results) => {
    // Which connection it was does not matter: while there is one, the primary is not there.
    if (hadStandIns || callers.readsFromStandIn) onStaleness('unknown');
    return results;
  });
}

function slotValue(slot: Slot, values: readonly string[], { page, payload, fields }: Bindings): WireValue {
  if (slot >= 0) return values[slot] ?? null;
  switch (slot) {
    case BODY:
      return payload.bytes;
    case LIMIT:
      return String(page.limit ?? 0);
    case OFFSET:
      return String(page.offset);
    default:
      return fields[FIELD - slot] ?? null;
  }
}

/** PostgreSQL parses the body strictly, but a filter on a JSON column fails with the same error. */
function isAboutJson(error: unknown): boolean {
  return (
    isDatabaseError(error, 'invalid_text_representation') &&
    error.message.startsWith('invalid input syntax for type json')
  );
}

function isJson(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString('utf8'));
    return true;
  } catch {
    return false;
  }
}
