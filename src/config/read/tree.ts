// What reading a file gives: a plain value for the schema, and beside it a tree of places that says for every path
// where it stands and how its scalar was written.
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
  /** Plain objects, lists and scalars. What could not be substituted is left out. */
  readonly value: unknown;
  readonly root: Place;
  readonly mistakes: readonly Mistake[];
  /** What variables stood for, with how they are written: values that may be secrets. */
  readonly substitutions: ReadonlyMap<string, string>;
  /** Paths that an overlay sets or removes. */
  readonly changed?: readonly KeyPath[];
  /** Where an overlay removes a key, by its rendered path. */
  readonly removed?: ReadonlyMap<string, Place>;
};

/** Where the value of a path stands; when it is absent, where an overlay removes it, or where its nearest parent stands. */
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

/** The children of a node in a table need not be made to find one of them. */
function childAt(place: Place, step: string | number): Place | undefined {
  return place instanceof TablePlace ? place.child(String(step)) : place.children.get(String(step));
}

export function toPosition({ whole }: Pick<Tree, 'whole'>, { offset }: Span): Position {
  return whole.positionAt(offset);
}

export function mistakeAt(tree: Tree, span: Span, mistake: MistakeText): Mistake {
  const place = { text: tree.whole.text, position: toPosition(tree, span), ...span };
  const { message, hint } = mistake;
  // A message may quote a name from another place of the file: what a variable stands for must not be in it.
  const mask = secretMask(tree.substitutions);
  return makeMistake(place, {
    ...mistake,
    message: mask(message),
    hint: mask(hint),
  });
}

/** A value as a message may show it: quoted, short, and never what a variable stands for. */
export function quote(tree: Tree, path: KeyPath, value: unknown): string {
  const scalar = placeAt(tree, path)?.scalar;
  const shown = scalar?.substituted
    ? scalar.written
    : typeof value === 'string'
      ? value
      : (scalar?.text ?? value);
  if (typeof shown !== 'string') return JSON.stringify(shown) ?? 'nothing';
  const short = shown.length > 60 ? `${shown.slice(0, 57)}…` : shown;
  return scalar && scalar.kind !== 'string' && !scalar.substituted ? short : JSON.stringify(short);
}

/** The same place with other children. */
export function withChildren(place: Place, children: ReadonlyMap<string, Place>): Place {
  const { key, value, scalar, isList } = place;
  return { key, value, scalar, isList, children };
}

/** JSON of a subtree with the digits of its numbers as written. */
export function toJson(place: Place): string {
  const { scalar, children } = place;
  if (scalar) return scalar.kind === 'string' ? JSON.stringify(scalar.text) : scalar.text;
  const entries = [...children];
  if (place.isList) return `[${entries.map(([, child]) => toJson(child)).join(',')}]`;
  return `{${entries.map(([key, child]) => `${JSON.stringify(key)}:${toJson(child)}`).join(',')}}`;
}
