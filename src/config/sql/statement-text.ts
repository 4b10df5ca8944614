// Extracts texts from a statement by its tokens, so that strings and comments are not mistaken for keywords or
// brackets.
import type { Extent, Statement, Token } from './parser.ts';

const OPENING = new Set(['(', '[']);
const CLOSING = new Set([')', ']']);

/** Tokens of a statement, or of a part of it. */
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

  /** Returns the index of the first of these words outside of brackets. */
  find(words: ReadonlySet<string>, from = 0): number {
    let depth = 0;
    for (let index = from; index < this.tokens.length; index++) {
      const { text = '' } = this.tokens[index] ?? {};
      if (depth === 0 && words.has(text)) return index;
      if (OPENING.has(text)) depth += 1;
      else if (CLOSING.has(text)) depth -= 1;
    }
    return -1;
  }

  slice(from: number, to?: number): Words {
    return new Words(this.tokens.slice(from, to));
  }

  /** Returns the tokens after the first of these words outside of brackets. */
  after(...words: readonly string[]): Words {
    const index = this.find(new Set(words));
    return index < 0 ? new Words([]) : this.slice(index + 1);
  }

  before(words: ReadonlySet<string>): Words {
    const index = this.find(words);
    return index < 0 ? this : this.slice(0, index);
  }

  /** Returns the contents of the first pair of parentheses. */
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

  /** Returns the source text. */
  in(text: string): string {
    const { start, end } = this.extent;
    return text.slice(start, end);
  }
}
