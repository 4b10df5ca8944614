// The release that receives the traffic. If it exits by itself, it is restarted with growing delays.
import { setTimeout as delay } from 'node:timers/promises';
import type { FrontTarget } from './front.ts';
import { Backoff } from '../lib/limits/backoff.ts';
import type { Log } from '../log/log.ts';
import type { Release } from './release.ts';

const RESTART_PAUSE = { minMs: 500, maxMs: 5_000, immediate: true };

export class LiveRelease {
  readonly #log: Log;
  /** Receives the requests. */
  release: Release | undefined;
  #restart: Promise<void> | undefined;
  /** False during a deployment, which handles exits itself. */
  #supervised = true;
  #stopping = false;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Target of requests. Undefined while no release runs. */
  get target(): FrontTarget | undefined {
    return this.release?.running ? this.release.target : undefined;
  }

  /** Runs a deployment. Releases are not restarted during it. */
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
    const release = this.release;
    if (this.#restart || !this.#supervised || this.#stopping || !release || release.running) return;
    this.#restart = this.#restartLoop(release).finally(() => {
      this.#restart = undefined;
      this.restartIfEnded();
    });
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await this.release?.stop();
    await this.#restart;
  }

  async #restartLoop(release: Release): Promise<void> {
    const isNeeded = (): boolean => !this.#stopping && this.release === release && !release.running;
    const backoff = new Backoff(RESTART_PAUSE);
    while (isNeeded()) {
      const waitMs = backoff.next();
      this.#log.error({ release: release.id, waitMs }, 'the live release exited; restarting it');
      await delay(waitMs);
      if (!isNeeded()) return;
      try {
        await release.start();
      } catch (error) {
        this.#log.error({ err: error, release: release.id }, 'the live release did not start');
        continue;
      }
      // A concurrent deployment may have switched releases.
      if (this.release !== release) await release.stop();
      return;
    }
  }
}
