// Assigns each call to a worker with a free slot. A call waits only while a worker is starting; otherwise it is refused
// at once: all slots are in use, or no worker is healthy.
import { FairShare } from '../../lib/limits/fair-share.ts';
import { Abort, type Problem } from '../../problem/problem.ts';
import { noWorker, saturated, timedOut, workersDoNotStart } from '../problem.ts';
import { Supervisor, type SupervisorOptions } from './supervisor.ts';
import { PendingCall, type Call } from './call.ts';
import type { WorkerProcess, WorkerState } from './worker-process.ts';

const SLOTS_PER_WORKER = 64;

export type PoolOptions = Omit<SupervisorOptions, 'onChange' | 'onUnread'> & {
  /** Called when all functions are loaded. If it throws, the previous generation stays in service. */
  readonly assertLoaded?: (() => void) | undefined;
};

type Waiting = { readonly pending: PendingCall; readonly timer: NodeJS.Timeout };

export class WorkerPool {
  #current: Supervisor | undefined;
  readonly #old = new Set<Supervisor>();
  #waiting: Waiting[] = [];
  readonly #slots = new FairShare({ total: () => this.#slotsInAll(), refusal: saturated });

  /** Starts workers for a new generation, then sends new calls to them; calls in flight finish on the old workers. */
  async replace(options: PoolOptions, swap: () => void): Promise<void> {
    const next: Supervisor = new Supervisor({
      ...options,
      onChange: () => {
        if (this.#current === next) this.#serveWaiting();
        if (next.workers.size === 0) this.#old.delete(next);
      },
      onUnread: (pending) => this.#place(pending, this.#slots.tryTake(pending.call.caller)),
    });
    await next.start();
    if (next.cannotStart) {
      await next.stop();
      throw workersDoNotStart();
    }
    try {
      options.assertLoaded?.();
    } catch (error) {
      await next.stop();
      throw error;
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

  /** Throws if a call of this caller would be refused now; checked before the request body is read. */
  assertRoom(caller: string): void {
    if (!this.#pick() && !this.#canWait()) throw this.#refusal();
    if (!this.#slots.hasRoom(caller)) throw saturated();
  }

  run(call: Call): PendingCall {
    const pending = new PendingCall(call);
    this.#place(pending, this.#slots.tryTake(call.caller));
    return pending;
  }

  /** `release` returns its slot; undefined if its caller has used up the share. */
  #place(pending: PendingCall, release: (() => void) | undefined): void {
    const worker = this.#pick();
    if (release === undefined || (!worker && !this.#canWait())) {
      release?.();
      pending.reject(this.#refusal());
      return;
    }
    pending.release = release;
    if (worker) worker.run(pending);
    else this.#wait(pending);
  }

  #wait(pending: PendingCall): void {
    const leave = (reason: Problem | Abort): void => {
      clearTimeout(waiting.timer);
      this.#waiting = this.#waiting.filter((call) => call !== waiting);
      pending.release();
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
      pending.release();
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

  #canWait(): boolean {
    if (!this.#current || !this.#has('starting')) return false;
    let used = this.#waiting.length;
    for (const worker of this.#current.workers) used += worker.inFlight;
    return used < this.#current.size * SLOTS_PER_WORKER;
  }

  /** Calls that finish on the workers of an earlier generation need no slot of the current ones. */
  #slotsInAll(): number {
    let slots = (this.#current?.size ?? 0) * SLOTS_PER_WORKER;
    for (const { workers } of this.#old) for (const { inFlight } of workers) slots += inFlight;
    return slots;
  }

  #has(state: WorkerState): boolean {
    for (const worker of this.#current?.workers ?? []) if (worker.state === state) return true;
    return false;
  }

  #refusal(): Problem {
    return this.#has('ready') || this.#has('starting') ? saturated() : noWorker();
  }
}
