// The YAML that people write in svc.yaml, read many times faster than the library reads it: block maps and lists, values
// in one line, comments. An entry that holds anything else (text over several lines, escapes, tags) is given to the
// library as a small document of its own; for what is not certain to mean the same there, above all for mistakes, the
// whole file is. So every answer is the library's answer, which everyday-yaml.test.ts compares.
import {
  isAlias,
  isMap,
  isNode,
  isPair,
  isScalar,
  parseAllDocuments,
  visit,
  type Node,
  type Pair,
  type Scalar,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml';
import { listOf, mapOf, pairOf, scalarOf } from './light-nodes.ts';

/** Thrown inside of this file: this entry is for the library. */
const UNUSUAL = Symbol('unusual');
/** Thrown inside of this file: the whole document is for the library. */
const UNKNOWN = Symbol('unknown');

/** Undefined: the library has to read it. */
export function readEverydayYaml(text: string): YAMLMap | undefined {
  // Documents, directives, other line ends and a byte order mark reach beyond an entry.
  if (/^(?:---|\.\.\.|%)|[\r\uFEFF]/m.test(text)) return undefined;
  try {
    return new EverydayReader(text).read();
  } catch (thrown) {
    if (thrown === UNKNOWN || thrown === UNUSUAL) return undefined;
    throw thrown;
  }
}

const KEY = /(?:[A-Za-z_][\w.-]*|"[^"\\\n\t]*"|'[^'\n\t]*')(?=: |:\n|:$)/y;
const PLAIN_KEY = /[A-Za-z_][\w.-]*(?=: |:\n|:$)/y;
const QUOTED_KEY = /(?:"([^"\\\n\t]*)"|'([^'\n\t]*)')(?=: |:\n|:$)/y;
/** Up to the end of the line; what may not stand in it is looked for afterwards. */
const PLAIN = /(?:[^\s\-?:,[\]{}#&*!|>'"%@`]|-[\d.])[^\n\t]*/y;
const PLAIN_IN_FLOW = /(?:[^\s\-?:,[\]{}#&*!|>'"%@`]|-[\d.])[^\n\t,[\]{}]*/y;
const SINGLE_QUOTED = /'((?:[^'\n\t]|'')*)'/y;
const DOUBLE_QUOTED = /"([^"\\\n\t]*)"/y;
const REST_OF_LINE = / *(?: #[^\n]*)?(?=\n|$)/y;
/** Blank lines and comments, from the start of a line. */
const BETWEEN = /(?: *(?:#[^\n]*)?\n)*/y;
const INDENTATION = / */y;

/** Collections in one line: more of them inside of each other are for the library, which has a limit. */
const DEEPEST_FLOW = 20;

class EverydayReader {
  readonly #text: string;
  /** What is read next. */
  #at = 0;
  /** Characters that the library has read. */
  #unusual = 0;

  constructor(text: string) {
    this.#text = text;
  }

  read(): YAMLMap {
    this.#skipBetween();
    const indent = this.#indentation();
    this.#at += indent;
    const map = this.#readBlockMap(indent);
    if (this.#at < this.#text.length) throw UNKNOWN;
    return map;
  }

  /** From its first key, which stands in column `indent`, to the start of the first line that is not its own. */
  #readBlockMap(indent: number): YAMLMap {
    if (!this.#isKey(this.#at)) throw UNUSUAL;
    const map = mapOf();
    const start = this.#at;
    for (;;) {
      map.items.push(this.#readEntry(indent));
      const next = this.#indentation();
      if (next !== indent || this.#isEnd(next) || this.#isItem(this.#at + next)) break;
      this.#at += next;
    }
    map.range = [start, this.#at, this.#at];
    return map;
  }

  #readEntry(indent: number): Pair<Scalar, Node> {
    const start = this.#at;
    try {
      const key = this.#readKey();
      if (key === undefined) throw UNUSUAL;
      this.#at += 1;
      return pairOf(key, this.#readBlockValue(indent));
    } catch (thrown) {
      if (thrown !== UNUSUAL) throw thrown;
      this.#at = start;
      return this.#readByLibrary(indent);
    }
  }

  /** What follows the colon of a key, or the dash of an item, in column `indent`. */
  #readBlockValue(indent: number): Node {
    const end = this.#at;
    if (this.#endsLine()) {
      this.#nextLine();
      const next = this.#indentation();
      const isItem = this.#isItem(this.#at + next);
      if (this.#isEnd(next) || next < indent || (next === indent && !isItem))
        return scalarOf('', 'PLAIN', end, end);
      this.#at += next;
      return isItem ? this.#readBlockList(next) : this.#readBlockMap(next);
    }
    this.#skip(INDENTATION);
    const value = this.#readInline(PLAIN, 0);
    if (!this.#endsLine()) throw UNUSUAL;
    this.#nextLine();
    // A line that is further in would go on with the value.
    const next = this.#indentation();
    if (next > indent && !this.#isEnd(next)) throw UNUSUAL;
    return value;
  }

  /** From its first dash, in column `indent`. */
  #readBlockList(indent: number): YAMLSeq {
    const list = listOf();
    const start = this.#at;
    for (;;) {
      list.items.push(this.#readItem(indent));
      const next = this.#indentation();
      if (next !== indent || !this.#isItem(this.#at + next)) break;
      this.#at += next;
    }
    list.range = [start, this.#at, this.#at];
    return list;
  }

  #readItem(indent: number): Node {
    this.#at += 1;
    const spaces = this.#indentation();
    if (this.#isKey(this.#at + spaces)) {
      this.#at += spaces;
      return this.#readBlockMap(indent + 1 + spaces);
    }
    if (this.#endsLine()) throw UNUSUAL;
    return this.#readBlockValue(indent);
  }

  /** A value that ends in its line. */
  #readInline(plain: RegExp, depth: number): Node {
    switch (this.#text[this.#at]) {
      case '{':
        return this.#readFlowMap(depth + 1);
      case '[':
        return this.#readFlowList(depth + 1);
      case "'":
        return this.#readQuoted(SINGLE_QUOTED, 'QUOTE_SINGLE');
      case '"':
        return this.#readQuoted(DOUBLE_QUOTED, 'QUOTE_DOUBLE');
      // Anchors and aliases reach beyond an entry.
      case '&':
      case '*':
        throw UNKNOWN;
      default:
        return this.#readPlain(plain);
    }
  }

  #readPlain(pattern: RegExp): Scalar {
    const start = this.#at;
    this.#skip(pattern);
    const rest = this.#text.slice(start, this.#at);
    const cut = rest.indexOf(' #');
    const said = cut < 0 ? rest : rest.slice(0, cut);
    const written = said.endsWith(' ') ? said.replace(/ +$/, '') : said;
    if (written === '' || /:(?: |$)/.test(written)) throw UNUSUAL;
    this.#at = start + written.length;
    return scalarOf(written, 'PLAIN', start, this.#at);
  }

  #readQuoted(pattern: RegExp, type: 'QUOTE_SINGLE' | 'QUOTE_DOUBLE'): Scalar {
    const start = this.#at;
    const inner = this.#match(pattern)?.[1];
    if (inner === undefined) throw UNUSUAL;
    return scalarOf(type === 'QUOTE_SINGLE' ? inner.replaceAll("''", "'") : inner, type, start, this.#at);
  }

  #readFlowMap(depth: number): YAMLMap {
    const map = mapOf(true);
    this.#readFlow('}', depth, map, () => {
      const key = this.#readKey();
      if (key === undefined || this.#text[this.#at + 1] !== ' ') throw UNUSUAL;
      this.#at += 1;
      this.#skip(INDENTATION);
      map.items.push(pairOf(key, this.#readInline(PLAIN_IN_FLOW, depth)));
    });
    return map;
  }

  #readFlowList(depth: number): YAMLSeq {
    const list = listOf(true);
    this.#readFlow(']', depth, list, () => list.items.push(this.#readInline(PLAIN_IN_FLOW, depth)));
    return list;
  }

  #readFlow(closing: string, depth: number, collection: YAMLMap | YAMLSeq, readItem: () => void): void {
    if (depth > DEEPEST_FLOW) throw UNUSUAL;
    const start = this.#at;
    this.#at += 1;
    this.#skip(INDENTATION);
    for (let first = true; this.#text[this.#at] !== closing; first = false) {
      if (!first) {
        if (this.#text[this.#at] !== ',') throw UNUSUAL;
        this.#at += 1;
        this.#skip(INDENTATION);
      }
      readItem();
      this.#skip(INDENTATION);
    }
    this.#at += 1;
    collection.range = [start, this.#at, this.#at];
  }

  /** Up to its colon, which a space or the end of the line follows. */
  #readKey(): Scalar | undefined {
    const start = this.#at;
    this.#skip(PLAIN_KEY);
    if (this.#at > start) {
      if (this.#at - start > LONGEST_KEY) throw UNUSUAL;
      return scalarOf(this.#text.slice(start, this.#at), 'PLAIN', start, this.#at);
    }
    const found = this.#match(QUOTED_KEY);
    if (!found) return undefined;
    const [whole, double, single] = found;
    const type = double !== undefined ? 'QUOTE_DOUBLE' : 'QUOTE_SINGLE';
    if (whole.length > LONGEST_KEY) throw UNUSUAL;
    return scalarOf(double ?? single ?? '', type, start, this.#at);
  }

  /** The entry in column `indent`, with all lines that are further in, as a document. */
  #readByLibrary(indent: number): Pair<Scalar, Node> {
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
    // Of entries inside of each other each may be unusual: not all of them are read again.
    this.#unusual += end - start;
    if (this.#unusual > this.#text.length) throw UNKNOWN;
    const text = ' '.repeat(indent) + this.#text.slice(start, end);
    const documents = parseAllDocuments(text, { uniqueKeys: false, prettyErrors: false, logLevel: 'silent' });
    const [document, second] = 'empty' in documents ? [] : documents;
    const contents = document?.contents;
    if (!document || second || document.errors.length > 0) throw UNKNOWN;
    // What is no entry of a block map here may be a map of its own there.
    if (!isMap(contents) || contents.flow || contents.range?.[0] !== indent) throw UNKNOWN;
    const [pair, another] = contents.items;
    if (!pair || another || !isScalar(pair.key) || !isNode(pair.value)) throw UNKNOWN;
    // The place of an empty key depends on what stands before it.
    if (pair.key.source === '') throw UNKNOWN;
    visit(document, (_key, node) => {
      if (isPair(node) || !isNode(node)) return;
      if (isAlias(node) || node.anchor !== undefined) throw UNKNOWN;
      const [from, to, after] = node.range ?? [0, 0, 0];
      const by = start - indent;
      node.range = [from + by, to + by, after + by];
    });
    return pairOf(pair.key, pair.value);
  }

  /** To the next line that says something, from anywhere in a line. */
  #nextLine(): void {
    const end = this.#text.indexOf('\n', this.#at);
    this.#at = end < 0 ? this.#text.length : end + 1;
    this.#skipBetween();
  }

  #skipBetween(): void {
    this.#skip(BETWEEN);
    // The last line may have no line end.
    const rest = / *(?:#[^\n]*)?$/y;
    rest.lastIndex = this.#at;
    if (rest.test(this.#text)) this.#at = this.#text.length;
  }

  #endsLine(): boolean {
    REST_OF_LINE.lastIndex = this.#at;
    return REST_OF_LINE.test(this.#text);
  }

  #indentation(): number {
    INDENTATION.lastIndex = this.#at;
    INDENTATION.test(this.#text);
    return INDENTATION.lastIndex - this.#at;
  }

  /** Nothing but spaces is left. */
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

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found) this.#at = pattern.lastIndex;
    return found;
  }
}

/** YAML's limit for a key is 1,024 characters. */
const LONGEST_KEY = 1000;
