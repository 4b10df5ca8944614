// Merges several files into one tree. Maps are merged by key, and a few lists are concatenated. Any other key in two
// files is a mistake, even with equal values, because it would be unclear which one applies.
import type { KeyPath } from '../mistakes/mistake.ts';
import type { Place } from './node-table.ts';
import { withChildren } from './tree.ts';

/** A value, with the places of all its parts. */
export type Read = { readonly value: unknown; readonly place: Place };

/** Called with each key that is in two files. The first value is kept. */
export type OnDuplicate = (path: KeyPath, first: Place, second: Place) => void;

/** Concatenated lists, in the order of the files. `*` matches any name. */
const LISTS: readonly KeyPath[] = [
  ['extensions'],
  ['seed'],
  ['migrations', 'steps'],
  ['auth', 'triggers'],
  ['tables', '*', 'triggers'],
  ['views', '*', 'triggers'],
];
/** Keys that apply to their own file only. */
const OWN_KEYS: ReadonlySet<string> = new Set(['version', 'include', 'sql']);

export function mergeParts(first: Read, more: readonly Read[], onDuplicate: OnDuplicate): Read {
  return more.reduce((merged, part) => mergeMaps(merged, withoutOwnKeys(part), [], onDuplicate), first);
}

function withoutOwnKeys({ value, place }: Read): Read {
  return {
    value: Object.fromEntries(Object.entries(toRecord(value)).filter(([key]) => !OWN_KEYS.has(key))),
    place: withChildren(place, new Map([...place.children].filter(([key]) => !OWN_KEYS.has(key)))),
  };
}

function mergeMaps(first: Read, second: Read, path: KeyPath, onDuplicate: OnDuplicate): Read {
  const value: Record<string, unknown> = { ...toRecord(first.value) };
  const values = toRecord(second.value);
  const children = new Map(first.place.children);
  for (const [name, place] of second.place.children) {
    const before = children.get(name);
    if (before === undefined || isEmpty(before)) {
      children.set(name, place);
      if (name in values) value[name] = values[name];
      continue;
    }
    if (isEmpty(place)) continue;
    const merged = merge(
      { value: value[name], place: before },
      { value: values[name], place },
      [...path, name],
      onDuplicate,
    );
    children.set(name, merged.place);
    value[name] = merged.value;
  }
  return { value, place: withChildren(first.place, children) };
}

function merge(first: Read, second: Read, path: KeyPath, onDuplicate: OnDuplicate): Read {
  if (isMap(first) && isMap(second)) return mergeMaps(first, second, path, onDuplicate);
  if (isSharedList(path) && first.place.isList && second.place.isList) {
    const values = [...toList(first.value), ...toList(second.value)];
    const places = [...first.place.children.values(), ...second.place.children.values()];
    const children = new Map(places.map((place, index) => [String(index), place]));
    return { value: values, place: withChildren(first.place, children) };
  }
  onDuplicate(path, first.place, second.place);
  return first;
}

function isSharedList(path: KeyPath): boolean {
  return LISTS.some(
    (list) => list.length === path.length && list.every((step, n) => step === '*' || step === path[n]),
  );
}

/** True for a key without a value, such as `tables:`. */
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
