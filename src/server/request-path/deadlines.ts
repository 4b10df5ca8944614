// The clock of all requests: when one is given up, because it takes too long, its body does not come or its answer is not
// taken. One timer for all: one for each request shows at thousands of them a second.
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
  /** For the head of a request. */
  readonly headerMs: number;
  /** Without a byte of a request's body. */
  readonly bodyIdleMs: number;
  /** Without a byte of an answer taken by its client. */
  readonly responseIdleMs: number;
};

/** How late a deadline may be noticed. */
const CLOCK_MS = 50;
/** Answers that are not taken are looked for once in so many turns of the clock. */
const TURNS_FOR_ANSWERS = 10;
/** The longest that receiving a request may take, beyond the longest deadline. */
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
    this.#clock = setInterval(() => this.#look(), CLOCK_MS);
    this.#clock.unref();
  }

  /** From here on the request has its deadline, and is answered by `reply` when it is given up. */
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

  /** The backstop in the parser, for what never becomes a request. */
  #setServer({ requestMs, uploadMs, headerMs }: Timeouts): void {
    this.#server.headersTimeout = headerMs;
    this.#server.requestTimeout = Math.max(requestMs, uploadMs, headerMs) + GRACE_MS;
  }

  #look(): void {
    const now = performance.now();
    const timeouts = this.#timeouts();
    this.#setServer(timeouts);
    const looksAtAnswers = ++this.#turn % TURNS_FOR_ANSWERS === 0;
    for (const scope of this.#inFlight) {
      const { reply } = scope;
      if (!reply) continue;
      if (looksAtAnswers && reply.raw.headersSent) this.#watchTaking(scope, reply, timeouts.responseIdleMs);
      if (scope.aborted) continue;
      if (scope.endsAt <= now) this.#endLate(scope, reply);
      else if (!reply.request.raw.complete && isIdle(scope, reply, now, timeouts.bodyIdleMs)) {
        giveUp(scope, reply, 'slow-body');
      }
    }
  }

  /** The request ends at its deadline: its statement is cancelled and the caller told at once. */
  #endLate(scope: RequestScope, reply: FastifyReply): void {
    if (!reply.raw.headersSent) giveUp(scope, reply, isWaitedFor(reply) ? 'slow-body' : 'deadline');
    else if (reply.raw.writableEnded) {
      // Complete and on its way, and how long that may take is for `response_idle`; or until its memory is needed.
      scope.endsAt = Number.POSITIVE_INFINITY;
      scope.answer?.mayCut(() => this.#cut(reply, 'its client took it slowly and others needed the memory'));
    } else {
      scope.abort('deadline');
      reply.raw.destroy();
    }
  }

  /**
   * The connection ends when its client takes nothing of what is written. The timer of the socket knows best: it sees
   * what the system has taken of a single large write. It looks once in `idleMs`, so an end may come after twice that.
   */
  #watchTaking(scope: RequestScope, reply: FastifyReply, idleMs: number): void {
    const { raw } = reply;
    const { socket } = raw;
    if (!socket) return;
    const isWaiting = socket.writableLength > 0;
    if (isWaiting === scope.isTaking) return;
    scope.isTaking = isWaiting;
    socket.setTimeout(isWaiting ? idleMs : 0);
    if (raw.listenerCount('timeout') === 0) {
      raw.once('timeout', () =>
        this.#cut(reply, 'its client took nothing of it for server.timeouts.response_idle'),
      );
    }
  }

  #cut({ raw, request }: FastifyReply, why: string): void {
    const { id: requestId, client, url } = request;
    this.#log.info(
      { requestId, client: client.address, url: loggedUrl(url) },
      `an answer was cut off: ${why}`,
    );
    raw.destroy();
  }
}

function giveUp(scope: RequestScope, reply: FastifyReply, reason: Abort['reason']): void {
  scope.abort(reason);
  // Answered already, if only in part.
  if (reply.sent) {
    reply.raw.destroy();
    return;
  }
  // What is still to come of the request would keep the connection busy.
  if (!reply.request.raw.complete) {
    reply.raw.setHeader('Connection', 'close');
    endBodyWith(reply);
  }
  // The feature's own error handler renders this in its format.
  void reply.send(new Abort(reason));
}

/** The client is to send more of the body: what it has sent is read. */
function isWaitedFor({ request }: FastifyReply): boolean {
  return !request.raw.complete && request.raw.readableLength === 0;
}

/** No byte of the body has come for so long. Once the answer is under way, the rest of the body is nobody's concern. */
function isIdle(scope: RequestScope, reply: FastifyReply, now: number, idleMs: number): boolean {
  if (reply.raw.headersSent) return false;
  const { bytesRead } = reply.request.raw.socket;
  if (isWaitedFor(reply) && scope.bytesRead === bytesRead) return now - scope.readAt >= idleMs;
  scope.bytesRead = bytesRead;
  scope.readAt = now;
  return false;
}
