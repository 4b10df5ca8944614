// Keeps one generation of workers at its size: a worker that dies or tires is replaced, at once as a rule, after growing
// delays when many die. A generation is one state of the code; a reload makes another.
import type { Log } from '../../log/log.ts';
import { WorkerProcess, type WorkerEvents, type WorkerOptions } from './worker-process.ts';
import type { Loaded } from '../worker/protocol.ts';

/** Deaths that are replaced at once, per worker and window; more is a restart loop. */
const FREE_DEATHS = 3;
const DEATH_WINDOW_MS = 10_000;
const FIRST_DELAY_MS = 100;
const LONGEST_DELAY_MS = 5_000;

export type SupervisorOptions = {
  readonly size: number;
  readonly worker: WorkerOptions;
  readonly log: Log;
  /** A worker became ready, a slot became free, or a worker died. */
  readonly onChange: () => void;
  readonly onLoaded: (loaded: Loaded) => void;
  readonly onUnread: WorkerEvents['onUnread'];
};

export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #workers = new Set<WorkerProcess>();
  readonly #tired = new Set<WorkerProcess>();
  /** Functions that killed a worker while loading. They are not loaded ahead again, or every worker would die. */
  readonly #deadly = new Set<string>();
  readonly #delayed = new Set<NodeJS.Timeout>();
  #deaths: number[] = [];
  /** Deaths in a row of workers that were never ready. No handler did that: handlers are loaded later. */
  #stillborn = 0;
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

  /** Workers do not even come up, and none is left from before. */
  get cannotStart(): boolean {
    return this.#stillborn >= FREE_DEATHS && ![...this.#workers].some(({ state }) => state === 'ready');
  }

  /** Resolves when each worker has tried to load every function, so that none will load newer code. */
  async start(): Promise<void> {
    const warm = new Promise<void>((resolve) => (this.#warm = resolve));
    for (let n = 0; n < this.#options.size; n++) this.#spawn();
    await warm;
  }

  /** Takes no more work; each worker ends when its requests have. */
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
      onTired: (reason) => this.#onTired(worker, reason),
      onFree: this.#options.onChange,
      onUnread: this.#options.onUnread,
    });
    this.#workers.add(worker);
  }

  async #onReady(worker: WorkerProcess): Promise<void> {
    this.#stillborn = 0;
    const ms = Math.round((worker.readyAt ?? 0) - worker.startedAt);
    this.#options.log.debug({ worker: worker.child.pid, ms }, 'a function worker is ready');
    // The worker it replaces has taken calls until now.
    const [tired] = this.#tired;
    if (tired) {
      this.#tired.delete(tired);
      tired.retire();
    }
    this.#options.onChange();
    for (const { name } of this.#options.worker.settings.functions) {
      if (this.#deadly.has(name)) continue;
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

  #onTired(worker: WorkerProcess, reason: string): void {
    if (this.#ending || this.#tired.has(worker) || worker.state !== 'ready') return;
    this.#options.log.warn({ worker: worker.child.pid, reason }, 'a function worker is being replaced');
    this.#tired.add(worker);
    this.#fill();
  }

  #onExit(worker: WorkerProcess): void {
    this.#workers.delete(worker);
    if (worker.readyAt === undefined) this.#stillborn++;
    if (worker.loading !== undefined && !this.#deadly.has(worker.loading)) {
      this.#deadly.add(worker.loading);
      this.#options.onLoaded({
        name: worker.loading,
        ms: 0,
        failure: { kind: 'load', message: 'the worker died while loading it' },
      });
    }
    this.#tired.delete(worker);
    this.#fill();
    this.#options.onChange();
  }

  /** A tired worker does not count: its replacement starts while it serves on. */
  #fill(): void {
    while (!this.#ending && this.#workers.size + this.#delayed.size < this.#options.size + this.#tired.size) {
      this.#replace();
    }
  }

  #replace(): void {
    const now = performance.now();
    this.#deaths = this.#deaths.filter((at) => now - at < DEATH_WINDOW_MS);
    this.#deaths.push(now);
    const excess = this.#deaths.length - FREE_DEATHS * this.#options.size;
    if (excess <= 0) {
      this.#spawn();
      return;
    }
    const delay = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(excess - 1, 10));
    this.#options.log.warn({ delayMs: delay }, 'function workers die often; the next one starts later');
    const timer = setTimeout(() => {
      this.#delayed.delete(timer);
      this.#spawn();
    }, delay);
    this.#delayed.add(timer);
    // It may never be warm: whoever waits in `start` should go on with the workers there are.
    this.#warmUp();
  }
}
