// Result of reading a file: a plain value for the schema, and a tree of places with the position and the written form
// of each value.
import { secretMask } from '../../lib/secret-mask.ts';
import {
  makeMistake,
  renderPath,
  type KeyPath,
  type Mistake,
  type MistakeText,
  type Position,
} from '../mistakes/mistake.ts';
import { TablePlace, type Place, type Span } from './node-table.ts';
import type { CombinedSource } from './combined-source.ts';

export type Tree = {
  readonly whole: CombinedSource;
  /** Plain objects, lists and scalars. Values with an unresolved reference are absent. */
  readonly value: unknown;
  readonly root: Place;
  readonly mistakes: readonly Mistake[];
  /** References by the value that replaced them. These values can be secrets. */
  readonly substitutions: ReadonlyMap<string, string>;
  /** Paths that an overlay sets or removes. */
  readonly changed?: readonly KeyPath[];
  /** Places where an overlay removes a key, by rendered path. */
  readonly removed?: ReadonlyMap<string, Place>;
};

/** Returns the span of a path. For an absent value, returns its removal in an overlay, or its nearest parent. */
export function locate(tree: Tree, path: KeyPath, part: 'value' | 'key' = 'value'): Span {
  let place = tree.root;
  for (const [index, step] of path.entries()) {
    const child = childAt(place, step);
    if (!child) {
      const removal = tree.removed?.get(renderPath(path.slice(0, index + 1)));
      return removal?.key ?? place.value;
    }
    place = child;
  }
  return part === 'key' ? (place.key ?? place.value) : place.value;
}

export function placeAt(tree: Tree, path: KeyPath): Place | undefined {
  let place: Place | undefined = tree.root;
  for (const step of path) place = place && childAt(place, step);
  return place;
}

/** Avoids creating all children of a table node. */
function childAt(place: Place, step: string | number): Place | undefined {
  return place instanceof TablePlace ? place.child(String(step)) : place.children.get(String(step));
}

export function toPosition({ whole }: Pick<Tree, 'whole'>, { offset }: Span): Position {
  return whole.positionAt(offset);
}

export function mistakeAt(tree: Tree, span: Span, mistake: MistakeText): Mistake {
  const place = { text: tree.whole.text, position: toPosition(tree, span), ...span };
  const { message, hint } = mistake;
  // A message may quote a name from elsewhere in the file. Mask substituted values in it.
  const mask = secretMask(tree.substitutions);
  return makeMistake(place, {
    ...mistake,
    message: mask(message),
    hint: mask(hint),
  });
}

/** Quotes and shortens a value for a message. Shows the reference instead of a substituted value. */
export function quote(tree: Tree, path: KeyPath, value: unknown): string {
  const scalar = placeAt(tree, path)?.scalar;
  const shown = scalar?.substituted
    ? scalar.written
    : typeof value === 'string'
      ? value
      : (scalar?.text ?? value);
  if (typeof shown !== 'string') return JSON.stringify(shown) ?? 'null';
  const short = shown.length > 60 ? `${shown.slice(0, 57)}…` : shown;
  return scalar && scalar.kind !== 'string' && !scalar.substituted ? short : JSON.stringify(short);
}

/** Returns the same place with other children. */
export function withChildren(place: Place, children: ReadonlyMap<string, Place>): Place {
  const { key, value, scalar, isList } = place;
  return { key, value, scalar, isList, children };
}

/** Returns a subtree as JSON with the digits of its numbers as written. */
export function toJson(place: Place): string {
  const { scalar, children } = place;
  if (scalar) return scalar.kind === 'string' ? JSON.stringify(scalar.text) : scalar.text;
  const entries = [...children];
  if (place.isList) return `[${entries.map(([, child]) => toJson(child)).join(',')}]`;
  return `{${entries.map(([key, child]) => `${JSON.stringify(key)}:${toJson(child)}`).join(',')}}`;
}
