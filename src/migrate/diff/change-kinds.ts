// Types and filters for changes of one kind.
import type { Change } from './change.ts';

type OfKind<C, Kind> = C extends { readonly kind: infer Kinds } ? (Kind extends Kinds ? C : never) : never;

/** The type of a change of this kind. */
export type ChangeOf<Kind extends Change['kind']> = OfKind<Change, Kind>;

export function isKind<Kind extends Change['kind']>(
  change: Change,
  ...kinds: readonly Kind[]
): change is ChangeOf<Kind> & Change {
  return (kinds as readonly string[]).includes(change.kind);
}

/** Returns the changes of these kinds, in their order. */
export function ofKind<Kind extends Change['kind']>(
  changes: readonly Change[],
  ...kinds: readonly Kind[]
): Array<ChangeOf<Kind> & Change> {
  return changes.filter((change) => isKind(change, ...kinds));
}
