// Assigns each call to a worker with a free slot. A call waits only while a worker is starting; otherwise it is refused
// at once: all slots are in use, or no worker is healthy.
import { Abort, type Problem } from '../../problem/problem.ts';
import { noWorker, saturated, timedOut, workersDoNotStart } from '../problem.ts';
import { Supervisor, type SupervisorOptions } from './supervisor.ts';
import { PendingCall, type Call } from './call.ts';
import type { WorkerProcess, WorkerState } from './worker-process.ts';

const SLOTS_PER_WORKER = 64;

export type PoolOptions = Omit<SupervisorOptions, 'onChange' | 'onUnread'>;

type Waiting = { readonly pending: PendingCall; readonly timer: NodeJS.Timeout };

export class WorkerPool {
  #current: Supervisor | undefined;
  readonly #old = new Set<Supervisor>();
  #waiting: Waiting[] = [];

  /** Starts workers for a new generation, then sends new calls to them; calls in flight finish on the old workers. */
  async replace(options: PoolOptions, swap: () => void): Promise<void> {
    const next: Supervisor = new Supervisor({
      ...options,
      onChange: () => {
        if (this.#current === next) this.#serveWaiting();
        if (next.workers.size === 0) this.#old.delete(next);
      },
      onUnread: (pending) => this.#place(pending),
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

  /** Retires all workers: no functions are declared any more. */
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

  /** False when workers of the current generation cannot start. */
  get healthy(): boolean {
    return this.#current?.cannotStart !== true;
  }

  /** Processes of the current generation. */
  get workers(): readonly WorkerProcess[] {
    return [...(this.#current?.workers ?? [])];
  }

  /** Throws if a call would be refused now; checked before the request body is read. */
  assertRoom(): void {
    if (this.#pick() || this.#mayWait()) return;
    throw this.#refusal();
  }

  run(call: Call): PendingCall {
    const pending = new PendingCall(call);
    this.#place(pending);
    return pending;
  }

  #place(pending: PendingCall): void {
    const worker = this.#pick();
    if (worker) worker.run(pending);
    else if (this.#mayWait()) this.#wait(pending);
    else pending.reject(this.#refusal());
  }

  #wait(pending: PendingCall): void {
    const leave = (reason: Problem | Abort): void => {
      clearTimeout(waiting.timer);
      this.#waiting = this.#waiting.filter((one) => one !== waiting);
      pending.reject(reason);
    };
    const waiting: Waiting = {
      pending,
      timer: setTimeout(() => leave(timedOut(pending.call.timeoutMs)), pending.remainingMs),
    };
    this.#waiting.push(waiting);
    pending.cancel = (reason) => leave(new Abort(reason));
  }

  #retire(supervisor: Supervisor | undefined): void {
    if (!supervisor) return;
    this.#old.add(supervisor);
    supervisor.retire();
  }

  #serveWaiting(): void {
    while (this.#waiting.length > 0) {
      const worker = this.#pick();
      if (!worker) break;
      const next = this.#waiting.shift();
      clearTimeout(next?.timer);
      if (next) worker.run(next.pending);
    }
    if (this.#has('starting')) return;
    for (const { pending, timer } of this.#waiting.splice(0)) {
      clearTimeout(timer);
      pending.reject(this.#refusal());
    }
  }

  /** The least loaded worker, preferring responsive ones. */
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
    if (!this.#current || !this.#has('starting')) return false;
    let used = this.#waiting.length;
    for (const worker of this.#current.workers) used += worker.inFlight;
    return used < this.#current.size * SLOTS_PER_WORKER;
  }

  #has(state: WorkerState): boolean {
    for (const worker of this.#current?.workers ?? []) if (worker.state === state) return true;
    return false;
  }

  #refusal(): Problem {
    return this.#has('ready') || this.#has('starting') ? saturated() : noWorker();
  }
}
