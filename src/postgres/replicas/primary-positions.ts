// Recent WAL positions of the primary with their times. They bound the staleness of a replica.
import { parsePosition, type Position } from './position.ts';

export type Sample = {
  readonly text: string;
  readonly position: Position;
  /** `performance.now()` before the query: every earlier acknowledged commit is below the position. */
  readonly at: number;
};

export class PrimaryPositions {
  readonly #keptMs: number;
  /** Samples from old to new. */
  readonly #samples: Sample[] = [];

  /** Samples are kept for so long. */
  constructor(keptMs: number) {
    this.#keptMs = keptMs;
  }

  add(text: string, at: number): void {
    const samples = this.#samples;
    const position = parsePosition(text);
    // While the primary is idle, only the latest sample is useful.
    while (samples.at(-1) !== undefined && (samples.at(-1)?.position ?? 0n) >= position) samples.pop();
    samples.push({ text, position, at });
    while ((samples[0]?.at ?? at) < at - this.#keptMs) samples.shift();
  }

  /** Returns the newest sample at or below this position, or undefined if all are above it. */
  newestIn(replayed: Position): Sample | undefined {
    return this.#samples.findLast(({ position }) => position <= replayed);
  }
}
