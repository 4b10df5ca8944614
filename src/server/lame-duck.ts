// The time between the first sign of a shutdown and its begin: `/ready` is 503 already, and the port stays open for the
// requests that balancers send until they have asked.
import type { Log } from '../log/log.ts';

/** Who asks less often than this is no balancer. */
const RECENT_MS = 30_000;

export class LameDuck {
  #askedAt = Number.NEGATIVE_INFINITY;
  #end: (() => void) | undefined;

  /** Somebody asked for `/ready`. */
  asked(): void {
    this.#askedAt = performance.now();
  }

  /** Otherwise nobody sends requests because of the answer. */
  get wasAsked(): boolean {
    return performance.now() - this.#askedAt <= RECENT_MS;
  }

  /** Not at all when nobody has asked lately. */
  async wait(delayMs: number, log: Log): Promise<void> {
    if (delayMs === 0 || !this.wasAsked) return;
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

  /** Ends the waiting; false when there is none. */
  end(): boolean {
    const end = this.#end;
    this.#end = undefined;
    end?.();
    return end !== undefined;
  }
}
