// A cursor over one decoded parameter value, with the lexical rules of all grammars: names, quoted names, JSON paths,
// types. It records the positions of values (holes), so that the rest of the text is the shape.
import { syntaxError } from '../problem.ts';
import type { FieldPath, JsonStep } from './query.ts';

/** Text after `::`; letters, digits, `_`, `$` and single blanks only. */
const TYPE = /[A-Za-z0-9_$ ]+/y;
const INDEX = /-?\d+(?=->|::|[.,)]|$)/y;
const WIDE_NAME_CHAR = /[\p{L}\p{M}\p{N}]/u;

export class Scanner {
  readonly text: string;
  at = 0;
  readonly #part: string;
  readonly #holes: number[] = [];

  constructor(text: string, part: string) {
    this.text = text;
    this.#part = part;
  }

  get done(): boolean {
    return this.at >= this.text.length;
  }

  /** The character under the cursor; an empty string at the end. */
  get char(): string {
    return this.text.charAt(this.at);
  }

  startsWith(token: string): boolean {
    return this.text.startsWith(token, this.at);
  }

  eat(token: string): boolean {
    if (!this.startsWith(token)) return false;
    this.at += token.length;
    return true;
  }

  expect(token: string): void {
    if (!this.eat(token)) this.fail(`"${token}"`);
  }

  skipBlanks(): void {
    while (this.char === ' ' || this.char === '\t') this.at++;
  }

  /** Parses a comma-separated list of at least one item. */
  list<T>(item: () => T): T[] {
    const items: T[] = [];
    do {
      this.skipBlanks();
      items.push(item());
      this.skipBlanks();
    } while (this.eat(','));
    return items;
  }

  expectEnd(): void {
    if (!this.done) this.fail('end of input');
  }

  fail(expecting: string): never {
    const found = this.done ? 'end of input' : JSON.stringify(this.char);
    throw syntaxError(this.#part, this.text, this.at + 1, `unexpected ${found} expecting ${expecting}`);
  }

  /** Everything from `start` to the cursor is a value and no part of the shape. */
  hole(start: number): void {
    this.#holes.push(start, this.at);
  }

  /** Returns the text without its values. NUL marks each hole and cannot occur elsewhere. */
  shape(): string {
    let shape = '';
    let from = 0;
    for (let index = 0; index < this.#holes.length; index += 2) {
      shape += `${this.#skeleton(from, this.#holes[index])}\0`;
      from = this.#holes[index + 1] ?? from;
    }
    return shape + this.#skeleton(from);
  }

  #skeleton(from: number, to?: number): string {
    const text = this.text.slice(from, to);
    const nul = text.indexOf('\0');
    if (nul >= 0) {
      this.at = from + nul;
      this.fail('no NUL character');
    }
    return text;
  }

  name(): string {
    if (this.char === '"') return this.quoted();
    const start = this.at;
    while (!this.done && this.#isNameChar()) this.at++;
    const name = this.text.slice(start, this.at).trim();
    if (name === '') this.fail('a name');
    return name;
  }

  /** `"…"` in which a backslash protects the next character. */
  quoted(): string {
    const start = this.at;
    let name = '';
    this.at++;
    for (;;) {
      if (this.done) {
        this.at = start;
        this.fail('a closing quote');
      }
      const char = this.char;
      this.at++;
      if (char === '"') break;
      if (char === '\\') {
        name += this.char;
        this.at++;
      } else {
        name += char;
      }
    }
    if (name === '') this.fail('a name that is not empty');
    return name;
  }

  path(): FieldPath {
    return { column: this.name(), steps: this.#steps() };
  }

  type(): string {
    TYPE.lastIndex = this.at;
    const match = TYPE.exec(this.text)?.[0];
    if (match === undefined || match.trim() === '') this.fail('a type name');
    this.at += match.length;
    return match.trim().replaceAll(/ +/g, ' ');
  }

  #steps(): readonly JsonStep[] {
    if (!this.startsWith('->')) return NO_STEPS;
    const steps: JsonStep[] = [];
    while (this.startsWith('->')) {
      const arrow = this.eat('->>') ? '->>' : '->';
      if (arrow === '->') this.expect('->');
      steps.push({ arrow, key: this.#index() ?? this.#key() });
    }
    return steps;
  }

  #index(): number | undefined {
    INDEX.lastIndex = this.at;
    const match = INDEX.exec(this.text)?.[0];
    // A number beyond 32 bits cannot be an index in PostgreSQL either.
    if (match === undefined || match.length > 10 || Math.abs(Number(match)) > 2_147_483_647) return undefined;
    this.at += match.length;
    return Number(match);
  }

  #key(): string {
    if (this.char === '"') return this.quoted();
    const start = this.at;
    while (!this.done && !'(-:.,>)'.includes(this.char)) this.at++;
    // A dash can be inside a key. A key that starts with a dash must be quoted.
    if (this.at === start) this.fail('a JSON key');
    while (this.char === '-' && !this.startsWith('->')) {
      this.at++;
      while (!this.done && !'(-:.,>)'.includes(this.char)) this.at++;
    }
    return this.text.slice(start, this.at);
  }

  #isNameChar(): boolean {
    const code = this.text.charCodeAt(this.at);
    if (code < 128) {
      return (
        (code >= 97 && code <= 122) ||
        (code >= 65 && code <= 90) ||
        (code >= 48 && code <= 57) ||
        code === 95 ||
        code === 36 ||
        code === 32 ||
        (code === 45 && this.text.charCodeAt(this.at + 1) !== 62)
      );
    }
    const point = this.text.codePointAt(this.at) ?? 0;
    if (!WIDE_NAME_CHAR.test(String.fromCodePoint(point))) return false;
    // The first half of a surrogate pair; the calling loop steps over the second.
    if (point > 0xffff) this.at++;
    return true;
  }
}

const NO_STEPS: readonly JsonStep[] = [];
