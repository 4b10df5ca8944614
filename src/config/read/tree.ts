// What reading a file gives: a plain value for the schema, and beside it a tree of places that says for every path
// where it stands and how its scalar was written.
import { secretMask } from '../../lib/secret-mask.ts';
import {
  makeMistake,
  type KeyPath,
  type Mistake,
  type MistakeText,
  type Position,
} from '../mistakes/mistake.ts';
import type { ScalarText } from '../schema/scalar.ts';
import type { WholeText } from './whole-text.ts';

export type Span = { readonly offset: number; readonly length: number };

export type Place = {
  /** Where the key is written that leads here; undefined for entries of lists. */
  readonly key: Span | undefined;
  readonly value: Span;
  readonly scalar: ScalarText | undefined;
  /** Present when this is a list, so that its entries can be told from a map's. */
  readonly isList: boolean;
  readonly children: ReadonlyMap<string, Place>;
};

export type Tree = {
  readonly whole: WholeText;
  /** Plain objects, lists and scalars. What could not be substituted is left out. */
  readonly value: unknown;
  readonly root: Place;
  readonly mistakes: readonly Mistake[];
  /** What variables stood for, with how they are written: values that may be secrets. */
  readonly substitutions: ReadonlyMap<string, string>;
};

/** Where the value of a path stands; when it is absent, where its nearest parent does. */
export function locate(tree: Tree, path: KeyPath, part: 'value' | 'key' = 'value'): Span {
  let place = tree.root;
  for (const step of path) {
    const child = place.children.get(String(step));
    if (!child) return place.value;
    place = child;
  }
  return part === 'key' ? (place.key ?? place.value) : place.value;
}

export function placeAt(tree: Tree, path: KeyPath): Place | undefined {
  let place: Place | undefined = tree.root;
  for (const step of path) place = place?.children.get(String(step));
  return place;
}

export function positionOf({ whole }: Pick<Tree, 'whole'>, { offset }: Span): Position {
  return whole.positionAt(offset);
}

export function mistakeAt(tree: Tree, span: Span, mistake: MistakeText): Mistake {
  const place = { text: tree.whole.text, position: positionOf(tree, span), ...span };
  const { message, hint } = mistake;
  // A message may quote a name from another place of the file: what a variable stands for must not be in it.
  const mask = secretMask(tree.substitutions);
  return makeMistake(place, {
    ...mistake,
    message: mask(message),
    hint: hint === undefined ? undefined : mask(hint),
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

/** JSON of a subtree with the digits of its numbers as written. */
export function toJson(place: Place): string {
  const { scalar, children } = place;
  if (scalar) return scalar.kind === 'string' ? JSON.stringify(scalar.text) : scalar.text;
  const entries = [...children];
  if (place.isList) return `[${entries.map(([, child]) => toJson(child)).join(',')}]`;
  return `{${entries.map(([key, child]) => `${JSON.stringify(key)}:${toJson(child)}`).join(',')}}`;
}
