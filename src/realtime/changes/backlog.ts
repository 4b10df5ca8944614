// Changes that wait for delivery, in the order of the source. Beyond its bounds the backlog stops reading from the
// source, so PostgreSQL applies back-pressure.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ChangeSource, SourceChange } from './source/change-source.ts';

const MAX_BATCH_CHANGES = 250;
const MAX_BATCH_BYTES = 1024 * 1024;
/**
 * After a batch this large, wait briefly for more changes: checking visibility for many rows costs little more than for
 * one.
 */
const BATCH_DELAY_THRESHOLD = 8;
const BATCH_WINDOW_MS = 20;
const MAX_QUEUED_CHANGES = 2_000;
const MAX_QUEUED_BYTES = 8 * 1024 * 1024;
/** A stream that lags further behind is dropped, so that its slot does not retain WAL without bound. */
const MAX_LAG_MS = 30_000;
const MAX_LAG_BYTES = 64n * 1024n * 1024n;

export type BacklogOptions = {
  readonly source: Pick<ChangeSource, 'pause' | 'resume' | 'retainedWalBytes'>;
  readonly deliver: (batch: readonly SourceChange[]) => Promise<void>;
  /** Called when `deliver` throws. */
  readonly onFault: (error: unknown) => void;
};

export class Backlog {
  readonly #options: BacklogOptions;
  #queue: SourceChange[] = [];
  #queuedBytes = 0;
  #isProcessing = false;
  /** Commit time of the oldest change in the current batch, in milliseconds since 1970. */
  #batchCommittedAt: number | undefined;
  /** Time at which reading was paused, by `performance.now()`. */
  #pausedAt: number | undefined;

  constructor(options: BacklogOptions) {
    this.#options = options;
  }

  /** Age of the oldest change that is not delivered yet, in milliseconds. */
  get lagMs(): number {
    const oldest = this.#batchCommittedAt ?? this.#queue[0]?.transaction.committedAt;
    return oldest === undefined ? 0 : Math.max(0, Date.now() - oldest);
  }

  enqueue(change: SourceChange): void {
    this.#queue.push(change);
    this.#queuedBytes += change.change.bytes;
    if (this.#queue.length > MAX_QUEUED_CHANGES || this.#queuedBytes > MAX_QUEUED_BYTES) this.#pause();
    if (this.#isProcessing) return;
    this.#isProcessing = true;
    // Changes that arrive in the same tick share a batch.
    queueMicrotask(() => void this.#processQueue());
  }

  /** Drops the queued changes. */
  clear(): void {
    this.#queue = [];
    this.#queuedBytes = 0;
  }

  /** Drops the queued changes and starts again with a source that is not paused. */
  reset(): void {
    this.#pausedAt = undefined;
    this.clear();
  }

  /** Returns why the stream must be dropped. Undefined when the lag is within its limits. */
  async excessiveLag(): Promise<string | undefined> {
    const pausedAt = this.#pausedAt;
    if (pausedAt === undefined) return undefined;
    if (performance.now() - pausedAt > MAX_LAG_MS) return 'clients were more than 30 s behind';
    // A database that does not respond writes no WAL.
    const retained = await this.#options.source.retainedWalBytes().catch(() => 0n);
    // Reading may have resumed before the response.
    if (retained <= MAX_LAG_BYTES || this.#pausedAt !== pausedAt) return undefined;
    return 'clients were more than 64 MB of the write-ahead log behind';
  }

  #pause(): void {
    this.#pausedAt ??= performance.now();
    this.#options.source.pause();
  }

  async #processQueue(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#nextBatch();
      this.#batchCommittedAt = batch[0]?.transaction.committedAt;
      try {
        await this.#options.deliver(batch);
      } catch (error) {
        this.clear();
        this.#options.onFault(error);
      }
      if (batch.length >= BATCH_DELAY_THRESHOLD && this.#queue.length < MAX_BATCH_CHANGES) {
        await sleep(BATCH_WINDOW_MS);
      }
      if (this.#pausedAt !== undefined && this.#queue.length < MAX_QUEUED_CHANGES / 2) {
        this.#pausedAt = undefined;
        this.#options.source.resume();
      }
    }
    this.#isProcessing = false;
    this.#batchCommittedAt = undefined;
  }

  #nextBatch(): SourceChange[] {
    let bytes = 0;
    let count = 0;
    for (const { change } of this.#queue) {
      if (count > 0 && (count >= MAX_BATCH_CHANGES || bytes + change.bytes > MAX_BATCH_BYTES)) break;
      bytes += change.bytes;
      count += 1;
    }
    this.#queuedBytes -= bytes;
    return this.#queue.splice(0, count);
  }
}
