// Changes one node in the YAML text and keeps every other character. Returns undefined if that is not possible. edit.ts
// checks the meaning of the result.
import {
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  type Node,
  type Pair,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml';
import { isFlow, renderEntry, renderInline, renderItem, type Layout } from './render.ts';

export type Found<Kind extends Node = Node> = {
  readonly node: Kind;
  /** Keys on the path of the node, as in the document. */
  readonly keys: readonly unknown[];
  /** The pair that contains the node as value. Undefined for the root and for list entries. */
  readonly pair: Pair | undefined;
  readonly parent: Node | undefined;
};

export type Change =
  | { readonly kind: 'replace'; readonly found: Found; readonly value: unknown }
  | {
      readonly kind: 'insert';
      readonly found: Found<YAMLMap>;
      readonly key: string;
      readonly value: unknown;
      readonly behind: string | null | undefined;
    }
  | { readonly kind: 'push'; readonly found: Found<YAMLSeq>; readonly value: unknown }
  | { readonly kind: 'remove'; readonly found: Found }
  | { readonly kind: 'rename'; readonly found: Found; readonly name: string };

export function editNode(text: string, change: Change): string | undefined {
  const layout: Layout = { text, newline: text.includes('\r\n') ? '\r\n' : '\n' };
  const { found } = change;
  switch (change.kind) {
    case 'replace':
      return replace(layout, found, change.value);
    case 'insert':
      return insert(layout, change);
    case 'push':
      return push(layout, change.found.node, change.value);
    case 'remove':
      return remove(text, found);
    case 'rename':
      return isScalar(found.pair?.key)
        ? overwrite(text, found.pair.key, renderInline(change.name))
        : undefined;
  }
}

function replace(layout: Layout, { node, pair, parent }: Found, value: unknown): string | undefined {
  const { text } = layout;
  const isSimple = isAlias(node) || (isScalar(node) && !node.type?.startsWith('BLOCK') && !isEmpty(node));
  const isInline = typeof value !== 'object' || value === null || isInFlow(text, node);
  if (isFlow(node) || (isSimple && isInline)) return overwrite(text, node, renderInline(value));
  // Rewrite the whole block entry after its key.
  if (!isMap(parent) || !isScalar(pair?.key) || !pair.key.range) return undefined;
  const [start, keyEnd] = pair.key.range;
  const end = text.slice(0, nodeEnd(node)).trimEnd().length;
  const entry = renderEntry(layout, {
    key: text.slice(start, keyEnd),
    value,
    column: toColumn(text, start),
    like: undefined,
  });
  return text.slice(0, start) + entry + text.slice(Math.max(end, keyEnd + 1));
}

function insert(
  layout: Layout,
  { found, key, value, behind }: Extract<Change, { kind: 'insert' }>,
): string | undefined {
  const { text, newline } = layout;
  const map = found.node;
  const first = map.items[0]?.key;
  const written = renderInline(key);
  const before =
    behind === undefined
      ? map.items.at(-1)
      : map.items.find((item) => isScalar(item.key) && item.key.value === behind);
  if (map.flow) return intoFlow(text, map, `${written}: ${renderInline(value)}`, before && endOfPair(before));
  if (!isScalar(first) || !first.range) return undefined;
  const [start] = first.range;
  const column = toColumn(text, start);
  const indent = ' '.repeat(column);
  const like = behind === undefined ? before?.value : undefined;
  const entry = renderEntry(layout, { key: written, value, column, like });
  if (!before) return text.slice(0, start) + entry + newline + indent + text.slice(start);
  // Separate sections of the file with an empty line.
  const gap = behind === undefined && column === 0 && entry.includes('\n') ? newline : '';
  return afterLine(layout, endOfPair(before), gap + indent + entry);
}

function push(layout: Layout, list: YAMLSeq, value: unknown): string | undefined {
  const last = list.items.at(-1);
  if (list.flow) return intoFlow(layout.text, list, renderInline(value), nodeEnd(last));
  if (!list.range || last === undefined) return undefined;
  const column = toColumn(layout.text, list.range[0]);
  return afterLine(layout, nodeEnd(last), renderItem(layout, { value, column, like: last }));
}

/** Inserts after the entry that ends at `before`, or first. */
function intoFlow(
  text: string,
  node: YAMLMap | YAMLSeq,
  entry: string,
  before: number | undefined,
): string | undefined {
  if (!node.range) return undefined;
  const start = node.range[0] + 1;
  if (node.items.length === 0) {
    const space = isMap(node) ? ' ' : '';
    return overwrite(text, node, `${text[node.range[0]]}${space}${entry}${space}${text[node.range[1] - 1]}`);
  }
  if (before !== undefined) return `${text.slice(0, before)}, ${entry}${text.slice(before)}`;
  const padding = /^\s*/.exec(text.slice(start))?.[0] ?? '';
  return `${text.slice(0, start)}${padding}${entry}, ${text.slice(start + padding.length)}`;
}

function remove(text: string, { node, pair, parent }: Found): string | undefined {
  if (!isMap(parent) && !isSeq(parent)) return undefined;
  if (parent.items.length === 1)
    return parent.flow ? overwrite(text, parent, isMap(parent) ? '{}' : '[]') : undefined;
  const head = pair ? pair.key : node;
  const start = isNode(head) ? head.range?.[0] : undefined;
  if (start === undefined) return undefined;
  const end = nodeEnd(node);
  if (parent.flow) {
    // Remove the comma after the entry. The last entry has a comma before it.
    const behind = /^\s*,\s*/.exec(text.slice(end));
    if (behind) return text.slice(0, start) + text.slice(end + behind[0].length);
    return text.slice(0, start).replace(/,\s*$/, '') + text.slice(end);
  }
  const lineStart = text.lastIndexOf('\n', start - 1) + 1;
  const isOwnLine = (pair ? /^\s*$/ : /^\s*-\s*$/).test(text.slice(lineStart, start));
  return isOwnLine ? text.slice(0, lineStart) + text.slice(afterEnd(text, end)) : undefined;
}

function overwrite(text: string, node: Node, by: string): string | undefined {
  if (!node.range) return undefined;
  return text.slice(0, node.range[0]) + by + text.slice(node.range[1]);
}

/** Inserts a line after the line that contains `end`, including its trailing comment. */
function afterLine({ text, newline }: Layout, end: number, line: string): string {
  const before = text.slice(0, afterEnd(text, end));
  const gap = before === '' || before.endsWith('\n') ? '' : newline;
  return `${before}${gap}${line}${newline}${text.slice(before.length)}`;
}

/** Returns the offset after the line break of the last line of the value. */
function afterEnd(text: string, end: number): number {
  // The range of a block text includes its line breaks.
  const last = text.slice(0, end).trimEnd().length;
  const lineBreak = text.indexOf('\n', last);
  return lineBreak < 0 ? text.length : lineBreak + 1;
}

function endOfPair({ key, value }: Pair): number {
  return nodeEnd(isNode(value) && !isEmpty(value) ? value : key);
}

function nodeEnd(node: unknown): number {
  return (isNode(node) && node.range?.[1]) || 0;
}

function toColumn(text: string, offset: number): number {
  return offset - (text.lastIndexOf('\n', offset - 1) + 1);
}

/** True inside brackets, where a block is not allowed. */
function isInFlow(text: string, node: Node): boolean {
  const start = node.range?.[0] ?? 0;
  const line = text.slice(start - toColumn(text, start), start);
  return /[{[,]/.test(line.replaceAll(/"[^"]*"|'[^']*'/g, ''));
}

/** True for a key without a value. */
function isEmpty(node: Node): boolean {
  return isScalar(node) && node.value === null && node.range?.[0] === node.range?.[1];
}
