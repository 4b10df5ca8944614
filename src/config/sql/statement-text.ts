// Cutting texts out of a statement: by its words, so that strings, comments and brackets are never taken for others.
import type { Extent, Statement, Token } from './parser.ts';

const OPENING = new Set(['(', '[']);
const CLOSING = new Set([')', ']']);

/** The words of a statement, or of a part of it. */
export class Words {
  readonly tokens: readonly Token[];

  constructor(tokens: readonly Token[]) {
    this.tokens = tokens;
  }

  static of(statement: Statement): Words {
    return new Words(statement.tokens);
  }

  get first(): Token | undefined {
    return this.tokens[0];
  }

  get isEmpty(): boolean {
    return this.tokens.length === 0;
  }

  /** Index of the first of these words outside of brackets. */
  find(wanted: ReadonlySet<string>, from = 0): number {
    let depth = 0;
    for (let index = from; index < this.tokens.length; index++) {
      const { text = '' } = this.tokens[index] ?? {};
      if (depth === 0 && wanted.has(text)) return index;
      if (OPENING.has(text)) depth += 1;
      else if (CLOSING.has(text)) depth -= 1;
    }
    return -1;
  }

  slice(from: number, to?: number): Words {
    return new Words(this.tokens.slice(from, to));
  }

  /** Words after the first of these, outside of brackets. */
  after(...wanted: readonly string[]): Words {
    const index = this.find(new Set(wanted));
    return index < 0 ? new Words([]) : this.slice(index + 1);
  }

  before(wanted: ReadonlySet<string>): Words {
    const index = this.find(wanted);
    return index < 0 ? this : this.slice(0, index);
  }

  /** What stands in the first pair of round brackets. */
  get inBrackets(): Words {
    const open = this.tokens.findIndex(({ text }) => text === '(');
    if (open < 0) return new Words([]);
    const close = this.slice(open + 1).find(CLOSING);
    return close < 0 ? new Words([]) : this.slice(open + 1, open + 1 + close);
  }

  split(separator = ','): Words[] {
    if (this.isEmpty) return [];
    const at = this.find(new Set([separator]));
    return at < 0 ? [this] : [this.slice(0, at), ...this.slice(at + 1).split(separator)];
  }

  get extent(): Extent {
    return { start: this.tokens[0]?.start ?? 0, end: this.tokens.at(-1)?.end ?? 0 };
  }

  /** As the file has it. */
  in(text: string): string {
    const { start, end } = this.extent;
    return text.slice(start, end);
  }
}
