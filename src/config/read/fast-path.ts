// Reads common YAML many times faster than the library: block maps and lists, values on one line, comments. The library
// reads entries with anything else (text over several lines, escapes, tags) as separate documents. It reads the whole
// file if an entry might have a different meaning there, in particular after syntax errors. fast-path.test.ts compares
// both results.
import { isAlias, isMap, isNode, isPair, isScalar, parseAllDocuments, visit, type Node } from 'yaml';
import { KIND, NodeTable, type LibraryEntry } from './node-table.ts';

/** Thrown if the library has to read the entry. */
const UNUSUAL = Symbol('unusual');
/** Thrown if the library has to read the whole document. */
const UNKNOWN = Symbol('unknown');

/** Returns undefined if the library has to read the text. */
export function readFastPath(text: string): NodeTable | undefined {
  // Documents, directives, other line ends and a byte order mark affect more than one entry.
  if (/^(?:---|\.\.\.|%)|[\r\uFEFF]/m.test(text)) return undefined;
  try {
    return new FastReader(text).read();
  } catch (thrown) {
    if (thrown === UNKNOWN || thrown === UNUSUAL) return undefined;
    throw thrown;
  }
}

const KEY = /(?:[A-Za-z_][\w.-]*|"[^"\\\n\t]*"|'[^'\n\t]*')(?=: |:\n|:$)/y;
/** A plain scalar up to the end of the line. Its exact end is determined later. */
const PLAIN = /(?:[^\s\-?:,[\]{}#&*!|>'"%@`]|-[\d.])[^\n\t]*/y;
const PLAIN_IN_FLOW = /(?:[^\s\-?:,[\]{}#&*!|>'"%@`]|-[\d.])[^\n\t,[\]{}]*/y;
const SINGLE_QUOTED = /'(?:[^'\n\t]|'')*'/y;
const DOUBLE_QUOTED = /"[^"\\\n\t]*"/y;
const REST_OF_LINE = / *(?: #[^\n]*)?(?=\n|$)/y;
/** Blank lines and comments, from the start of a line. */
const BETWEEN = /(?: *(?:#[^\n]*)?\n)*/y;
/** A last line without a line end. */
const LAST_LINE = / *(?:#[^\n]*)?$/y;

/** The library reads deeper nesting, because it enforces a limit. */
const MAX_FLOW_DEPTH = 20;
const MAX_BLOCK_DEPTH = 40;
/** YAML's limit for a key is 1,024 characters. */
const MAX_KEY_LENGTH = 1000;
const SPACE = 32;

type Key = { start: number; end: number };
const NO_KEY: Key = { start: -1, end: -1 };

class FastReader {
  readonly #text: string;
  readonly #table: NodeTable;
  /** Offset of the next character. */
  #at = 0;
  #depth = 0;
  /** Characters that the library has read. */
  #libraryCharacters = 0;

  constructor(text: string) {
    this.#text = text;
    this.#table = new NodeTable(text);
  }

  read(): NodeTable {
    this.#skipBetween();
    const indent = this.#indentation();
    this.#at += indent;
    this.#readBlockMap(indent, NO_KEY);
    if (this.#at < this.#text.length) throw UNKNOWN;
    return this.#table;
  }

  /** Reads from the first key, in column `indent`, to the start of the first line after the map. */
  #readBlockMap(indent: number, key: Key): void {
    if (!this.#isKey(this.#at)) throw UNUSUAL;
    if (this.#depth >= MAX_BLOCK_DEPTH) throw UNKNOWN;
    this.#depth += 1;
    const map = this.#table.open(KIND.blockMap, this.#at, key.start, key.end);
    for (;;) {
      this.#readEntry(indent);
      const next = this.#indentation();
      if (next !== indent || this.#isEnd(next) || this.#isItem(this.#at + next)) break;
      this.#at += next;
    }
    this.#table.close(map, this.#at);
    this.#depth -= 1;
  }

  #readEntry(indent: number): void {
    const start = this.#at;
    const depth = this.#depth;
    const { size } = this.#table;
    try {
      const key = this.#readKey();
      if (key === undefined) throw UNUSUAL;
      this.#at += 1;
      this.#readBlockValue(indent, key);
    } catch (thrown) {
      if (thrown !== UNUSUAL) throw thrown;
      this.#at = start;
      this.#depth = depth;
      this.#table.truncate(size);
      this.#readByLibrary(indent);
    }
  }

  /** Reads the value after the colon of a key, or the dash of an item, in column `indent`. */
  #readBlockValue(indent: number, key: Key): void {
    const end = this.#at;
    if (this.#endsLine()) {
      this.#nextLine();
      const next = this.#indentation();
      const isItem = this.#isItem(this.#at + next);
      if (this.#isEnd(next) || next < indent || (next === indent && !isItem)) {
        this.#table.open(KIND.plain, end, key.start, key.end);
        return;
      }
      this.#at += next;
      if (isItem) this.#readBlockList(next, key);
      else this.#readBlockMap(next, key);
      return;
    }
    this.#skipSpaces();
    this.#readInline(PLAIN, 0, key);
    if (!this.#endsLine()) throw UNUSUAL;
    this.#nextLine();
    // A line with more indentation would continue the value.
    const next = this.#indentation();
    if (next > indent && !this.#isEnd(next)) throw UNUSUAL;
  }

  /** Reads from the first dash, in column `indent`. */
  #readBlockList(indent: number, key: Key): void {
    if (this.#depth >= MAX_BLOCK_DEPTH) throw UNKNOWN;
    this.#depth += 1;
    const list = this.#table.open(KIND.blockList, this.#at, key.start, key.end);
    for (;;) {
      this.#readItem(indent);
      const next = this.#indentation();
      if (next !== indent || !this.#isItem(this.#at + next)) break;
      this.#at += next;
    }
    this.#table.close(list, this.#at);
    this.#depth -= 1;
  }

  #readItem(indent: number): void {
    this.#at += 1;
    const spaces = this.#indentation();
    if (this.#isKey(this.#at + spaces)) {
      this.#at += spaces;
      this.#readBlockMap(indent + 1 + spaces, NO_KEY);
      return;
    }
    if (this.#endsLine()) throw UNUSUAL;
    this.#readBlockValue(indent, NO_KEY);
  }

  /** Reads a value that ends on its line. */
  #readInline(plain: RegExp, depth: number, key: Key): void {
    switch (this.#text[this.#at]) {
      case '{':
        return this.#readFlow(KIND.flowMap, '}', depth + 1, key);
      case '[':
        return this.#readFlow(KIND.flowList, ']', depth + 1, key);
      case "'":
        return this.#readQuoted(SINGLE_QUOTED, KIND.singleQuoted, key);
      case '"':
        return this.#readQuoted(DOUBLE_QUOTED, KIND.doubleQuoted, key);
      // Anchors and aliases affect more than one entry.
      case '&':
      case '*':
        throw UNKNOWN;
      default:
        return this.#readPlain(plain, key);
    }
  }

  #readPlain(pattern: RegExp, key: Key): void {
    const start = this.#at;
    this.#skip(pattern);
    const rest = this.#text.slice(start, this.#at);
    const comment = rest.indexOf(' #');
    let length = comment < 0 ? rest.length : comment;
    while (length > 0 && rest.charCodeAt(length - 1) === SPACE) length -= 1;
    const colon = rest.indexOf(':');
    if (length === 0) throw UNUSUAL;
    if (colon >= 0 && colon < length && /:(?: |$)/.test(rest.slice(colon, length))) throw UNUSUAL;
    this.#at = start + length;
    const scalar = this.#table.open(KIND.plain, start, key.start, key.end);
    this.#table.close(scalar, this.#at);
  }

  #readQuoted(pattern: RegExp, kind: number, key: Key): void {
    const start = this.#at;
    this.#skip(pattern);
    if (this.#at === start) throw UNUSUAL;
    const scalar = this.#table.open(kind, start, key.start, key.end);
    this.#table.close(scalar, this.#at);
  }

  #readFlow(kind: number, closing: string, depth: number, key: Key): void {
    if (depth > MAX_FLOW_DEPTH) throw UNUSUAL;
    const collection = this.#table.open(kind, this.#at, key.start, key.end);
    this.#at += 1;
    this.#skipSpaces();
    for (let first = true; this.#text[this.#at] !== closing; first = false) {
      if (!first) {
        if (this.#text[this.#at] !== ',') throw UNUSUAL;
        this.#at += 1;
        this.#skipSpaces();
      }
      this.#readInline(PLAIN_IN_FLOW, depth, kind === KIND.flowMap ? this.#readFlowKey() : NO_KEY);
      this.#skipSpaces();
    }
    this.#at += 1;
    this.#table.close(collection, this.#at);
  }

  #readFlowKey(): Key {
    const key = this.#readKey();
    if (key === undefined || this.#text[this.#at + 1] !== ' ') throw UNUSUAL;
    this.#at += 1;
    this.#skipSpaces();
    return key;
  }

  /** Reads up to the colon, which is followed by a space or the end of the line. */
  #readKey(): Key | undefined {
    const start = this.#at;
    this.#skip(KEY);
    if (this.#at === start) return undefined;
    if (this.#at - start > MAX_KEY_LENGTH) throw UNUSUAL;
    return { start, end: this.#at };
  }

  /** Reads the entry in column `indent`, with all lines of more indentation, as a document. */
  #readByLibrary(indent: number): void {
    const start = this.#at;
    let end: number;
    do {
      this.#nextLine();
      end = this.#at;
      const next = this.#indentation();
      this.#at += next;
      if (next < indent || (next === indent && !this.#isItem(this.#at))) break;
    } while (this.#at < this.#text.length);
    this.#at = end;
    // Nested entries may each be unusual. This bounds the characters that are read again.
    this.#libraryCharacters += end - start;
    if (this.#libraryCharacters > this.#text.length) throw UNKNOWN;
    const { name, node, keyStart, keyEnd } = readEntry(this.#text.slice(start, end), indent, start);
    this.#table.addLibrary({ name, node }, keyStart, keyEnd);
  }

  /** Moves to the next line that is neither blank nor a comment. */
  #nextLine(): void {
    const end = this.#text.indexOf('\n', this.#at);
    this.#at = end < 0 ? this.#text.length : end + 1;
    this.#skipBetween();
  }

  #skipBetween(): void {
    this.#skip(BETWEEN);
    LAST_LINE.lastIndex = this.#at;
    if (LAST_LINE.test(this.#text)) this.#at = this.#text.length;
  }

  #endsLine(): boolean {
    REST_OF_LINE.lastIndex = this.#at;
    return REST_OF_LINE.test(this.#text);
  }

  #indentation(): number {
    let at = this.#at;
    while (this.#text.charCodeAt(at) === SPACE) at += 1;
    return at - this.#at;
  }

  #skipSpaces(): void {
    this.#at += this.#indentation();
  }

  /** True if only spaces are left. */
  #isEnd(spaces: number): boolean {
    return this.#at + spaces >= this.#text.length;
  }

  #isKey(at: number): boolean {
    KEY.lastIndex = at;
    return KEY.test(this.#text);
  }

  #isItem(at: number): boolean {
    const after = this.#text[at + 1];
    return this.#text[at] === '-' && (after === ' ' || after === '\n');
  }

  #skip(pattern: RegExp): void {
    pattern.lastIndex = this.#at;
    if (pattern.test(this.#text)) this.#at = pattern.lastIndex;
  }
}

/** `start`: offset of the entry in the whole text. The ranges of its nodes are shifted to it. */
function readEntry(
  entry: string,
  indent: number,
  start: number,
): LibraryEntry & { readonly keyStart: number; readonly keyEnd: number } {
  const text = ' '.repeat(indent) + entry;
  const documents = parseAllDocuments(text, { uniqueKeys: false, prettyErrors: false, logLevel: 'silent' });
  const [document, second] = 'empty' in documents ? [] : documents;
  const contents = document?.contents;
  if (!document || second || document.errors.length > 0) throw UNKNOWN;
  // Text that is not an entry of the block map may still be a map as a document.
  if (!isMap(contents) || contents.flow || contents.range?.[0] !== indent) throw UNKNOWN;
  const [pair, another] = contents.items;
  if (!pair || another || !isScalar(pair.key) || !isNode(pair.value)) throw UNKNOWN;
  const { value, source } = pair.key;
  // The position of an empty key depends on the text before it.
  if (source === '') throw UNKNOWN;
  const by = start - indent;
  visit(document, (_key, node) => {
    if (isPair(node) || !isNode(node)) return;
    if (isAlias(node) || node.anchor !== undefined) throw UNKNOWN;
    const [from, to, after] = node.range ?? [0, 0, 0];
    node.range = [from + by, to + by, after + by];
  });
  const name = typeof value === 'string' ? value : (source ?? String(value));
  const [keyStart, keyEnd] = pair.key.range ?? [start, start];
  const node: Node = pair.value;
  return { name, node, keyStart, keyEnd };
}
