// A call until it is answered: it may wait for a worker, runs on one, and moves to another if the first died before
// reading it.
import type { Abort, Problem } from '../../problem/problem.ts';
import type { CancelReason } from '../worker/protocol.ts';
import type { FunctionAnswer } from './function-answer.ts';

export type Call = {
  readonly functionName: string;
  readonly requestId: string;
  /** Key of the caller whose share of the slots it uses. */
  readonly caller: string;
  /** JSON text of a RequestHead. */
  readonly head: string;
  readonly body: Buffer;
  /** The function may ask for service tokens. */
  readonly serviceRole: boolean;
  readonly timeoutMs: number;
};

/** Node fires timers with a longer delay at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export class PendingCall {
  readonly call: Call;
  readonly answer: Promise<FunctionAnswer>;
  readonly resolve: (answer: FunctionAnswer) => void;
  readonly reject: (reason: Problem | Abort) => void;
  /** Set by the current owner of the call: the queue, then a worker. */
  cancel: (reason: CancelReason) => void = () => {};
  /** Returns its slot to the caller's share. Further calls have no effect. */
  release: () => void = () => {};
  /** Message and stack of the handler's error, without secret values. Not for clients. */
  failure: string | undefined;
  /** A call moves only once: if it crashes its worker, it must not crash them all. */
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

  /** Time left until the function's timeout, at most what a timer can take. */
  get remainingMs(): number {
    return Math.min(MAX_TIMER_MS, Math.max(1, this.#deadline - performance.now()));
  }
}
