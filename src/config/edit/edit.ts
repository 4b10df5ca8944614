// Edits of svc.yaml as text: only the lines that must change do, so that comments, order and spelling stay the
// author's. An edit that the file would not survive is refused with the mistakes it would make.
import { isDeepStrictEqual } from 'node:util';
import {
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  parseDocument,
  type Document,
  type Node,
  type Pair,
} from 'yaml';
import type { Source } from '../read/source.ts';
import { loadConfig, type LoadOptions } from '../load.ts';
import type { KeyPath, Mistake } from '../mistakes/mistake.ts';
import { renderPath } from '../mistakes/mistake.ts';
import { Problem } from '../../problem/problem.ts';
import { isInFlow, renderEntry, renderInline, renderItem, type Layout } from './yaml-text.ts';

export type ConfigEdit =
  /** Sets the value, making the maps on the way to it. */
  | {
      readonly kind: 'set';
      readonly path: KeyPath;
      readonly value: unknown;
      /** Where a key that is new stands: behind this one, or ahead of all (null); at the end unless said. */
      readonly behind?: string | null | undefined;
    }
  /** The same for an entry that must not be there yet. */
  | { readonly kind: 'add'; readonly path: KeyPath; readonly value: unknown }
  /** Adds to the end of a list, making the list when there is none. */
  | { readonly kind: 'append'; readonly path: KeyPath; readonly value: unknown }
  | { readonly kind: 'delete'; readonly path: KeyPath }
  /** Gives the entry at the path another name. */
  | { readonly kind: 'rename'; readonly path: KeyPath; readonly name: string };

export type Edited =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

/** The text with all edits applied, in order, if the file is still valid then. */
export function editConfigText(source: Source, edits: readonly ConfigEdit[], options: LoadOptions): Edited {
  const text = editText(source.text, edits);
  const loaded = loadConfig({ ...source, text }, options);
  return loaded.ok ? { ok: true, text } : { ok: false, mistakes: loaded.mistakes };
}

/** The same without a look at what the file then says: for keys of our own making. */
export function editText(text: string, edits: readonly ConfigEdit[]): string {
  return edits.reduce(applyEdit, text);
}

function applyEdit(text: string, edit: ConfigEdit): string {
  const document = parse(text);
  const wanted = expected(document.toJS(), edit);
  const spliced = splice(text, document, edit);
  // The cut is trusted only as far as it can be shown right: the new text must say exactly what was asked for.
  if (spliced !== undefined && says(spliced, wanted)) return spliced;
  const rewritten = rewrite(document, edit);
  if (rewritten !== undefined && says(rewritten, wanted)) return rewritten;
  throw new Problem('config_not_editable', 409, `${renderPath(edit.path)} cannot be edited here`, {
    hint: 'Change svc.yaml by hand.',
  });
}

function parse(text: string): Document.Parsed {
  const document = parseDocument(text, { uniqueKeys: false, prettyErrors: false, logLevel: 'silent' });
  const [error] = document.errors;
  if (!error && (document.contents === null || isMap(document.contents))) return document;
  throw new Problem('config_not_editable', 409, 'svc.yaml has mistakes that must be mended by hand first', {
    details: error?.message,
  });
}

function says(text: string, wanted: unknown): boolean {
  const document = parseDocument(text, { uniqueKeys: false, prettyErrors: false, logLevel: 'silent' });
  return document.errors.length === 0 && isDeepStrictEqual(document.toJS(), wanted);
}

// What the edit means, on plain values.

function expected(root: unknown, edit: ConfigEdit): unknown {
  const copy: unknown = structuredClone(root ?? {});
  const [parent, key] = [containerOf(copy, edit), edit.path.at(-1)];
  if (key === undefined || !isObject(parent)) throw noSuchPlace(edit.path);
  switch (edit.kind) {
    case 'add':
      if (Object.hasOwn(parent, key)) {
        throw new Problem('already_declared', 409, `${renderPath(edit.path)} is in svc.yaml already`, {
          hint: 'Choose another name.',
        });
      }
      Reflect.set(parent, key, edit.value);
      return copy;
    case 'set':
      Reflect.set(parent, key, edit.value);
      return copy;
    case 'append': {
      const list: unknown = Reflect.get(parent, key) ?? [];
      if (!Array.isArray(list)) throw noSuchPlace(edit.path);
      Reflect.set(parent, key, [...(list as unknown[]), edit.value]);
      return copy;
    }
    case 'delete':
      if (Array.isArray(parent)) parent.splice(Number(key), 1);
      else Reflect.deleteProperty(parent, key);
      return copy;
    case 'rename': {
      const entries = Object.entries(parent).map(([name, value]) => [name === key ? edit.name : name, value]);
      for (const name of Object.keys(parent)) Reflect.deleteProperty(parent, name);
      Object.assign(parent, Object.fromEntries(entries));
      return copy;
    }
  }
}

