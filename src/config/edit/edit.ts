// Edits of svc.yaml that keep all unrelated characters. The `yaml` library determines the meaning of an edit. Its own
// output would change indentation, spacing in brackets, blank lines, the column of comments and CRLF. The new text is
// therefore inserted into the old text, and the output of the library is only the fallback.
import { isDeepStrictEqual } from 'node:util';
import {
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  parseDocument,
  visit,
  type Document,
  type Node,
} from 'yaml';
import { Problem } from '../../problem/problem.ts';
import { renderPath, type KeyPath } from '../mistakes/mistake.ts';
import { editNode, type Change, type Found } from './text-edit.ts';

export type ConfigEdit =
  /** Sets a value and creates the maps on its path. */
  | {
      readonly kind: 'set';
      readonly path: KeyPath;
      readonly value: unknown;
      /** Places a new key after this key, before all keys (null), or last by default. */
      readonly behind?: string | null | undefined;
    }
  /** Sets a value whose key must not exist yet. */
  | { readonly kind: 'add'; readonly path: KeyPath; readonly value: unknown }
  /** Appends to a list and creates the list if needed. */
  | { readonly kind: 'append'; readonly path: KeyPath; readonly value: unknown }
  | { readonly kind: 'delete'; readonly path: KeyPath }
  /** Renames the entry at the path. */
  | { readonly kind: 'rename'; readonly path: KeyPath; readonly name: string };

/** Applies the edits in order. The resulting configuration is not validated. */
export function editText(text: string, edits: readonly ConfigEdit[]): string {
  return edits.reduce(applyEdit, text);
}

function applyEdit(text: string, edit: ConfigEdit): string {
  const document = parse(text);
  const error = document.errors[0];
  if (error || !isMap(document.contents)) {
    throw new Problem('config_not_editable', 409, 'svc.yaml has mistakes that must be corrected first', {
      details: error?.message,
    });
  }
  const change = toChange(document, document.contents, edit);
  const changed = change && changedText(text, document, change);
  if (changed !== undefined) return changed;
  throw new Problem('config_not_editable', 409, `${renderPath(edit.path)} cannot be edited here`, {
    hint: 'Edit svc.yaml directly.',
  });
}

function changedText(text: string, document: Document, change: Change): string | undefined {
  const changed = document.clone();
  applyChange(changed, change);
  const expected = toValue(changed);
  if (expected === undefined) return undefined;
  // Accept only text whose parsed value equals the expected one.
  const isExpected = (made: string | undefined): made is string =>
    made !== undefined && isDeepStrictEqual(toValue(parse(made)), expected);
  const spliced = editNode(text, change);
  if (isExpected(spliced)) return spliced;
  const rewritten = changed.toString({ lineWidth: 0 });
  return isExpected(rewritten) ? rewritten : undefined;
}

function parse(text: string): Document {
  const document: Document = parseDocument(text, {
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: 'silent',
  });
  document.contents ??= document.createNode({});
  return document;
}

/** Returns undefined for a text with errors, including an alias without an anchor. */
function toValue(document: Document): unknown {
  if (document.errors.length > 0) return undefined;
  try {
    return document.toJS();
  } catch (error) {
    if (error instanceof ReferenceError) return undefined;
    throw error;
  }
}

/** Returns undefined if the path leads through an alias, because the node is used elsewhere too. */
function toChange(document: Document, root: Node, edit: ConfigEdit): Change | undefined {
  const { path } = edit;
  const found = find(root, path);
  const { node, keys } = found;
  const rest = path.slice(keys.length);
  const isThere = document.hasIn([...keys, ...rest]);
  const isWhole = rest.length === 0;
  if (isAlias(node) && (!isWhole || edit.kind === 'append')) return undefined;
  const noSuchPlace = new Problem('no_such_place', 404, `There is no ${renderPath(path)} in svc.yaml`);
  if (path.length === 0 || path.includes('__proto__')) throw noSuchPlace;
  if (edit.kind === 'delete' || edit.kind === 'rename') {
    if (!isThere) throw noSuchPlace;
    if (!isWhole) return undefined;
    return edit.kind === 'delete' ? { kind: 'remove', found } : { kind: 'rename', found, name: edit.name };
  }
  if (edit.kind === 'add' && isThere) {
    throw new Problem('already_declared', 409, `${renderPath(edit.path)} is already in svc.yaml`, {
      hint: 'Choose another name.',
    });
  }
  if (edit.kind === 'append' && isWhole && isSeq(node))
    return isShared(document, node)
      ? undefined
      : { kind: 'push', found: { ...found, node }, value: edit.value };
  const isNull = isScalar(node) && node.value === null;
  if (isWhole ? edit.kind === 'append' && !isNull : !(isMap(node) || isNull)) throw noSuchPlace;
  if (rest.some((step) => typeof step === 'number')) throw noSuchPlace;
  const behind = edit.kind === 'set' ? edit.behind : undefined;
  const value = edit.kind === 'append' ? [edit.value] : edit.value;
  const [key] = rest;
  return isMap(node) && key !== undefined
    ? {
        kind: 'insert',
        found: { ...found, node },
        key: String(key),
        value: nest(rest.slice(1), value),
        behind,
      }
    : { kind: 'replace', found, value: nest(rest, value) };
}

function nest(steps: KeyPath, value: unknown): unknown {
  return steps.reduceRight((inner, step) => ({ [step]: inner }), value);
}

/** Returns true if an alias refers to the node. */
function isShared(document: Document, { anchor }: Found['node']): boolean {
  let shared = false;
  visit(document, { Alias: (_key, { source }) => void (shared ||= source === anchor) });
  return shared;
}

/** Returns the deepest existing node on the path. */
function find(root: Node, path: KeyPath): Found {
  let found: Found = { node: root, keys: [], pair: undefined, parent: undefined };
  for (const step of path) {
    const { node, keys } = found;
    const pair = isMap(node)
      ? node.items.find(({ key }) => isScalar(key) && String(key.value) === String(step))
      : undefined;
    const child: unknown = isSeq(node) ? node.items[Number(step)] : pair?.value;
    if (!isNode(child)) return found;
    const key = isScalar(pair?.key) ? pair.key.value : step;
    found = { node: child, keys: [...keys, key], pair, parent: node };
  }
  return found;
}

function applyChange(document: Document, change: Change): void {
  const { keys, pair } = change.found;
  switch (change.kind) {
    case 'insert':
      return document.setIn([...keys, change.key], document.createNode(change.value));
    case 'replace':
      return document.setIn(keys, document.createNode(change.value));
    case 'push':
      return document.addIn(keys, document.createNode(change.value));
    case 'remove':
      return void document.deleteIn(keys);
    case 'rename': {
      const parent = document.getIn(keys.slice(0, -1), true);
      const name: unknown = isScalar(pair?.key) ? pair.key.value : undefined;
      const renamed = isMap(parent)
        ? parent.items.find(({ key }) => isScalar(key) && key.value === name)
        : undefined;
      if (renamed) renamed.key = document.createNode(change.name);
    }
  }
}
