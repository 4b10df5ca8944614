// Computes the number of rows in the next batch of a backfill. A batch locks its rows until it commits, so its duration
// is the longest wait of a writer of these rows.

const FIRST_ROWS = 500;
export const MAX_BATCH_ROWS = 20_000;
const TARGET_BATCH_MS = 150;
/** Deadline of a batch. Longer than the lock timeout of a backfill, which is reported as a different error. */
export const MAX_BATCH_MS = 1_500;

export class BatchSize {
  #rows = FIRST_ROWS;

  get rows(): number {
    return this.#rows;
  }

  /** Undefined for a batch of one row, which cannot be split. */
  get deadlineMs(): number | undefined {
    return this.#rows > 1 ? MAX_BATCH_MS : undefined;
  }

  /** Adjusts the size to the target duration. At most doubles it, because the next rows may be slower. */
  succeeded(updated: number, tookMs: number): void {
    // A range with fewer rows does not show the duration of a full batch.
    if (updated < this.#rows && tookMs < TARGET_BATCH_MS) return;
    const factor = Math.min(2, TARGET_BATCH_MS / Math.max(1, tookMs));
    this.#set(this.#rows * factor);
  }

  cancelled(): void {
    this.#set(this.#rows / 2);
  }

  #set(rows: number): void {
    this.#rows = Math.min(MAX_BATCH_ROWS, Math.max(1, Math.floor(rows)));
  }
}
