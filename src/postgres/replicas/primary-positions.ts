// Where the primary was and when, over the last while: tells how old the data of a replica is at most.
import { parsePosition, type Position } from './position.ts';

export type Sample = {
  readonly text: string;
  readonly position: Position;
  /** `performance.now()` when it was asked for: whatever was acknowledged before that is below it. */
  readonly at: number;
};

export class PrimaryPositions {
  readonly #keptMs: number;
  /** From old to new. */
  readonly #samples: Sample[] = [];

  /** Samples are kept for so long. */
  constructor(keptMs: number) {
    this.#keptMs = keptMs;
  }

  add(text: string, at: number): void {
    const samples = this.#samples;
    const position = parsePosition(text);
    // Of a primary that stands still only the last one tells anything.
    while (samples.at(-1) !== undefined && (samples.at(-1)?.position ?? 0n) >= position) samples.pop();
    samples.push({ text, position, at });
    while ((samples[0]?.at ?? at) < at - this.#keptMs) samples.shift();
  }

  /** The newest that is at or below this position; undefined when all are above it. */
  newestIn(replayed: Position): Sample | undefined {
    return this.#samples.findLast(({ position }) => position <= replayed);
  }
}
