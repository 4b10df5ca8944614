// Whether a worker is well, seen from outside: its event loop answers pings, its memory stays within bounds. What
// follows is decided by whoever owns the worker.

/** How long an event loop may be blocked before it counts as stuck. */
const PONG_GRACE_MS = 2_000;
const PING_INTERVAL_MS = 500;
/** After this long without a pong, other workers are preferred. */
const HESITATION_MS = 200;

type Watched = {
  readonly memoryMb: number;
  /** Whether it has calls, and so must be watched. */
  isBusy(): boolean;
  /** Sends a ping, and returns the id of the last request that was sent before it. */
  ping(): number;
  /** It should be replaced when its calls have ended. */
  onTired(reason: string): void;
  /** It will not recover and must be killed now. */
  onHopeless(reason: string, fields: object): void;
};

export class WorkerHealth {
  readonly #watched: Watched;
  /** The oldest ping without a pong. Frames keep their order, so what was sent after it has not been read either. */
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

  /** No call with a higher id can have been read. */
  get lastRead(): number {
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

  /** A deadline passed: if the event loop does not answer soon, nothing in this process will ever end. */
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
