// The first part of a shutdown: `/ready` answers 503, and the port stays open for the requests that load balancers send
// until they have seen that answer.
import type { Log } from '../log/log.ts';

/** A client that polls `/ready` less often does not count as a load balancer. */
const RECENT_MS = 30_000;

export class DrainDelay {
  #probedAt = Number.NEGATIVE_INFINITY;
  #end: (() => void) | undefined;

  /** Records a request for `/ready`. */
  recordProbe(): void {
    this.#probedAt = performance.now();
  }

  /** Whether a load balancer seems to poll `/ready`. */
  get wasProbed(): boolean {
    return performance.now() - this.#probedAt <= RECENT_MS;
  }

  /** Waits `delayMs`, or not at all if `/ready` was not polled recently. */
  async wait(delayMs: number, log: Log): Promise<void> {
    if (delayMs === 0 || !this.wasProbed) return;
    log.info({ delayMs }, 'waiting until balancers have seen /ready');
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, delayMs);
      this.#end = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#end = undefined;
  }

  /** Ends the wait. Returns false if there is none. */
  skip(): boolean {
    const end = this.#end;
    this.#end = undefined;
    end?.();
    return end !== undefined;
  }
}