/** The map or list that holds the last step; `set`, `add` and `append` make what is missing. */
function containerOf(root: unknown, { kind, path }: ConfigEdit): unknown {
  const mayMake = kind === 'set' || kind === 'add' || kind === 'append';
  let node = root;
  for (const step of path.slice(0, -1)) {
    // Only what the file says: an object's own machinery is no place in it.
    if (!isObject(node) || step === '__proto__') throw noSuchPlace(path);
    const next: unknown = Object.hasOwn(node, step) ? Reflect.get(node, step) : undefined;
    if ((next === undefined || next === null) && mayMake && typeof step === 'string')
      Reflect.set(node, step, {});
    node = Object.hasOwn(node, step) ? Reflect.get(node, step) : undefined;
  }
  const last = path.at(-1);
  if (
    !isObject(node) ||
    last === undefined ||
    last === '__proto__' ||
    (!mayMake && !Object.hasOwn(node, last))
  )
    throw noSuchPlace(path);
  return node;
}

function noSuchPlace(path: KeyPath): Problem {
  return new Problem('no_such_place', 404, `There is no ${renderPath(path)} in svc.yaml`);
}

// The same on the text.

type Found = {
  /** The deepest node on the path that exists. */
  readonly node: Node;
  /** How many steps lead to it. */
  readonly depth: number;
  /** The pair whose value it is; undefined for the root and for entries of lists. */
  readonly pair: Pair | undefined;
  readonly parent: Node | undefined;
};

/** Undefined where the path leads through an alias: what stands there belongs to somebody else too. */
function find(root: Node, path: KeyPath): Found | undefined {
  let found: Found = { node: root, depth: 0, pair: undefined, parent: undefined };
  for (const [index, step] of path.entries()) {
    const { node } = found;
    const pair = isMap(node)
      ? node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(step))
      : undefined;
    const child: unknown = pair ? pair.value : isSeq(node) ? node.items[Number(step)] : undefined;
    if (isAlias(child) && index < path.length - 1) return undefined;
    if (!isScalar(child) && !isMap(child) && !isSeq(child) && !isAlias(child)) return found;
    found = { node: child, depth: index + 1, pair, parent: node };
  }
  return found;
}

function splice(text: string, document: Document.Parsed, edit: ConfigEdit): string | undefined {
  const root = document.contents;
  if (!isMap(root)) return undefined;
  const found = find(root, edit.path);
  if (!found) return undefined;
  const layout: Layout = { text, newline: text.includes('\r\n') ? '\r\n' : '\n' };
  const isWhole = found.depth === edit.path.length;
  switch (edit.kind) {
    case 'delete':
      return isWhole ? remove(layout, found) : undefined;
    case 'rename': {
      const key: unknown = found.pair?.key;
      return isWhole && isScalar(key) ? replace(text, key, renderInline(edit.name)) : undefined;
    }
    case 'append':
      if (!isWhole) return setAt(layout, found, edit.path, [edit.value]);
      if (isSeq(found.node)) return addItem(layout, found.node, edit.value);
      return isEmpty(found.node) ? setAt(layout, found, edit.path, [edit.value]) : undefined;
    case 'add':
      return setAt(layout, found, edit.path, edit.value);
    case 'set':
      return setAt(layout, found, edit.path, edit.value, edit.behind);
  }
}

