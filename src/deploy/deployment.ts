// One deployment: an archive is built, started beside the live release, given the traffic, and watched. The former
// release runs until the new one has proved itself, so going back needs no start.
import { rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '../log/log.ts';
import { Problem } from '../problem/problem.ts';
import type { DeploymentStatus } from './api.ts';
import type { LiveRelease } from './live-release.ts';
import type { Release } from './release.ts';
import type { ReleaseStore } from './release-store.ts';

export type DeploymentOptions = {
  readonly id: string;
  /** Makes the release; it reports its steps line by line. */
  readonly release: (onLine: (line: string) => void) => Release;
  readonly live: LiveRelease;
  readonly store: ReleaseStore;
  readonly log: Log;
  /** How long the new release is watched before the former one is let go. */
  readonly probationMs: number;
};

const PROBE_MS = 500;
/** Consecutive failed probes that end a probation. */
const TOLERATED_FAILURES = 4;
const SHOWN_DETAILS = 40;

/** Which statuses may follow each. */
const NEXT_STATUSES: Readonly<Record<DeploymentStatus, readonly DeploymentStatus[]>> = {
  building: ['starting', 'failed'],
  starting: ['watching', 'failed'],
  watching: ['live', 'failed'],
  live: [],
  failed: [],
};

export class Deployment {
  readonly id: string;
  /** Lines for the person who deploys. */
  readonly lines: string[] = [];
  readonly #options: DeploymentOptions;
  readonly #release: Release;
  #status: DeploymentStatus = 'building';
  #message: string | undefined;

  constructor(options: DeploymentOptions) {
    this.id = options.id;
    this.#options = options;
    this.#release = options.release((line) => this.#say(line));
  }

  get status(): DeploymentStatus {
    return this.#status;
  }

  /** Why it failed. */
  get message(): string | undefined {
    return this.#message;
  }

  /** Never rejects: how it ended is in the status. */
  async run(archive: string): Promise<void> {
    const { live, log } = this.#options;
    const former = live.release;
    try {
      await this.#goLive(archive);
      await former?.stop();
      await this.#options.store.removeOld();
    } catch (error) {
      if (this.#status === 'live')
        log.error({ err: error, release: this.id }, 'the former release was not cleaned up');
      else await this.#goBack(error, former);
    } finally {
      await rm(archive, { force: true });
    }
  }

  async #goLive(archive: string): Promise<void> {
    const { live, store } = this.#options;
    await this.#release.build(archive);
    this.#enter('starting', 'starting the release beside the live one');
    await this.#release.start();
    live.switchTo(this.#release);
    this.#enter('watching', 'ready; it has the traffic now');
    await this.#watch();
    await store.setLive(this.id);
    this.#enter('live', 'live');
  }

  async #watch(): Promise<void> {
    const until = performance.now() + this.#options.probationMs;
    let failures = 0;
    while (performance.now() < until) {
      await delay(PROBE_MS);
      failures = (await this.#release.isReady()) ? 0 : failures + 1;
      if (!this.#release.running || failures >= TOLERATED_FAILURES) {
        throw new Problem('unhealthy', 500, 'The release did not stay healthy', {
          details: this.#release.output,
        });
      }
    }
  }

  async #goBack(error: unknown, former: Release | undefined): Promise<void> {
    const { live, log } = this.#options;
    if (live.release === this.#release) {
      live.switchTo(former);
      if (former?.running) this.#say(`back to release ${former.id}`);
    }
    const problem = error instanceof Problem ? error : undefined;
    if (!problem) log.error({ err: error, release: this.id }, 'fault');
    for (const line of problem?.details?.split('\n').slice(-SHOWN_DETAILS) ?? []) this.#say(line);
    this.#message = problem?.message ?? 'The deployment failed for a reason that is in the log of the server';
    await this.#release.remove();
    this.#enter('failed', `failed: ${this.#message}`);
  }

  #enter(status: DeploymentStatus, line: string): void {
    if (!NEXT_STATUSES[this.#status].includes(status)) {
      throw new Error(`a deployment cannot go from ${this.#status} to ${status}`);
    }
    this.#say(line);
    this.#status = status;
  }

  #say(line: string): void {
    this.lines.push(line);
    this.#options.log.info({ release: this.id }, line);
  }
}
