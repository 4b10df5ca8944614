// Converts a table of nodes to values and substitutes variables. read-tree.ts reads scalars with a variable and entries
// of the library as nodes.
import type { Node } from 'yaml';
import type { KeyPath } from '../mistakes/mistake.ts';
import {
  childSchema,
  expectsScalar,
  isOptionalContainer,
  canBeSql,
  rootSchema,
  type SchemaNode,
} from '../schema/known-keys.ts';
import { ONLY_TEXT, readPlain, toValue } from '../schema/scalar.ts';
import type { Read } from './merge-parts.ts';
import { KIND, TablePlaces, type NodeTable, type Span } from './node-table.ts';

export type TableOptions = {
  /** Offset of the text among all texts. */
  readonly base: number;
  /** Reads a node as an object. `path`: path of the node. */
  readonly byNode: (node: Node, path: KeyPath, context: NodeContext) => Read;
};

export type NodeContext = { readonly schema: SchemaNode; readonly key: Span | undefined };

/** Returns undefined for a reserved or duplicate key, which only the nodes of the library show. */
export function readTable(table: NodeTable, options: TableOptions): Read | undefined {
  try {
    return new TableReader(table, options).read();
  } catch (thrown) {
    if (thrown === UNUSUAL_KEY) return undefined;
    throw thrown;
  }
}

const UNUSUAL_KEY = Symbol('unusual key');

const RESERVED_KEYS: ReadonlySet<string> = new Set(['<<', '__proto__']);
/** A PostgreSQL operator after a plain scalar, which YAML reads as a comment. */
const MAYBE_OPERATOR = /[ \t]+#[>#=-]/y;

class TableReader {
  readonly #table: NodeTable;
  readonly #places: TablePlaces;
  readonly #byNode: TableOptions['byNode'];
  readonly #path: (string | number)[] = [];

  constructor(table: NodeTable, { base, byNode }: TableOptions) {
    this.#table = table;
    this.#places = new TablePlaces(table, base);
    this.#byNode = byNode;
  }

  read(): Read {
    return { value: this.#read(0, rootSchema()), place: this.#places.at(0) };
  }

  #read(index: number, schema: SchemaNode): unknown {
    switch (this.#table.kind(index)) {
      case KIND.blockMap:
      case KIND.flowMap:
        return this.#readMap(index, schema);
      case KIND.blockList:
      case KIND.flowList:
        return this.#readList(index, schema);
      case KIND.library:
        return this.#readAsNode(index, schema);
      default:
        return this.#readScalar(index, schema);
    }
  }

  #readMap(index: number, schema: SchemaNode): Record<string, unknown> {
    const table = this.#table;
    const value: Record<string, unknown> = {};
    let absent: Set<string> | undefined;
    const end = table.next(index);
    for (let child = table.firstChild(index); child < end; child = table.next(child)) {
      const name = table.keyName(child);
      if (RESERVED_KEYS.has(name) || Object.hasOwn(value, name) || absent?.has(name)) throw UNUSUAL_KEY;
      const inner = childSchema(schema, name);
      this.#path.push(name);
      const read = this.#read(child, inner);
      this.#path.pop();
      const isAbsent = read === undefined || (read === null && isOptionalContainer(inner));
      if (isAbsent) (absent ??= new Set()).add(name);
      else value[name] = read;
    }
    return value;
  }

  #readList(index: number, schema: SchemaNode): unknown[] {
    const table = this.#table;
    const value: unknown[] = [];
    const item = childSchema(schema, 0);
    const end = table.next(index);
    for (let child = table.firstChild(index); child < end; child = table.next(child)) {
      this.#path.push(value.length);
      value.push(this.#read(child, item));
      this.#path.pop();
    }
    return value;
  }

  #readScalar(index: number, schema: SchemaNode): unknown {
    const table = this.#table;
    const text = table.scalarText(index);
    if (text.includes('${')) return this.#readAsNode(index, schema);
    if (!table.isPlain(index)) return text;
    MAYBE_OPERATOR.lastIndex = table.end(index);
    if (MAYBE_OPERATOR.test(table.text) && canBeSql(schema)) return this.#readAsNode(index, schema);
    if (ONLY_TEXT.test(text)) return text;
    const read = readPlain(text);
    if (read.kind === 'null' || expectsScalar(schema) !== 'written') return toValue(read);
    table.setKind(index, KIND.written);
    return text;
  }

  #readAsNode(index: number, schema: SchemaNode): unknown {
    const context = { schema, key: this.#places.key(index) };
    const { value, place } = this.#byNode(this.#table.toNode(index), this.#path, context);
    this.#places.set(index, place);
    return value;
  }
}
