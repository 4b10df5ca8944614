// Work that is retried until it succeeds. Calls of `request` while it runs lead to one more run, because the
// present run may have read too early.
import { Backoff } from '../lib/limits/backoff.ts';

export class RetryUntilDone {
  readonly #work: () => Promise<void>;
  readonly #onFailure: (error: unknown) => void;
  #isRequested = false;
  #isRunning = false;
  #isClosed = false;
  readonly #backoff = new Backoff({ minMs: 250, maxMs: 15_000 });
  #timer: NodeJS.Timeout | undefined;

  constructor(work: () => Promise<void>, onFailure: (error: unknown) => void) {
    this.#work = work;
    this.#onFailure = onFailure;
  }

  request(): void {
    this.#isRequested = true;
    this.#run();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #run(): void {
    if (this.#isRunning || this.#isClosed || !this.#isRequested) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isRunning = true;
    this.#isRequested = false;
    this.#work()
      .then(
        () => this.#backoff.reset(),
        (error: unknown) => this.#fail(error),
      )
      .finally(() => {
        this.#isRunning = false;
        if (this.#timer === undefined) this.#run();
      });
  }

  #fail(error: unknown): void {
    if (this.#isClosed) return;
    this.#onFailure(error);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.request();
    }, this.#backoff.next());
    this.#timer.unref();
  }
}
