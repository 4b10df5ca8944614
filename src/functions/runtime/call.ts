// A call of a function on its way to an answer: it waits for a worker, runs on one, and moves to a second when the
// first died before reading it.
import type { Abort, Problem } from '../../problem/problem.ts';
import type { CancelReason } from '../worker/protocol.ts';
import type { FunctionAnswer } from './function-answer.ts';

/** A request as the server hands it over; everything but the head's text is bytes. */
export type Call = {
  readonly functionName: string;
  readonly requestId: string;
  /** JSON text of a RequestHead. */
  readonly head: string;
  readonly body: Buffer;
  /** The function may ask for service tokens. */
  readonly mayServe: boolean;
  readonly timeoutMs: number;
};

/** Node fires a timer at once when it is asked to wait longer. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export class PendingCall {
  readonly call: Call;
  readonly answer: Promise<FunctionAnswer>;
  readonly resolve: (answer: FunctionAnswer) => void;
  readonly reject: (reason: Problem | Abort) => void;
  /** Set by whoever has the call now: the queue, then a worker. */
  cancel: (reason: CancelReason) => void = () => {};
  /** A call moves only once: if it is what kills workers, it must not go through all of them. */
  moved = false;
  readonly #deadline: number;

  constructor(call: Call) {
    this.call = call;
    this.#deadline = performance.now() + call.timeoutMs;
    const { promise, resolve, reject } = Promise.withResolvers<FunctionAnswer>();
    this.answer = promise;
    this.resolve = resolve;
    this.reject = reject;
  }

  /** What is left of the function's timeout, within what a timer takes. */
  get remainingMs(): number {
    return Math.min(LONGEST_TIMER_MS, Math.max(1, this.#deadline - performance.now()));
  }
}
