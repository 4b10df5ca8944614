// Keeps the last lines of the log in memory for the dashboard. A line is stored as the redacted text that was
// written, and parsed only when it is read.

const MAX_LINES = 2000;
/** So that the whole ring stays small whatever is logged. */
const MAX_LINE_LENGTH = 8 * 1024;

export type RecentLine = { readonly seq: number; readonly text: string };

export type LineSink = { push(text: string): unknown };

/** Source of the dashboard's lines: this process, or all processes of the service. */
export type LineSource = {
  after(seq: number): Promise<readonly RecentLine[]> | readonly RecentLine[];
  follow(notify: (line: RecentLine) => void): () => void;
};

export class RecentLines implements LineSource {
  readonly #lines: Array<RecentLine | undefined>;
  readonly #listeners = new Set<(line: RecentLine) => void>();
  #last = 0;

  constructor(most = MAX_LINES) {
    this.#lines = Array.from({ length: most });
  }

  push(text: string): RecentLine {
    const line = { seq: ++this.#last, text: text.length > MAX_LINE_LENGTH ? shortened(text) : text };
    this.#lines[line.seq % this.#lines.length] = line;
    for (const notify of this.#listeners) notify(line);
    return line;
  }

  /**
   * Returns the lines after `seq`, oldest first. A number above the latest comes from before a restart, so all lines
   * are returned.
   */
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

  /** Returns a function that stops it. */
  follow(notify: (line: RecentLine) => void): () => void {
    this.#listeners.add(notify);
    return () => void this.#listeners.delete(notify);
  }
}

/** Still JSON, still the same kind of line: its longest texts are cut. */
function shortened(text: string): string {
  try {
    const cut = (_key: string, value: unknown): unknown =>
      typeof value === 'string' && value.length > 1024 ? `${value.slice(0, 1024)}…` : value;
    const shorter = JSON.stringify(JSON.parse(text, cut));
    if (shorter.length <= MAX_LINE_LENGTH) return shorter;
    const { time, level, msg } = JSON.parse(shorter) as Record<string, unknown>;
    return JSON.stringify({ time, level, msg, shortened: true });
  } catch {
    // Not JSON of ours: readers show it as it is.
    return text.slice(0, MAX_LINE_LENGTH);
  }
}