function setAt(
  layout: Layout,
  found: Found,
  path: KeyPath,
  value: unknown,
  behind?: string | null,
): string | undefined {
  const rest = path.slice(found.depth);
  const whole = rest.reduceRight<unknown>((inner, step) => ({ [step]: inner }), value);
  if (rest.length > 0 && isMap(found.node)) {
    const [key = '', ...deeper] = rest;
    const inner = deeper.reduceRight<unknown>((below, step) => ({ [step]: below }), value);
    const entry = { key: String(key), value: inner };
    return behind === undefined
      ? addPair(layout, found.node, entry.key, inner)
      : insertPair(layout, found.node, entry, behind);
  }
  if (rest.length > 0 && !isEmpty(found.node)) return undefined;
  const { node, pair, parent } = found;
  const isSimple = isAlias(node) || (isScalar(node) && !node.type?.startsWith('BLOCK') && !isEmpty(node));
  const isInline = typeof whole !== 'object' || whole === null || isInFlow(layout, node);
  if ((isSimple && isInline) || isFlow(node)) return replace(layout.text, node, renderInline(whole));
  // A block: the whole entry is written anew, behind its key.
  if (!pair || !isMap(parent) || !isScalar(pair.key) || !pair.key.range) return undefined;
  const [start] = pair.key.range;
  const end = endOf(node);
  const trimmed = layout.text.slice(0, end).trimEnd().length;
  const written = layout.text.slice(start, pair.key.range[1]);
  return (
    layout.text.slice(0, start) +
    renderEntry(layout, {
      key: written,
      value: whole,
      column: columnOf(layout.text, start),
      likes: undefined,
    }) +
    layout.text.slice(Math.max(trimmed, pair.key.range[1] + 1))
  );
}

function addPair(layout: Layout, map: Node, key: string, value: unknown): string | undefined {
  if (!isMap(map) || !map.range) return undefined;
  const written = renderInline(key);
  if (map.flow) return intoFlow(layout.text, map, `${written}: ${renderInline(value)}`);
  const last = map.items.at(-1);
  const first: unknown = map.items[0]?.key;
  if (!last || !isScalar(first) || !first.range) return undefined;
  const column = columnOf(layout.text, first.range[0]);
  const entry = renderEntry(layout, { key: written, value, column, likes: asNode(last.value) });
  // Sections of the file stand apart.
  const gap = column === 0 && entry.includes('\n') ? layout.newline : '';
  return afterLine(layout, endOfPair(last), `${gap}${' '.repeat(column)}${entry}`);
}

/** Among the entries that are there: behind the one of that key, or ahead of all. */
function insertPair(
  layout: Layout,
  map: Node,
  { key, value }: { readonly key: string; readonly value: unknown },
  behind: string | null,
): string | undefined {
  const first: unknown = isMap(map) ? map.items[0]?.key : undefined;
  if (!isMap(map) || !isScalar(first) || !first.range) return addPair(layout, map, key, value);
  const before = map.items.find((item) => isScalar(item.key) && item.key.value === behind);
  const [start] = first.range;
  const written = renderInline(key);
  const { text, newline } = layout;
  if (map.flow) {
    const entry = `${written}: ${renderInline(value)}`;
    const at = before ? endOfPair(before) : start;
    return text.slice(0, at) + (before ? `, ${entry}` : `${entry}, `) + text.slice(at);
  }
  const column = columnOf(text, start);
  const indent = ' '.repeat(column);
  const entry = renderEntry(layout, { key: written, value, column, likes: undefined });
  if (before) return afterLine(layout, endOfPair(before), indent + entry);
  return text.slice(0, start) + entry + newline + indent + text.slice(start);
}

function addItem(layout: Layout, list: Node, value: unknown): string | undefined {
  if (!isSeq(list) || !list.range) return undefined;
  if (list.flow) return intoFlow(layout.text, list, renderInline(value));
  const last: unknown = list.items.at(-1);
  const node = asNode(last);
  if (!node) return undefined;
  const column = columnOf(layout.text, list.range[0]);
  return afterLine(layout, endOf(node), renderItem(layout, { value, column, likes: node }));
}

/** Before the closing bracket, in the spacing the brackets have. */
function intoFlow(text: string, node: Node, entry: string): string | undefined {
  if (!(isMap(node) || isSeq(node)) || !node.range) return undefined;
  const close = node.range[1] - 1;
  const before = text.slice(0, close).trimEnd();
  const padding = text.slice(before.length, close);
  if (node.items.length === 0) {
    const space = isMap(node) ? ' ' : '';
    return `${before}${space}${entry}${space}${text.slice(close)}`;
  }
  return `${before}${before.endsWith(',') ? '' : ','} ${entry}${padding}${text.slice(close)}`;
}

