// Which requests may begin: counts those that were accepted until their answers are out, so that a shutdown can
// wait for them.
import { draining } from './problem.ts';

export class Admission {
  #accepted = 0;
  #idle: PromiseWithResolvers<void> | undefined;

  /** Accepts a request, or throws while draining. Returns what ends it; calling that again does nothing. */
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

  /** Refuses what comes from now on; resolves when all that was accepted has ended. */
  async drain(): Promise<void> {
    this.#idle ??= Promise.withResolvers();
    if (this.#accepted === 0) this.#idle.resolve();
    await this.#idle.promise;
  }
}
