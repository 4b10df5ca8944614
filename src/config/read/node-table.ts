// The nodes of a YAML text as numbers: kind, range, range of the key. A large file has a hundred thousand nodes, so
// none of them is an object. Places are computed on demand.
import { Pair, Scalar, YAMLMap, YAMLSeq, type Node } from 'yaml';
import { readPlain, type ScalarText } from '../schema/scalar.ts';

export type Span = { readonly offset: number; readonly length: number };

export type Place = {
  /** Position of the key. Undefined for list entries. */
  readonly key: Span | undefined;
  readonly value: Span;
  readonly scalar: ScalarText | undefined;
  /** True if the children are entries of a list instead of a map. */
  readonly isList: boolean;
  readonly children: ReadonlyMap<string, Place>;
};

export const KIND = {
  plain: 0,
  /** A plain scalar that its key reads as text, although YAML reads a number or a boolean. */
  written: 1,
  singleQuoted: 2,
  doubleQuoted: 3,
  blockMap: 4,
  flowMap: 5,
  blockList: 6,
  flowList: 7,
  /** A map entry that the library has read. */
  library: 8,
} as const;

/**
 * Numbers per node: kind, start, end, start and end of its key (-1 without one), index of the node after its last
 * child. For an entry of the library, `end` is its index in the list of those entries.
 */
const STRIDE = 6;
/** Collections above this size get an index of their children. */
const MAX_SCANNED_CHILDREN = 16;

export type LibraryEntry = { readonly name: string; readonly node: Node };

/** Nodes in the order of the text, each followed by its children. The first node is the top-level map. */
export class NodeTable {
  readonly text: string;
  readonly #cells: number[] = [];
  readonly #library: Array<{ readonly index: number; readonly entry: LibraryEntry }> = [];
  readonly #children = new Map<number, ReadonlyMap<string, number>>();

  constructor(text: string) {
    this.text = text;
  }

  /** Number of cells, for `truncate`. */
  get size(): number {
    return this.#cells.length;
  }

