// Limits the statements that realtime runs at the same time, in total and per caller. Requests use the remaining
// connections.

export class CallerTurns {
  readonly #max: number;
  readonly #maxPerCaller: number;
  #total = 0;
  readonly #running = new Map<string, number>();
  /** Keyed by caller, in the order of their turns. */
  readonly #waiting = new Map<string, Array<() => void>>();

  constructor(max: number, maxPerCaller: number) {
    this.#max = max;
    this.#maxPerCaller = maxPerCaller;
  }

  /** Runs `work` when it is the caller's turn. `key` identifies the caller. */
  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    if (this.#hasRoom(key)) this.#start(key);
    else await this.#enqueue(key);
    try {
      return await work();
    } finally {
      this.#end(key);
    }
  }

  #hasRoom(key: string): boolean {
    return this.#total < this.#max && (this.#running.get(key) ?? 0) < this.#maxPerCaller;
  }

  #start(key: string): void {
    this.#total += 1;
    this.#running.set(key, (this.#running.get(key) ?? 0) + 1);
  }

  async #enqueue(key: string): Promise<void> {
    await new Promise<void>((resolve) => {
      const queue = this.#waiting.get(key);
      if (queue) queue.push(resolve);
      else this.#waiting.set(key, [resolve]);
    });
  }

  #end(key: string): void {
    this.#total -= 1;
    const left = (this.#running.get(key) ?? 1) - 1;
    if (left === 0) this.#running.delete(key);
    else this.#running.set(key, left);
    for (const [next, queue] of this.#waiting) {
      if (!this.#hasRoom(next)) continue;
      const resolve = queue.shift();
      // The caller moves to the end of the turns.
      this.#waiting.delete(next);
      if (queue.length > 0) this.#waiting.set(next, queue);
      this.#start(next);
      resolve?.();
      return;
    }
  }
}
