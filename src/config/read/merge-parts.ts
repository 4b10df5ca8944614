// Several files → one tree: maps by their keys, a few lists one behind the other. Anything else that stands
// in two files is a mistake, even where both say the same: nobody could tell which one counts.
import type { KeyPath } from '../mistakes/mistake.ts';
import type { Place } from './node-table.ts';
import { withChildren } from './tree.ts';

/** A value, and where everything in it stands. */
export type Read = { readonly value: unknown; readonly place: Place };

/** Called with what stands in two files; the first of them counts meanwhile. */
export type OnTwice = (path: KeyPath, first: Place, second: Place) => void;

/** Lists that are put together, in the order of the files. A star is any name. */
const LISTS: readonly KeyPath[] = [
  ['extensions'],
  ['seed'],
  ['migrations', 'steps'],
  ['auth', 'triggers'],
  ['tables', '*', 'triggers'],
  ['views', '*', 'triggers'],
];
/** Of each file for itself. */
const OWN_KEYS: ReadonlySet<string> = new Set(['version', 'include', 'sql']);

export function mergeParts(first: Read, others: readonly Read[], onTwice: OnTwice): Read {
  return others.reduce((merged, part) => mergeMaps(merged, withoutOwnKeys(part), [], onTwice), first);
}

function withoutOwnKeys({ value, place }: Read): Read {
  return {
    value: Object.fromEntries(Object.entries(toRecord(value)).filter(([key]) => !OWN_KEYS.has(key))),
    place: withChildren(place, new Map([...place.children].filter(([key]) => !OWN_KEYS.has(key)))),
  };
}

function mergeMaps(first: Read, second: Read, path: KeyPath, onTwice: OnTwice): Read {
  const value: Record<string, unknown> = { ...toRecord(first.value) };
  const theirs = toRecord(second.value);
  const children = new Map(first.place.children);
  for (const [name, place] of second.place.children) {
    const before = children.get(name);
    if (before === undefined || isEmpty(before)) {
      children.set(name, place);
      if (name in theirs) value[name] = theirs[name];
      continue;
    }
    if (isEmpty(place)) continue;
    const merged = merge(
      { value: value[name], place: before },
      { value: theirs[name], place },
      [...path, name],
      onTwice,
    );
    children.set(name, merged.place);
    value[name] = merged.value;
  }
  return { value, place: withChildren(first.place, children) };
}

function merge(first: Read, second: Read, path: KeyPath, onTwice: OnTwice): Read {
  if (isMap(first) && isMap(second)) return mergeMaps(first, second, path, onTwice);
  if (isSharedList(path) && first.place.isList && second.place.isList) {
    const values = [...toList(first.value), ...toList(second.value)];
    const places = [...first.place.children.values(), ...second.place.children.values()];
    const children = new Map(places.map((place, index) => [String(index), place]));
    return { value: values, place: withChildren(first.place, children) };
  }
  onTwice(path, first.place, second.place);
  return first;
}

function isSharedList(path: KeyPath): boolean {
  return LISTS.some(
    (list) => list.length === path.length && list.every((step, n) => step === '*' || step === path[n]),
  );
}

/** `tables:` with nothing below it. */
function isEmpty({ scalar }: Place): boolean {
  return scalar?.kind === 'null';
}

export function isMap({ value, place }: Read): boolean {
  return typeof value === 'object' && value !== null && !place.isList && place.scalar === undefined;
}

export function toRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}

function toList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
