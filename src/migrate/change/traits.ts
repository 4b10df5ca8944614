// One description per kind of change. The record is total: a missing kind is a compile error.
import type { Change } from '../diff/change.ts';
import { COLUMN_TRAITS } from './columns.ts';
import { CONSTRAINT_TRAITS } from './constraints.ts';
import { newTableKey, type ObjectKey, wordKeys } from './object-key.ts';
import { POLICY_TRAITS } from './policies.ts';
import { ROUTINE_TRAITS } from './routines.ts';
import { STATEMENT_TRAITS } from './statements.ts';
import { TABLE_TRAITS } from './tables.ts';
import {
  type AlteredObject,
  removedKey,
  type RemovedObject,
  type Traits,
  type TraitsByKind,
} from './trait-types.ts';
import { VIEW_TRAITS } from './views.ts';

const TRAITS: TraitsByKind = {
  ...COLUMN_TRAITS,
  ...CONSTRAINT_TRAITS,
  ...POLICY_TRAITS,
  ...ROUTINE_TRAITS,
  ...STATEMENT_TRAITS,
  ...TABLE_TRAITS,
  ...VIEW_TRAITS,
};

function findTraits(change: Change): Traits {
  return TRAITS[change.kind] as Traits;
}

/** Returns the keys that are available only after the change. Until then, the texts of removed objects are in use. */
export function provides(change: Change): readonly ObjectKey[] {
  const { provides, holds } = findTraits(change);
  return [...(provides?.(change) ?? []), ...wordKeys('in-use', ...(holds?.(change) ?? []))];
}

export function requires(change: Change): readonly ObjectKey[] {
  const table = 'table' in change ? [newTableKey(change.table)] : [];
  return [...table, ...(findTraits(change).requires?.(change) ?? [])];
}

export function alters(change: Change): AlteredObject | null {
  return findTraits(change).alters?.(change) ?? null;
}

export function removes(change: Change): readonly RemovedObject[] {
  return findTraits(change).removes?.(change) ?? [];
}

/** Returns the `removedKey`s of all objects that the changes drop. */
export function removedKeys(changes: readonly Change[]): ReadonlySet<string> {
  return new Set(changes.flatMap(removes).map(removedKey));
}
