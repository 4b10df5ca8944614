// State of one request: its id, its deadline, and the way to stop its work.
import type { IncomingMessage } from 'node:http';
import type { FastifyReply } from 'fastify';
import type { Cancellable } from '../postgres/pool/caller-pool.ts';
import type { Abort, Problem } from '../problem/problem.ts';
import type { AnswerBudget, AnswerCharge } from './answer-budget.ts';

export class RequestScope implements Cancellable {
  readonly id: string;
  /** The client's address. */
  readonly address: string | undefined;
  /** Trace id from the client's headers. */
  traceId: string | undefined;
  /** True if another route handles the request, and logs it. */
  handedOn = false;
  /** True for dashboard requests, which the statistics of the application exclude. */
  isUncounted = false;
  /** Index in the list of running requests. */
  place = -1;
  /** The error in the response, for the log. */
  refusal: Pick<Problem, 'code' | 'hint'> | undefined;
  /** The code function that responds. */
  functionName: string | undefined;
  /** Bucket of the request's files, and the number of received bytes. */
  bucket: string | undefined;
  received = 0;
  /** Cancels the running statement of this request. Called when the request is cancelled. */
  cancel: (() => void) | undefined;
  /** `performance.now()` of the deadline. */
  endsAt = Number.POSITIVE_INFINITY;
  /** Caller whose rights the statements used; undefined if no statement ran. */
  sharer: Cancellable['sharer'];
  dbMs: number | undefined;
  /** Bytes written to the connection before this response. */
  writtenBefore = 0;
  /** The reply to the request. */
  reply: FastifyReply | undefined;
  /** Received bytes of the connection and `performance.now()` at the last byte of the body. */
  bytesRead = 0;
  readAt = 0;
  /** True if the client reads so slowly that part of the response is buffered here. */
  isSlowReader = false;
  /** Budget that counts a large response; unset without one. */
  answers: AnswerBudget | undefined;
  answer: AnswerCharge | undefined;
  #reason: Abort['reason'] | undefined;
  #controller: AbortController | undefined;

  constructor(id: string, address?: string) {
    this.id = id;
    this.address = address;
  }

  /** Reason of the cancellation; undefined while the request is active. */
  get aborted(): Abort['reason'] | undefined {
    return this.#reason;
  }

  /** Signal for APIs that take one. Created on first use, because most requests need none. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#reason && !this.#controller.signal.aborted) this.#controller.abort();
    return this.#controller.signal;
  }

  abort(reason: Abort['reason']): void {
    if (this.#reason) return;
    this.#reason = reason;
    this.cancel?.();
    this.#controller?.abort();
  }
}

const dashboardReads = new WeakSet<IncomingMessage>();

/** Marks a request that the dashboard sends to show data. It stays marked when it is routed to an API. */
export function markDashboardRead(request: IncomingMessage): void {
  dashboardReads.add(request);
}

export function isDashboardRead(request: IncomingMessage): boolean {
  return dashboardReads.has(request);
}

declare module 'fastify' {
  interface FastifyRequest {
    scope: RequestScope;
  }
  interface FastifyContextConfig {
    /** Key of `server.timeouts` for this route; `none` if the feature has a separate deadline. */
    deadline?: 'request' | 'upload' | 'none' | undefined;
    /** True if the route writes the heads of its successes itself, including `X-Request-Id`. */
    writesHead?: boolean | undefined;
    /** Served also when `server.max_in_flight` is reached. */
    reserved?: boolean | undefined;
    /** True for routes that an open page polls. Only failures are logged. */
    routine?: boolean | undefined;
  }
}
