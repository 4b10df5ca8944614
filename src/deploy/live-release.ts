// Which release has the traffic. One that ends by itself is started again, after ever longer waits.
import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '../log/log.ts';
import type { Release } from './release.ts';

const RESTART_DELAYS_MS = [0, 500, 1_000, 2_000, 5_000];

export class LiveRelease {
  readonly #log: Log;
  #release: Release | undefined;
  #restart: Promise<void> | undefined;
  /** A deployment decides itself what follows when a release ends. */
  #supervised = true;
  #stopping = false;

  constructor(log: Log) {
    this.#log = log;
  }

  get release(): Release | undefined {
    return this.#release;
  }

  /** Where to send requests; undefined while nobody would answer. */
  get port(): number | undefined {
    return this.#release?.running ? this.#release.port : undefined;
  }

  switchTo(release: Release | undefined): void {
    this.#release = release;
  }

  /** Runs a deployment, which may switch. */
  async during(deployment: () => Promise<void>): Promise<void> {
    this.#supervised = false;
    try {
      await deployment();
    } finally {
      this.#supervised = true;
      this.restartIfEnded();
    }
  }

  restartIfEnded(): void {
    const release = this.#release;
    if (this.#restart || !this.#supervised || this.#stopping || !release || release.running) return;
    this.#restart = this.#startAgain(release).finally(() => {
      this.#restart = undefined;
      this.restartIfEnded();
    });
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#release?.stop();
    await this.#restart;
  }

  async #startAgain(release: Release): Promise<void> {
    const isWanted = (): boolean => !this.#stopping && this.#release === release && !release.running;
    for (let attempt = 0; isWanted(); attempt++) {
      const waitMs = RESTART_DELAYS_MS[Math.min(attempt, RESTART_DELAYS_MS.length - 1)] ?? 0;
      this.#log.error({ release: release.id, waitMs }, 'the live release ended; starting it again');
      await delay(waitMs);
      if (!isWanted()) return;
      try {
        await release.start();
      } catch (error) {
        this.#log.error({ err: error, release: release.id }, 'the live release does not start');
        continue;
      }
      // Another one may have been deployed meanwhile.
      if (this.#release !== release) await release.stop();
      return;
    }
  }
}