function remove(layout: Layout, { node, pair, parent }: Found): string | undefined {
  const { text } = layout;
  if (!(isMap(parent) || isSeq(parent)) || !parent.range) return undefined;
  if (parent.items.length === 1) {
    if (!parent.flow) return undefined;
    return replace(text, parent, isMap(parent) ? '{}' : '[]');
  }
  const start = pair ? startOf(pair.key) : node.range?.[0];
  if (start === undefined) return undefined;
  if (parent.flow) {
    // With the comma behind it; the last one takes the comma before it.
    const end = endOf(node);
    const behind = /^\s*,\s*/.exec(text.slice(end));
    if (behind) return text.slice(0, start) + text.slice(end + behind[0].length);
    return text.slice(0, start).replace(/,\s*$/, '') + text.slice(end);
  }
  const lineStart = text.lastIndexOf('\n', start - 1) + 1;
  const before = text.slice(lineStart, start);
  const isOwnLine = isPair(pair) ? /^\s*$/.test(before) : /^\s*-\s*$/.test(before);
  if (!isOwnLine) return undefined;
  return text.slice(0, lineStart) + text.slice(afterEnd(text, endOf(node)));
}

/** Whatever cannot be cut into the text is done on the document, which keeps comments but not every space. */
function rewrite(document: Document.Parsed, edit: ConfigEdit): string | undefined {
  const path = [...edit.path];
  if (document.contents && !find(document.contents, path)) return undefined;
  const copy = document.clone();
  switch (edit.kind) {
    case 'add':
    case 'set':
      copy.setIn(path, copy.createNode(edit.value));
      break;
    case 'append':
      if (isSeq(copy.getIn(path, true))) copy.addIn(path, copy.createNode(edit.value));
      else copy.setIn(path, copy.createNode([edit.value]));
      break;
    case 'delete':
      copy.deleteIn(path);
      break;
    case 'rename': {
      const parent = copy.getIn(path.slice(0, -1), true);
      const pair = isMap(parent)
        ? parent.items.find((item) => isScalar(item.key) && String(item.key.value) === String(path.at(-1)))
        : undefined;
      if (pair) pair.key = copy.createNode(edit.name);
      break;
    }
  }
  return copy.toString({ lineWidth: 0 });
}

function replace(text: string, node: Node, by: string): string | undefined {
  if (!node.range) return undefined;
  return text.slice(0, node.range[0]) + by + text.slice(node.range[1]);
}

/** As a line of its own behind the one that ends here; comments at the end of that line stay where they are. */
function afterLine({ text, newline }: Layout, end: number, line: string): string {
  const at = afterEnd(text, end);
  const before = text.slice(0, at);
  const gap = before === '' || before.endsWith('\n') ? '' : newline;
  return `${before}${gap}${line}${newline}${text.slice(at)}`;
}

/** Behind the line break of the line in which the value ends. */
function afterEnd(text: string, end: number): number {
  // A block text ends behind its own line breaks.
  const last = text.slice(0, end).trimEnd().length;
  const lineBreak = text.indexOf('\n', last);
  return lineBreak < 0 ? text.length : lineBreak + 1;
}

function endOfPair(pair: Pair): number {
  const value = asNode(pair.value);
  return value && !isEmpty(value) ? endOf(value) : endOf(asNode(pair.key));
}

function endOf(node: Node | undefined): number {
  return node?.range?.[1] ?? 0;
}

function startOf(node: unknown): number | undefined {
  return asNode(node)?.range?.[0];
}

function columnOf(text: string, offset: number): number {
  return offset - (text.lastIndexOf('\n', offset - 1) + 1);
}

function asNode(value: unknown): Node | undefined {
  return isScalar(value) || isMap(value) || isSeq(value) || isAlias(value) ? value : undefined;
}

function isFlow(node: Node): boolean {
  return (isMap(node) || isSeq(node)) && node.flow === true;
}

/** A key with nothing behind it. */
function isEmpty(node: Node): boolean {
  return isScalar(node) && node.value === null && node.range?.[0] === node.range?.[1];
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
