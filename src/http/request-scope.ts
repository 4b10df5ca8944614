// What lives as long as one request: its id, its deadline, and the way to stop what it started.
import type { FastifyReply } from 'fastify';
import { networkOf } from '../lib/ip-address.ts';
import type { Cancellable } from '../postgres/pool/caller-pool.ts';
import type { Abort, Problem } from '../problem/problem.ts';
import type { AnswerBudget, AnswerCharge } from './answer-budget.ts';

export class RequestScope implements Cancellable {
  readonly id: string;
  readonly #address: string | undefined;
  /** Of the trace that the client says it belongs to. */
  traceId: string | undefined;
  /** The request was handed on to another route, which writes its line in the log. */
  handedOn = false;
  /** Where it stands in the list of requests under way. */
  place = -1;
  /** The error that is the answer, for the line in the log. */
  refusal: Pick<Problem, 'code' | 'hint'> | undefined;
  /** The code function that answers. */
  functionName: string | undefined;
  /** The bucket whose files it reads or writes, and how many bytes of them have come. */
  bucket: string | undefined;
  received = 0;
  /** Set by whoever runs a statement for this request; called when the request is given up. */
  cancel: (() => void) | undefined;
  /** `performance.now()` at which the request is given up. */
  endsAt = Number.POSITIVE_INFINITY;
  /** Whose rights its statements had; undefined where there were none. */
  sharer: Cancellable['sharer'];
  dbMs: number | undefined;
  /** Bytes written to its connection before its answer. */
  writtenBefore = 0;
  /** What answers it. */
  reply: FastifyReply | undefined;
  /** Bytes on its connection when a byte of its body last came, and when that was; by `performance.now()`. */
  bytesRead = 0;
  readAt = 0;
  /** Its answer is taken so slowly that some of it waits here. */
  isTaking = false;
  /** Where its answer is counted, if it is large; absent where nothing is. */
  answers: AnswerBudget | undefined;
  answer: AnswerCharge | undefined;
  #reason: Abort['reason'] | undefined;
  #controller: AbortController | undefined;

  /** `address`: the client's. */
  constructor(id: string, address?: string) {
    this.id = id;
    this.#address = address;
  }

  /** Where the client is: its address, of IPv6 the network. Read only when something is scarce. */
  get network(): string | undefined {
    return this.#address === undefined ? undefined : networkOf(this.#address);
  }

  /** Why the request was given up, undefined while it is wanted. */
  get aborted(): Abort['reason'] | undefined {
    return this.#reason;
  }

  /** For APIs that take a signal; made at its first use because most requests need none. */
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

declare module 'fastify' {
  interface FastifyRequest {
    scope: RequestScope;
  }
  interface FastifyContextConfig {
    /** Which of `server.timeouts` ends this route's requests; `none` when the feature has its own. */
    deadline?: 'request' | 'upload' | 'none' | undefined;
    /** The route writes the heads of its successes itself, `X-Request-Id` included. */
    writesHead?: boolean | undefined;
    /** Served also when `server.max_in_flight` is reached. */
    reserved?: boolean | undefined;
    /** Asked again and again by a page that is merely open: only what fails is worth a line. */
    routine?: boolean | undefined;
  }
}
