// Calls a function for a delivery: a POST without a caller, whose context has the event.
import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type { ServedFunction } from '../generation.ts';
import type { FunctionEvent, RequestHead } from '../worker/protocol.ts';
import type { WorkerPool } from './worker-pool.ts';

export type EventCall = {
  readonly event: FunctionEvent;
  /** JSON text. */
  readonly body: string;
  readonly signal: AbortSignal;
};

export type EventAnswer = {
  readonly status: number;
  readonly requestId: string;
  /** Beginning of the answer. */
  readonly text: string;
};

/** All deliveries count as one caller, so they cannot use all slots of the workers. */
const CALLER = 'svc:deliveries';
const MAX_TEXT_BYTES = 1024;

/** The function did not answer. */
export class EventFailure extends Error {
  readonly requestId: string;

  /** `message` has the stack of the handler's error, if there is one. */
  constructor(message: string, requestId: string, cause: unknown) {
    super(message, { cause });
    this.requestId = requestId;
  }
}

/** Throws an EventFailure if the function did not answer. */
export async function callForEvent(
  pool: WorkerPool,
  { fn, envJson }: ServedFunction,
  { event, body, signal }: EventCall,
): Promise<EventAnswer> {
  const requestId = randomUUID();
  const head: Omit<RequestHead, 'env'> = {
    functionName: fn.name,
    requestId,
    method: 'POST',
    path: `/functions/v1/${fn.name}`,
    rawQuery: '',
    rawHeaders: ['content-type', 'application/json'],
    clientAddress: '127.0.0.1',
    claims: null,
    serviceRole: fn.authRequired,
    event,
  };
  const running = pool.run({
    functionName: fn.name,
    requestId,
    caller: CALLER,
    head: `${JSON.stringify(head).slice(0, -1)},"env":${envJson}}`,
    body: Buffer.from(body),
    serviceRole: fn.authRequired,
    timeoutMs: fn.timeoutMs,
  });
  const cancel = (): void => running.cancel('shutdown');
  signal.addEventListener('abort', cancel);
  try {
    const answer = await running.answer;
    return { status: answer.status, requestId, text: await readStart(answer.body) };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new EventFailure(running.failure ?? message, requestId, error);
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

async function readStart(body: Buffer | Readable | undefined): Promise<string> {
  if (!(body instanceof Readable)) return body?.subarray(0, MAX_TEXT_BYTES).toString('utf8') ?? '';
  const parts: Buffer[] = [];
  let bytes = 0;
  // Reads to the end, because the function runs until its answer is complete.
  for await (const chunk of body as AsyncIterable<Buffer>) {
    if (bytes < MAX_TEXT_BYTES) parts.push(chunk);
    bytes += chunk.length;
  }
  return Buffer.concat(parts).subarray(0, MAX_TEXT_BYTES).toString('utf8');
}
