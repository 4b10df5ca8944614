// Work that is retried until it succeeds. Calls of `ask` while it runs lead to one more run, because the present run may
// have read too early.

const SHORTEST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 15_000;

export class RetryUntilDone {
  readonly #work: () => Promise<void>;
  readonly #onFailure: (error: unknown) => void;
  #isWanted = false;
  #isRunning = false;
  #isClosed = false;
  #pause = SHORTEST_PAUSE_MS;
  #timer: NodeJS.Timeout | undefined;

  constructor(work: () => Promise<void>, onFailure: (error: unknown) => void) {
    this.#work = work;
    this.#onFailure = onFailure;
  }

  ask(): void {
    this.#isWanted = true;
    this.#run();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #run(): void {
    if (this.#isRunning || this.#isClosed || !this.#isWanted) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isRunning = true;
    this.#isWanted = false;
    this.#work()
      .then(
        () => {
          this.#pause = SHORTEST_PAUSE_MS;
        },
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
      this.ask();
    }, this.#pause);
    this.#timer.unref();
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE_MS);
  }
}
