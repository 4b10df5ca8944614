// One deployment: builds an archive, starts it next to the live release, switches the traffic and watches it. The
// previous release keeps running until the new one has passed its probation, so a rollback needs no start.
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
  /** Creates the release; `onLine` gets its progress. */
  readonly release: (onLine: (line: string) => void) => Release;
  readonly live: LiveRelease;
  readonly store: ReleaseStore;
  readonly log: Log;
  /** How long a new release is watched before the previous one is stopped. */
  readonly probationMs?: number | undefined;
};

const PROBATION_MS = 10_000;
const PROBE_MS = 500;
/** Consecutive failed probes that fail the probation. */
const MAX_FAILURES = 4;
const MAX_DETAIL_LINES = 40;

/** Allowed transitions. */
const NEXT_STATUSES: Readonly<Record<DeploymentStatus, readonly DeploymentStatus[]>> = {
  building: ['starting', 'failed'],
  starting: ['watching', 'failed'],
  watching: ['live', 'failed'],
  live: [],
  failed: [],
};

export class Deployment {
  readonly id: string;
  /** Progress lines for the user. */
  readonly lines: string[] = [];
  readonly #options: DeploymentOptions;
  readonly #release: Release;
  #status: DeploymentStatus = 'building';
  #message: string | undefined;

  constructor(options: DeploymentOptions) {
    this.id = options.id;
    this.#options = options;
    this.#release = options.release((line) => this.#report(line));
  }

  get status(): DeploymentStatus {
    return this.#status;
  }

  /** Why it failed. */
  get message(): string | undefined {
    return this.#message;
  }

  /** Never rejects; the outcome is in `status`. */
  async run(archive: string): Promise<void> {
    const { live, log } = this.#options;
    const previous = live.release;
    try {
      await this.#goLive(archive);
      await previous?.stop();
      await this.#options.store.removeOld();
    } catch (error) {
      if (this.#status === 'live')
        log.error({ err: error, release: this.id }, 'could not clean up the previous release');
      else await this.#rollBack(error, previous);
    } finally {
      await rm(archive, { force: true });
    }
  }

  async #goLive(archive: string): Promise<void> {
    const { live, store } = this.#options;
    await this.#release.build(archive);
    this.#enter('starting', 'starting the release next to the live one');
    await this.#release.start('refuse');
    live.release = this.#release;
    this.#enter('watching', 'ready; it receives the traffic now');
    await this.#watch();
    await store.setLive(this.id);
    this.#enter('live', 'live');
  }

  async #watch(): Promise<void> {
    const until = performance.now() + (this.#options.probationMs ?? PROBATION_MS);
    let failures = 0;
    while (performance.now() < until) {
      await delay(PROBE_MS);
      failures = (await this.#release.isReady()) ? 0 : failures + 1;
      if (!this.#release.running || failures >= MAX_FAILURES) {
        const details = this.#release.output;
        throw new Problem('unhealthy', 500, 'The release did not stay healthy', { details });
      }
    }
  }

  async #rollBack(error: unknown, previous: Release | undefined): Promise<void> {
    const { live, log } = this.#options;
    if (live.release === this.#release) {
      live.release = previous;
      if (previous?.running) this.#report(`back to release ${previous.id}`);
    }
    const problem = error instanceof Problem ? error : undefined;
    if (!problem) log.error({ err: error, release: this.id }, 'fault');
    for (const line of problem?.details?.split('\n').slice(-MAX_DETAIL_LINES) ?? []) this.#report(line);
    this.#message = problem?.message ?? 'The deployment failed; see the log of the server';
    await this.#release.remove();
    this.#enter('failed', `failed: ${this.#message}`);
  }

  #enter(status: DeploymentStatus, line: string): void {
    if (!NEXT_STATUSES[this.#status].includes(status)) {
      throw new Error(`a deployment cannot go from ${this.#status} to ${status}`);
    }
    this.#report(line);
    this.#status = status;
  }

  #report(line: string): void {
    this.lines.push(line);
    this.#options.log.info({ release: this.id }, line);
  }
}
