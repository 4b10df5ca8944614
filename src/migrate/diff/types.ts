// Types: made, given values, described, dropped. What an enum cannot do, such as losing a value, happened before: see
// `plan/types.ts`.
import type { TypeDefinitionChange } from './change.ts';
import type { DesiredType } from '../schema/desired.ts';
import type { Live, LiveType } from '../schema/live-schema.ts';
import type { Ownership } from '../schema/managed.ts';
import { isReplacedType } from '../schema/label.ts';
import { keyOf } from '../schema/model.ts';

export function diffTypes(desired: readonly DesiredType[], live: Live['types']): TypeDefinitionChange[] {
  return desired.flatMap((type): TypeDefinitionChange[] => {
    const found = live.get(keyOf(type));
    const { comment = null } = type.model;
    const describe = { kind: 'comment-type', type } as const;
    if (!found) return [{ kind: 'create-type', type }, ...(comment === null ? [] : [describe])];
    const values = newValues(type, found);
    return [
      ...(values.length === 0 ? [] : [{ kind: 'add-values', type, live: found, values } as const]),
      ...(comment === found.comment ? [] : [describe]),
    ];
  });
}

/** After everything that may use them. */
export function diffRemovedTypes(
  desired: readonly DesiredType[],
  live: Live['types'],
  owned: Ownership,
): TypeDefinitionChange[] {
  const declared = new Set(desired.map(keyOf));
  return [...live].flatMap(([key, found]): TypeDefinitionChange[] => {
    if (declared.has(key)) return [];
    // What still used it when it left the file may have been pruned since.
    const isLeft = owned.retiredTypes.has(key) ? !found.used : owned.types.has(key) || isReplacedType(key);
    return isLeft ? [{ kind: 'drop-type', live: found }] : [];
  });
}

function newValues(
  { model: { values } }: DesiredType,
  live: LiveType,
): { value: string; before: string | null }[] {
  const known = new Set(live.values);
  return values.flatMap((value, n) =>
    known.has(value) ? [] : [{ value, before: values.slice(n + 1).find((one) => known.has(one)) ?? null }],
  );
}
