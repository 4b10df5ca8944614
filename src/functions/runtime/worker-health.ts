// Watches a worker from the server: its event loop must answer pings, and its memory must stay within bounds.

/** After a deadline, an event loop blocked for this long is stuck. */
const PONG_GRACE_MS = 2_000;
const PING_INTERVAL_MS = 500;
/** After this long without a pong, other workers are preferred. */
const UNRESPONSIVE_AFTER_MS = 200;

type Watched = {
  readonly memoryMb: number;
  /** Pings are sent only while it has calls. */
  isBusy(): boolean;
  /** Sends a ping and returns the id of the last request sent before it. */
  ping(): number;
  /** Called when the worker should be replaced after the calls in flight. */
  onDegraded(reason: string): void;
  /** Called when the worker cannot recover and must be killed. */
  onFatal(reason: string, fields: object): void;
};

export class WorkerHealth {
  readonly #watched: Watched;
  /** The oldest unanswered ping. Frames are read in order, so nothing sent after it has been read either. */
  #ping: { readonly sentAt: number; readonly lastId: number } | undefined;
  #timer: NodeJS.Timeout | undefined;
  #ended = false;

  constructor(watched: Watched) {
    this.#watched = watched;
  }

  /** False while its event loop does not answer. */
  get responsive(): boolean {
    return this.#ping === undefined || performance.now() - this.#ping.sentAt < UNRESPONSIVE_AFTER_MS;
  }

  /** Calls with a higher id are certainly unread. */
  get lastReadId(): number {
    return this.#ping?.lastId ?? Infinity;
  }

  /** Pings the worker while it has calls. */
  watch(): void {
    if (this.#timer) return;
    this.#timer = setInterval(() => {
      if (!this.#watched.isBusy()) {
        clearInterval(this.#timer);
        this.#timer = undefined;
        return;
      }
      this.#sendPing();
    }, PING_INTERVAL_MS);
    this.#timer.unref();
  }

  /** After a deadline: an event loop that does not answer soon is blocked by the handler and will not recover. */
  expectPong(): void {
    this.#sendPing();
    const sent = this.#ping;
    setTimeout(() => {
      if (this.#ping !== sent || this.#ended) return;
      this.#watched.onFatal('killing a worker whose event loop is blocked by a function', {});
    }, PONG_GRACE_MS).unref();
  }

  onPong(rssBytes: number): void {
    this.#ping = undefined;
    const limit = this.#watched.memoryMb * 1024 * 1024;
    if (rssBytes > limit * 4) {
      this.#watched.onFatal('killing a worker far above its memory limit', { rss: rssBytes });
    } else if (rssBytes > limit * 2) this.#watched.onDegraded('it is above its memory limit');
  }

  end(): void {
    this.#ended = true;
    clearInterval(this.#timer);
  }

  #sendPing(): void {
    if (this.#ping || this.#ended) return;
    this.#ping = { sentAt: performance.now(), lastId: this.#watched.ping() };
  }
}
