// Counts requests from acceptance until their response is sent, so that a shutdown can drain them.
import { draining } from './problem.ts';

export class DrainGate {
  #accepted = 0;
  #idle: PromiseWithResolvers<void> | undefined;

  /** Accepts a request, or throws while draining. The returned function releases it; further calls do nothing. */
  accept(): () => void {
    if (this.#idle) throw draining();
    this.#accepted++;
    let released = false;
    return () => {
      if (released) return;
      released = true;
      if (--this.#accepted === 0) this.#idle?.resolve();
    };
  }

  /** Refuses new requests; resolves when those in flight have ended. */
  async drain(): Promise<void> {
    this.#idle ??= Promise.withResolvers();
    if (this.#accepted === 0) this.#idle.resolve();
    await this.#idle.promise;
  }
}
