// The phase of a backend, and the work that waits until it serves.
import type { Phase } from './health/readiness.ts';

export class RunState {
  phase: Phase = 'starting';
  /** The port is closed, although the service need not shut down. */
  isClosed = false;
  readonly #stopping = new AbortController();
  readonly #waiting: Array<() => void> = [];

  /** Aborted when the shutdown begins. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** Runs `work` when the backend serves: now, or at `serve`. */
  whenServing(work: () => void): void {
    if (this.phase === 'serving') work();
    else this.#waiting.push(work);
  }

  serve(): void {
    this.phase = 'serving';
  }

  runWaiting(): void {
    for (const work of this.#waiting.splice(0)) work();
  }

  /** `replaced`: another process takes over the port, so probes do not see a shutdown. */
  stop({ replaced }: { replaced: boolean }): void {
    if (!replaced) this.phase = 'draining';
    this.isClosed = true;
    this.#stopping.abort();
  }
}
