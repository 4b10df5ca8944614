// The last lines of the log, kept in memory for whoever looks at them in the dashboard. A line is kept as the text
// that was written anyway, redacted like it; only a reader pays for taking it apart.

const MOST_LINES = 2000;
/** So that the whole ring stays small whatever is logged. */
const LONGEST_LINE = 8 * 1024;

export type RecentLine = { readonly seq: number; readonly text: string };

export class RecentLines {
  readonly #lines: Array<RecentLine | undefined>;
  readonly #listeners = new Set<(line: RecentLine) => void>();
  #last = 0;

  constructor(most = MOST_LINES) {
    this.#lines = Array.from({ length: most });
  }

  push(text: string): void {
    const line = { seq: ++this.#last, text: text.length > LONGEST_LINE ? shortened(text) : text };
    this.#lines[line.seq % this.#lines.length] = line;
    for (const tell of this.#listeners) tell(line);
  }

  /** Those after `seq`, oldest first. A number from before a restart names none of ours: all are new then. */
  after(seq: number): RecentLine[] {
    const from = seq > this.#last ? 0 : seq;
    const first = Math.max(from, this.#last - this.#lines.length) + 1;
    const found: RecentLine[] = [];
    for (let at = first; at <= this.#last; at++) {
      const line = this.#lines[at % this.#lines.length];
      if (line) found.push(line);
    }
    return found;
  }

  /** Returns how to stop. */
  follow(tell: (line: RecentLine) => void): () => void {
    this.#listeners.add(tell);
    return () => void this.#listeners.delete(tell);
  }
}

/** Still JSON, still the same kind of line: its longest texts are cut. */
function shortened(text: string): string {
  try {
    const cut = (_key: string, value: unknown): unknown =>
      typeof value === 'string' && value.length > 1024 ? `${value.slice(0, 1024)}…` : value;
    const shorter = JSON.stringify(JSON.parse(text, cut));
    if (shorter.length <= LONGEST_LINE) return shorter;
    const { time, level, msg } = JSON.parse(shorter) as Record<string, unknown>;
    return JSON.stringify({ time, level, msg, shortened: true });
  } catch {
    // Not a line of ours; whoever reads it shows it as it is.
    return text.slice(0, LONGEST_LINE);
  }
}
