// Cancels requests that take too long, whose body does not arrive or whose response is not read. One timer serves all
// requests, because one timer per request is measurable at thousands of requests per second.
import type { Server } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { RequestScope } from '../../http/request-scope.ts';
import type { Log } from '../../log/log.ts';
import { Abort } from '../../problem/problem.ts';
import { loggedUrl } from '../logged-url.ts';
import type { InFlight } from './in-flight.ts';
import { endBodyWith } from './rest-of-request.ts';

export type Timeouts = {
  readonly requestMs: number;
  readonly uploadMs: number;
  /** Limit for the head of a request. */
  readonly headerMs: number;
  /** Limit without a byte of a request's body. */
  readonly bodyIdleMs: number;
  /** Limit without a byte of a response being read by its client. */
  readonly responseIdleMs: number;
};

/** Maximum delay before an expired deadline is noticed. */
const CLOCK_MS = 50;
/** Number of clock ticks between two checks for responses that are not read. */
const RESPONSE_CHECK_TICKS = 10;
/** Time to receive a request beyond the longest deadline. */
const GRACE_MS = 10_000;

export class Deadlines {
  readonly #log: Log;
  readonly #inFlight: InFlight;
  readonly #server: Server;
  readonly #timeouts: () => Timeouts;
  readonly #clock: NodeJS.Timeout;
  #turn = 0;

  constructor(inFlight: InFlight, server: Server, timeouts: () => Timeouts, log: Log) {
    this.#log = log;
    this.#inFlight = inFlight;
    this.#server = server;
    this.#timeouts = timeouts;
    this.#setServer(timeouts());
    this.#clock = setInterval(() => this.#check(), CLOCK_MS);
    this.#clock.unref();
  }

  /** Starts the deadline of a request. `reply` gets the response when the request is cancelled. */
  watch(scope: RequestScope, request: FastifyRequest, reply: FastifyReply): void {
    scope.reply = reply;
    const { deadline } = request.routeOptions.config;
    if (deadline === 'none') return;
    const { requestMs, uploadMs } = this.#timeouts();
    scope.endsAt = performance.now() + (deadline === 'upload' ? uploadMs : requestMs);
  }

  close(): void {
    clearInterval(this.#clock);
  }

  /** Sets the limits of the parser, which apply to data that never becomes a request. */
  #setServer({ requestMs, uploadMs, headerMs }: Timeouts): void {
    this.#server.headersTimeout = headerMs;
    this.#server.requestTimeout = Math.max(requestMs, uploadMs, headerMs) + GRACE_MS;
  }

  #check(): void {
    const now = performance.now();
    const timeouts = this.#timeouts();
    this.#setServer(timeouts);
    const checksResponses = ++this.#turn % RESPONSE_CHECK_TICKS === 0;
    for (const scope of this.#inFlight) {
      const { reply } = scope;
      if (!reply) continue;
      if (checksResponses && reply.raw.headersSent) this.#watchReader(scope, reply, timeouts.responseIdleMs);
      if (scope.aborted) continue;
      if (scope.endsAt <= now) this.#endExpired(scope, reply);
      else if (!reply.request.raw.complete && isIdle(scope, reply, now, timeouts.bodyIdleMs)) {
        cancel(scope, reply, 'slow-body');
      }
    }
  }

  /** Ends a request at its deadline: cancels its statement and answers the caller immediately. */
  #endExpired(scope: RequestScope, reply: FastifyReply): void {
    if (!reply.raw.headersSent) cancel(scope, reply, isAwaitingBody(reply) ? 'slow-body' : 'deadline');
    else if (reply.raw.writableEnded) {
      // The response is complete. `response_idle` limits its transfer, and it may be cut off when its memory
      // is needed.
      scope.endsAt = Number.POSITIVE_INFINITY;
      scope.answer?.allowCut(() => this.#cut(reply, 'its client read it slowly and its memory was needed'));
    } else {
      scope.abort('deadline');
      reply.raw.destroy();
    }
  }

  /**
   * Closes the connection if its client reads nothing of the response. Uses the timer of the socket, which
   * observes how much
   * of a single large write the system has accepted. It checks once per `idleMs`, so it may act only after
   * twice that time.
   */
  #watchReader(scope: RequestScope, reply: FastifyReply, idleMs: number): void {
    const { raw } = reply;
    const { socket } = raw;
    if (!socket) return;
    const isWaiting = socket.writableLength > 0;
    if (isWaiting === scope.isSlowReader) return;
    scope.isSlowReader = isWaiting;
    socket.setTimeout(isWaiting ? idleMs : 0);
    if (raw.listenerCount('timeout') === 0) {
      raw.once('timeout', () =>
        this.#cut(reply, 'its client read nothing for server.timeouts.response_idle'),
      );
    }
  }

  #cut({ raw, request }: FastifyReply, why: string): void {
    const { id: requestId, client, url } = request;
    this.#log.info({ requestId, client: client.address, url: loggedUrl(url) }, `response cut off: ${why}`);
    raw.destroy();
  }
}

function cancel(scope: RequestScope, reply: FastifyReply, reason: Abort['reason']): void {
  scope.abort(reason);
  // The response has been sent, at least partly.
  if (reply.sent) {
    reply.raw.destroy();
    return;
  }
  // The rest of the request body would keep the connection busy.
  if (!reply.request.raw.complete) {
    reply.raw.setHeader('Connection', 'close');
    endBodyWith(reply);
  }
  // The feature's own error handler renders this in its format.
  void reply.send(new Abort(reason));
}

/** Returns whether the client has to send more of the body: all received bytes have been read. */
function isAwaitingBody({ request }: FastifyReply): boolean {
  return !request.raw.complete && request.raw.readableLength === 0;
}

/** Returns whether no byte of the body has arrived for `idleMs`. False once the response has started. */
function isIdle(scope: RequestScope, reply: FastifyReply, now: number, idleMs: number): boolean {
  if (reply.raw.headersSent) return false;
  const { bytesRead } = reply.request.raw.socket;
  if (isAwaitingBody(reply) && scope.bytesRead === bytesRead) return now - scope.readAt >= idleMs;
  scope.bytesRead = bytesRead;
  scope.readAt = now;
  return false;
}