  /** Removes the nodes that were added since `size`. */
  truncate(size: number): void {
    this.#cells.length = size;
    while ((this.#library.at(-1)?.index ?? -1) >= size) this.#library.pop();
  }

  /** Returns the index of the new node. `close` sets its end. */
  open(kind: number, start: number, keyStart: number, keyEnd: number): number {
    const index = this.#cells.length;
    this.#cells.push(kind, start, start, keyStart, keyEnd, index + STRIDE);
    return index;
  }

  close(index: number, end: number): void {
    this.#cells[index + 2] = end;
    this.#cells[index + 5] = this.#cells.length;
  }

  addLibrary(entry: LibraryEntry, keyStart: number, keyEnd: number): void {
    const index = this.open(KIND.library, keyStart, keyStart, keyEnd);
    this.#cells[index + 2] = this.#library.length;
    this.#library.push({ index, entry });
  }

  kind(index: number): number {
    return this.#cells[index] ?? KIND.plain;
  }

  setKind(index: number, kind: number): void {
    this.#cells[index] = kind;
  }

  start(index: number): number {
    return this.#cells[index + 1] ?? 0;
  }

  end(index: number): number {
    return this.#cells[index + 2] ?? 0;
  }

  keyStart(index: number): number {
    return this.#cells[index + 3] ?? -1;
  }

  keyEnd(index: number): number {
    return this.#cells[index + 4] ?? -1;
  }

  firstChild(index: number): number {
    return index + STRIDE;
  }

  /** Returns the index of the next sibling, or the end of the parent after the last child. */
  next(index: number): number {
    return this.#cells[index + 5] ?? this.#cells.length;
  }

  libraryEntry(index: number): LibraryEntry | undefined {
    return this.kind(index) === KIND.library ? this.#library[this.end(index)]?.entry : undefined;
  }

  keyName(index: number): string {
    if (this.kind(index) === KIND.library) return this.libraryEntry(index)?.name ?? '';
    const [start, end] = [this.keyStart(index), this.keyEnd(index)];
    const isQuoted = this.text[start] === '"' || this.text[start] === "'";
    return isQuoted ? this.text.slice(start + 1, end - 1) : this.text.slice(start, end);
  }

  isList(index: number): boolean {
    const kind = this.kind(index);
    return kind === KIND.blockList || kind === KIND.flowList;
  }

  isScalar(index: number): boolean {
    return this.kind(index) < KIND.blockMap;
  }

  isPlain(index: number): boolean {
    return this.kind(index) <= KIND.written;
  }

  /** Text of a scalar, without its quotes. */
  scalarText(index: number): string {
    const [start, end] = [this.start(index), this.end(index)];
    if (this.isPlain(index)) return this.text.slice(start, end);
    const inner = this.text.slice(start + 1, end - 1);
    return this.kind(index) === KIND.singleQuoted ? inner.replaceAll("''", "'") : inner;
  }

  /** Returns the index of a child by its key or list index, or undefined. */
  child(index: number, step: string): number | undefined {
    if (this.isScalar(index)) return undefined;
    const known = this.#children.get(index);
    if (known) return known.get(step);
    const isList = this.isList(index);
    const end = this.next(index);
    let count = 0;
    for (let child = this.firstChild(index); child < end; child = this.next(child), count += 1) {
      if (count === MAX_SCANNED_CHILDREN) return this.children(index).get(step);
      if (isList ? String(count) === step : this.#hasName(child, step)) return child;
    }
    return undefined;
  }

  children(index: number): ReadonlyMap<string, number> {
    const known = this.#children.get(index);
    if (known) return known;
    const found = new Map<string, number>();
    const isList = this.isList(index);
    const end = this.isScalar(index) ? index : this.next(index);
    for (let child = this.firstChild(index); child < end; child = this.next(child))
      found.set(isList ? String(found.size) : this.keyName(child), child);
    if (found.size > MAX_SCANNED_CHILDREN) this.#children.set(index, found);
    return found;
  }

  #hasName(index: number, name: string): boolean {
    if (this.kind(index) === KIND.library) return this.keyName(index) === name;
    const [start, end] = [this.keyStart(index), this.keyEnd(index)];
    const quotes = end - start - name.length;
    if (quotes === 0) return this.text.startsWith(name, start);
    return quotes === 2 && this.keyName(index) === name;
  }

  /** Converts a node to a node of the library. `depth`: levels of children. Deeper nodes have no value. */
  toNode(index: number, depth = Infinity): Node {
    const range: [number, number, number] = [this.start(index), this.end(index), this.end(index)];
    if (this.kind(index) === KIND.library) return this.libraryEntry(index)?.node ?? new Scalar(null);
    if (this.isScalar(index)) return Object.assign(this.#toScalar(index), { range });
    const children = depth < 1 ? [] : [...this.children(index).values()];
    if (this.isList(index)) {
      const list = new YAMLSeq();
      list.items = children.map((child) => this.toNode(child, depth - 1));
      return Object.assign(list, { range });
    }
    const map = new YAMLMap();
    map.items = children.map(
      (child) => new Pair(new Scalar(this.keyName(child)), this.toNode(child, depth - 1)),
    );
    return Object.assign(map, { range });
  }

  #toScalar(index: number): Scalar {
    const text = this.scalarText(index);
    const kind = this.kind(index);
    const quotes = kind === KIND.singleQuoted ? 'QUOTE_SINGLE' : 'QUOTE_DOUBLE';
    return Object.assign(new Scalar(text), { source: text, type: this.isPlain(index) ? 'PLAIN' : quotes });
  }
}

/** Places of a table whose text is part of the combined text. */
export class TablePlaces {
  readonly table: NodeTable;
  /** Offset of the text among all texts. */
  readonly #base: number;
  /** Places of nodes that were read as objects, by index. */
  readonly #objects = new Map<number, Place>();

  constructor(table: NodeTable, base: number) {
    this.table = table;
    this.#base = base;
  }

  set(index: number, place: Place): void {
    this.#objects.set(index, place);
  }

  at(index: number): Place {
    return this.#objects.get(index) ?? new TablePlace(this, index);
  }

  key(index: number): Span | undefined {
    const start = this.table.keyStart(index);
    return start < 0 ? undefined : { offset: this.#base + start, length: this.table.keyEnd(index) - start };
  }

  span(index: number): Span {
    const start = this.table.start(index);
    return { offset: this.#base + start, length: this.table.end(index) - start };
  }
}

/** Computes its properties from the table on demand. */
export class TablePlace implements Place {
  readonly #places: TablePlaces;
  readonly #index: number;

  constructor(places: TablePlaces, index: number) {
    this.#places = places;
    this.#index = index;
  }

  get key(): Span | undefined {
    return this.#places.key(this.#index);
  }

  /** Returns the span of the key for a block, which begins on the next line, and for a missing value. */
  get value(): Span {
    const { table } = this.#places;
    const kind = table.kind(this.#index);
    const span = this.#places.span(this.#index);
    const isAtKey = kind === KIND.blockMap || kind === KIND.blockList || span.length === 0;
    return (isAtKey ? this.key : undefined) ?? span;
  }

  get scalar(): ScalarText | undefined {
    const { table } = this.#places;
    if (!table.isScalar(this.#index)) return undefined;
    const written = table.scalarText(this.#index);
    const quoted = !table.isPlain(this.#index);
    const isText = quoted || table.kind(this.#index) === KIND.written;
    const { kind, text } = isText ? { kind: 'string' as const, text: written } : readPlain(written);
    return { kind, text, quoted, written, substituted: false };
  }

  get isList(): boolean {
    return this.#places.table.isList(this.#index);
  }

  get children(): ReadonlyMap<string, Place> {
    const children = [...this.#places.table.children(this.#index)];
    return new Map(children.map(([name, child]) => [name, this.#places.at(child)]));
  }

  child(step: string): Place | undefined {
    const child = this.#places.table.child(this.#index, step);
    return child === undefined ? undefined : this.#places.at(child);
  }
}
