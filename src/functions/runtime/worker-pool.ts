// Gives each call a worker with a free slot. A call waits only where that ends soon (a worker is starting); otherwise
// it is refused at once: all slots are taken, or no worker is well.
import { Abort, type Problem } from '../../problem/problem.ts';
import { noWorker, saturated, timedOut, workersDoNotStart } from '../problem.ts';
import { Supervisor, type SupervisorOptions } from './supervisor.ts';
import { PendingCall, type Call } from './call.ts';
import type { WorkerProcess } from './worker-process.ts';

const SLOTS_PER_WORKER = 64;

export type PoolOptions = Omit<SupervisorOptions, 'onChange' | 'onUnread'>;

type Waiting = { readonly pending: PendingCall; readonly timer: NodeJS.Timeout };

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

  /** Throws if a call would be refused now; asked before the body of a request is read. */
  assertRoom(): void {
    if (this.#pick() || this.#mayWait()) return;
    throw this.#refusal();
  }

  run(call: Call): PendingCall {
    const pending = new PendingCall(call);
    this.#place(pending);
    return pending;
  }

  /** Hands it to a worker, lets it wait for one, or refuses it. */
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
    if (this.#isStarting()) return;
    for (const { pending, timer } of this.#waiting.splice(0)) {
      clearTimeout(timer);
      pending.reject(this.#refusal());
    }
  }

  /** The least occupied worker; one whose event loop is blocked only when there is no other. */
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
