// Whether a worker is well, judged from outside: its event loop answers pings, its memory stays within bounds.
// Whoever owns the worker is told, and acts.

/** How long an event loop may stand still before it counts as stuck. */
const PONG_GRACE_MS = 2_000;
const PING_INTERVAL_MS = 500;
/** After this long without a pong, others are preferred. */
const HESITATION_MS = 200;

type Watched = {
  readonly memoryMb: number;
  /** Whether it has work, and so must be looked at. */
  isBusy(): boolean;
  /** Sends a ping, and returns the id of the last request that was sent before it. */
  ping(): number;
  /** It should be replaced when its requests have ended. */
  onTired(reason: string): void;
  /** It will not get better: it must go now. */
  onHopeless(reason: string, fields: object): void;
};

export class WorkerHealth {
  readonly #watched: Watched;
  /** The oldest ping without a pong. What was sent after it has not been read either, since frames keep their order. */
  #ping: { readonly sentAt: number; readonly lastId: number } | undefined;
  #timer: NodeJS.Timeout | undefined;
  #rssBytes = 0;
  #ended = false;

  constructor(watched: Watched) {
    this.#watched = watched;
  }

  /** False while its event loop does not answer. */
  get responsive(): boolean {
    return this.#ping === undefined || performance.now() - this.#ping.sentAt < HESITATION_MS;
  }

  get rssBytes(): number {
    return this.#rssBytes;
  }

  /** The id behind which no request can have been read. */
  get lastRead(): number {
    return this.#ping?.lastId ?? Infinity;
  }

  /** Looks at the worker while it has work. */
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

  /** A deadline passed: either the event loop answers soon, or nothing in this process will ever end. */
  expectPong(): void {
    this.#sendPing();
    const sent = this.#ping;
    setTimeout(() => {
      if (this.#ping !== sent || this.#ended) return;
      this.#watched.onHopeless('a function blocks its worker; the worker is killed', {});
    }, PONG_GRACE_MS).unref();
  }

  onPong(rssBytes: number): void {
    this.#ping = undefined;
    this.#rssBytes = rssBytes;
    const limit = this.#watched.memoryMb * 1024 * 1024;
    if (rssBytes > limit * 4) {
      this.#watched.onHopeless('a worker far above its memory limit is killed', { rss: rssBytes });
    } else if (rssBytes > limit * 2) this.#watched.onTired('it is above its memory limit');
  }

  /** The worker is dead. */
  end(): void {
    this.#ended = true;
    clearInterval(this.#timer);
  }

  #sendPing(): void {
    if (this.#ping || this.#ended) return;
    this.#ping = { sentAt: performance.now(), lastId: this.#watched.ping() };
  }
}
