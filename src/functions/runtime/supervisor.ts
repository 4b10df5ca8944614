// Keeps the workers of one generation at their number: one that dies or degrades is replaced, at once as a rule, with
// growing delays in a restart loop.
import { Backoff } from '../../lib/limits/backoff.ts';
import type { Log } from '../../log/log.ts';
import { WorkerProcess, type WorkerEvents, type WorkerOptions } from './worker-process.ts';
import type { Loaded } from '../worker/protocol.ts';

/** Per worker and window; more deaths than this are a restart loop. */
const TOLERATED_DEATHS = 3;
const DEATH_WINDOW_MS = 10_000;
const RESTART_PAUSE = { minMs: 100, maxMs: 5_000 };

export type SupervisorOptions = {
  readonly size: number;
  readonly worker: WorkerOptions;
  readonly log: Log;
  /** A worker became ready, a slot became free, or a worker died. */
  readonly onChange: () => void;
  readonly onLoaded: (loaded: Loaded) => void;
  /** A worker is started in the place of one that has died or degraded. */
  readonly onReplaced: () => void;
  readonly onUnread: WorkerEvents['onUnread'];
};

export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #workers = new Set<WorkerProcess>();
  /** Degraded workers, which serve until their replacement is ready. */
  readonly #degraded = new Set<WorkerProcess>();
  /** Functions that killed a worker while loading. No longer preloaded, or every worker would die. */
  readonly #crashedLoading = new Set<string>();
  readonly #delayed = new Set<NodeJS.Timeout>();
  #deaths: number[] = [];
  readonly #backoff = new Backoff(RESTART_PAUSE);
  /** Consecutive deaths before ready. Handlers are loaded later, so none of them is the cause. */
  #failedStarts = 0;
  #ending = false;
  readonly #reported = new Set<string>();
  #loaded = 0;
  #warm: (() => void) | undefined;

  constructor(options: SupervisorOptions) {
    this.#options = options;
  }

  get workers(): ReadonlySet<WorkerProcess> {
    return this.#workers;
  }

  get size(): number {
    return this.#options.size;
  }

  /** New workers die before they are ready, and no ready one is left. */
  get cannotStart(): boolean {
    return (
      this.#failedStarts >= TOLERATED_DEATHS && ![...this.#workers].some(({ state }) => state === 'ready')
    );
  }

  /** Resolves when each worker has tried to load every function, so that none loads code of a later change. */
  async start(): Promise<void> {
    const warm = new Promise<void>((resolve) => (this.#warm = resolve));
    for (let n = 0; n < this.#options.size; n++) this.#spawn();
    await warm;
  }

  /** Takes no new calls; each worker exits when its calls in flight have ended. */
  retire(): void {
    this.#end();
    for (const worker of this.#workers) worker.retire();
  }

  async stop(): Promise<void> {
    this.#end();
    await Promise.all([...this.#workers].map((worker) => worker.stop()));
  }

  #end(): void {
    this.#ending = true;
    for (const timer of this.#delayed) clearTimeout(timer);
    this.#delayed.clear();
    this.#warmUp();
  }

  #spawn(): void {
    const worker: WorkerProcess = new WorkerProcess(this.#options.worker, {
      onReady: () => void this.#onReady(worker),
      onExit: () => this.#onExit(worker),
      onDegraded: (reason) => this.#onDegraded(worker, reason),
      onFree: this.#options.onChange,
      onUnread: this.#options.onUnread,
    });
    this.#workers.add(worker);
  }

  async #onReady(worker: WorkerProcess): Promise<void> {
    this.#failedStarts = 0;
    const ms = Math.round((worker.readyAt ?? 0) - worker.startedAt);
    this.#options.log.debug({ worker: worker.child.pid, ms }, 'a function worker is ready');
    // The degraded worker that this one replaces has served until now.
    const [replaced] = this.#degraded;
    if (replaced) {
      this.#degraded.delete(replaced);
      replaced.retire();
    }
    this.#options.onChange();
    for (const { name } of this.#options.worker.settings.functions) {
      if (this.#crashedLoading.has(name)) continue;
      const loaded = await worker.load(name);
      if (worker.state === 'dead') return;
      if (!this.#reported.has(name)) this.#options.onLoaded(loaded);
      this.#reported.add(name);
    }
    if (++this.#loaded >= this.#options.size) this.#warmUp();
  }

  #warmUp(): void {
    this.#warm?.();
    this.#warm = undefined;
  }

  #onDegraded(worker: WorkerProcess, reason: string): void {
    if (this.#ending || this.#degraded.has(worker) || worker.state !== 'ready') return;
    this.#options.log.warn({ worker: worker.child.pid, reason }, 'replacing a function worker');
    this.#degraded.add(worker);
    this.#refill();
  }

  #onExit(worker: WorkerProcess): void {
    this.#workers.delete(worker);
    if (worker.readyAt === undefined) this.#failedStarts++;
    if (worker.loading !== undefined && !this.#crashedLoading.has(worker.loading)) {
      this.#crashedLoading.add(worker.loading);
      this.#options.onLoaded({
        name: worker.loading,
        ms: 0,
        failure: { kind: 'load', message: 'the worker died while loading it' },
      });
    }
    this.#degraded.delete(worker);
    this.#refill();
    this.#options.onChange();
  }

  /** A degraded worker does not count: it serves while its replacement starts. */
  #refill(): void {
    while (
      !this.#ending &&
      this.#workers.size + this.#delayed.size < this.#options.size + this.#degraded.size
    ) {
      this.#replace();
    }
  }

  #replace(): void {
    this.#options.onReplaced();
    const now = performance.now();
    this.#deaths = this.#deaths.filter((at) => now - at < DEATH_WINDOW_MS);
    this.#deaths.push(now);
    if (this.#deaths.length <= TOLERATED_DEATHS * this.#options.size) {
      this.#backoff.reset();
      this.#spawn();
      return;
    }
    const delay = this.#backoff.next();
    this.#options.log.warn({ delayMs: delay }, 'function workers die often; delaying the next start');
    const timer = setTimeout(() => {
      this.#delayed.delete(timer);
      this.#spawn();
    }, delay);
    this.#delayed.add(timer);
    // `start` must not wait for a worker that may never be ready; it resolves with the workers there are.
    this.#warmUp();
  }
}
