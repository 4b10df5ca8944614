// Gives each request a worker with a free slot. Waits only where waiting ends soon (a worker is starting);
// otherwise says at once that all slots are taken or that no worker is well.
import { Abort, type Problem } from '../../problem/problem.ts';
import { noWorker, saturated, timedOut, workersDoNotStart } from '../problem.ts';
import { Supervisor, type SupervisorOptions } from './supervisor.ts';
import type { FunctionAnswer } from './function-answer.ts';
import type { Call, Settle, WorkerProcess } from './worker-process.ts';
import type { CancelReason } from '../worker/protocol.ts';

export const SLOTS_PER_WORKER = 64;

export type PoolOptions = Omit<SupervisorOptions, 'onChange' | 'onUnread'>;

export type RunningCall = {
  readonly answer: Promise<FunctionAnswer>;
  cancel(reason: CancelReason): void;
};

type Waiting = {
  readonly call: Call;
  readonly settle: Settle;
  readonly moved: boolean;
  readonly deadline: number;
  readonly timer: NodeJS.Timeout;
  /** Set when a worker took it. */
  cancel: ((reason: CancelReason) => void) | undefined;
};

export class WorkerPool {
  #current: Supervisor | undefined;
  readonly #old = new Set<Supervisor>();
  #waiting: Waiting[] = [];

  /** Starts workers on this code, and then sends new requests to them; those under way end where they are. */
  async replace(options: PoolOptions, swap: () => void): Promise<void> {
    const next: Supervisor = new Supervisor({
      ...options,
      onChange: () => {
        if (this.#current === next) this.#serveWaiting();
        if (next.workers.size === 0) this.#old.delete(next);
      },
      onUnread: (call, timeoutMs, settle, moved) => {
        moved.cancel = this.#place(call, timeoutMs, settle, true);
      },
    });
    await next.start();
    if (next.cannotStart) {
      await next.stop();
      throw workersDoNotStart();
    }
    const previous = this.#current;
    this.#current = next;
    swap();
    this.#retire(previous);
    this.#serveWaiting();
  }

  /** No functions any more: no workers. */
  clear(): void {
    this.#retire(this.#current);
    this.#current = undefined;
    this.#serveWaiting();
  }

  async stop(): Promise<void> {
    const all = [...this.#old, ...(this.#current ? [this.#current] : [])];
    this.#current = undefined;
    this.#serveWaiting();
    await Promise.all(all.map((supervisor) => supervisor.stop()));
  }

  /** False when the workers of the current code do not even come up. */
  get well(): boolean {
    return this.#current?.cannotStart !== true;
  }

  /** Processes of the current code, for the log, the dashboard and tests. */
  get workers(): readonly WorkerProcess[] {
    return this.#current ? [...this.#current.workers] : [];
  }

  /** Throws what a request would be answered with now; asked before its body is read. */
  assertRoom(): void {
    if (this.#pick() || this.#mayWait()) return;
    throw this.#refusal();
  }

  run(call: Call): RunningCall {
    let resolve: Settle['resolve'] = () => {};
    let reject: Settle['reject'] = () => {};
    const answer = new Promise<FunctionAnswer>((yes, no) => {
      resolve = yes;
      reject = no;
    });
    return { answer, cancel: this.#place(call, call.timeoutMs, { resolve, reject }) };
  }

  /** Hands it to a worker, or lets it wait for one, or refuses it; returns how to cancel it wherever it is. */
  #place(call: Call, timeoutMs: number, settle: Settle, moved = false): (reason: CancelReason) => void {
    const worker = this.#pick();
    if (worker) return worker.run(call, timeoutMs, settle, moved);
    if (!this.#mayWait()) {
      settle.reject(this.#refusal());
      return () => {};
    }
    const waiting: Waiting = {
      call,
      settle,
      moved,
      deadline: performance.now() + timeoutMs,
      cancel: undefined,
      timer: setTimeout(() => {
        this.#leave(waiting);
        settle.reject(timedOut(call.timeoutMs));
      }, timeoutMs),
    };
    this.#waiting.push(waiting);
    return (reason) => {
      if (waiting.cancel) {
        waiting.cancel(reason);
        return;
      }
      this.#leave(waiting);
      settle.reject(new Abort(reason));
    };
  }

  #retire(supervisor: Supervisor | undefined): void {
    if (!supervisor) return;
    this.#old.add(supervisor);
    supervisor.retire();
  }

  #leave(waiting: Waiting): void {
    clearTimeout(waiting.timer);
    this.#waiting = this.#waiting.filter((one) => one !== waiting);
  }

  #serveWaiting(): void {
    while (this.#waiting.length > 0) {
      const worker = this.#pick();
      if (!worker) break;
      const next = this.#waiting.shift();
      if (!next) break;
      clearTimeout(next.timer);
      next.cancel = worker.run(
        next.call,
        Math.max(1, next.deadline - performance.now()),
        next.settle,
        next.moved,
      );
    }
    if (this.#waiting.length === 0 || this.#isStarting()) return;
    const refused = this.#waiting;
    this.#waiting = [];
    for (const { timer, settle } of refused) {
      clearTimeout(timer);
      settle.reject(this.#refusal());
    }
  }

  /** The least occupied worker; one whose event loop stands still only when there is no other. */
  #pick(): WorkerProcess | undefined {
    let best: WorkerProcess | undefined;
    for (const worker of this.#current?.workers ?? []) {
      if (worker.state !== 'ready' || worker.inFlight >= SLOTS_PER_WORKER) continue;
      if (!best) best = worker;
      else if (worker.responsive !== best.responsive) best = worker.responsive ? worker : best;
      else if (worker.inFlight < best.inFlight) best = worker;
    }
    return best;
  }

  #mayWait(): boolean {
    if (!this.#current || !this.#isStarting()) return false;
    let taken = this.#waiting.length;
    for (const worker of this.#current.workers) taken += worker.inFlight;
    return taken < this.#current.size * SLOTS_PER_WORKER;
  }

  #isStarting(): boolean {
    for (const worker of this.#current?.workers ?? []) if (worker.state === 'starting') return true;
    return false;
  }

  #refusal(): Problem {
    for (const worker of this.#current?.workers ?? []) if (worker.state === 'ready') return saturated();
    return this.#isStarting() ? saturated() : noWorker();
  }
}
