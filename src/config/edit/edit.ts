// Edits of svc.yaml that change only the lines they must. The `yaml` library says what an edit means; its own
// output would lose indentation, spacing in brackets, blank lines, the column of comments and CRLF, so the new
// text is cut into the old one, and the library's output is only the fallback.
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
import { cut, type Change, type Found } from './text-edit.ts';

export type ConfigEdit =
  /** Sets the value, making the maps on the way to it. */
  | {
      readonly kind: 'set';
      readonly path: KeyPath;
      readonly value: unknown;
      /** Where a new key goes: behind this one, or ahead of all (null); at the end by default. */
      readonly behind?: string | null | undefined;
    }
  /** The same for an entry that must not be there yet. */
  | { readonly kind: 'add'; readonly path: KeyPath; readonly value: unknown }
  /** Adds to the end of a list, making the list when there is none. */
  | { readonly kind: 'append'; readonly path: KeyPath; readonly value: unknown }
  | { readonly kind: 'delete'; readonly path: KeyPath }
  /** Gives the entry at the path another name. */
  | { readonly kind: 'rename'; readonly path: KeyPath; readonly name: string };

/** The text with all edits applied, in order. What it then says is not checked. */
export function editText(text: string, edits: readonly ConfigEdit[]): string {
  return edits.reduce(applyEdit, text);
}

function applyEdit(text: string, edit: ConfigEdit): string {
  const document = parse(text);
  const error = document.errors[0];
  if (error || !isMap(document.contents)) {
    throw new Problem('config_not_editable', 409, 'svc.yaml has mistakes that must be mended by hand first', {
      details: error?.message,
    });
  }
  const change = toChange(document, document.contents, edit);
  const changed = change && changedText(text, document, change);
  if (changed !== undefined) return changed;
  throw new Problem('config_not_editable', 409, `${renderPath(edit.path)} cannot be edited here`, {
    hint: 'Change svc.yaml by hand.',
  });
}

function changedText(text: string, document: Document, change: Change): string | undefined {
  const changed = document.clone();
  applyChange(changed, change);
  const wanted = toValue(changed);
  if (wanted === undefined) return undefined;
  // Text is trusted only as far as it can be shown right: it must say exactly what was asked for.
  const says = (made: string | undefined): made is string =>
    made !== undefined && isDeepStrictEqual(toValue(parse(made)), wanted);
  const spliced = cut(text, change);
  if (says(spliced)) return spliced;
  const rewritten = changed.toString({ lineWidth: 0 });
  return says(rewritten) ? rewritten : undefined;
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

/** Undefined for a text that has errors, an alias without its anchor among them. */
function toValue(document: Document): unknown {
  if (document.errors.length > 0) return undefined;
  try {
    return document.toJS();
  } catch (error) {
    if (error instanceof ReferenceError) return undefined;
    throw error;
  }
}

/** Undefined where the path leads through an alias: what stands there has other users too. */
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
    throw new Problem('already_declared', 409, `${renderPath(path)} is in svc.yaml already`, {
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

/** True when an alias stands for the node as well. */
function isShared(document: Document, { anchor }: Found['node']): boolean {
  let shared = false;
  visit(document, { Alias: (_key, { source }) => void (shared ||= source === anchor) });
  return shared;
}

/** The deepest node on the path that is there. */
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
