// SQL functions. CREATE OR REPLACE cannot change a signature; one with another signature is dropped and made again.
import type { Change } from './change.ts';
import type { DesiredFunction } from '../schema/desired.ts';
import type { Live, LiveFunction } from '../schema/live/live-schema.ts';
import { API_ROLES, PUBLIC } from '../schema/rights/roles.ts';
import { groupBy } from '../../lib/group-by.ts';
import type { OwnedFunction, Ownership } from '../schema/managed.ts';
import { keyOf, USUAL_COST, USUAL_ROWS } from '../schema/model.ts';
import { sameList } from '../schema/relation.ts';
import { type Rebuild, rebuildKey, type Unmanaged } from './table-diff.ts';

export function diffFunctions(
  desired: readonly DesiredFunction[],
  live: Live['functions'],
  owned: Ownership,
  rebuild: Rebuild,
  changes: Change[],
  unmanaged: Unmanaged[],
): void {
  const ours = groupBy(owned.functions.values(), keyOf);
  const isOurs = (found: LiveFunction): boolean => {
    const key = keyOf(found);
    return isOwned(found, ours.get(key) ?? [], live.get(key)?.length ?? 0);
  };
  const groups = groupBy(desired, keyOf);
  const found = new Map(
    [...groups].flatMap(([key, declared]) => [...matchOverloads(declared, live.get(key) ?? [], isOurs)]),
  );
  const matched = new Set(found.values());
  for (const key of groups.keys()) {
    for (const other of live.get(key) ?? []) {
      if (!matched.has(other) && !isOurs(other))
        unmanaged.push({ table: key, what: 'function', name: `${other.name}(${other.identityArguments})` });
    }
  }
  for (const fn of desired) diffFunction(fn, found.get(fn), rebuild, changes);
  for (const key of ours.keys()) {
    for (const one of live.get(key) ?? []) {
      if (!matched.has(one) && isOurs(one)) changes.push({ kind: 'drop-function', live: one });
    }
  }
}

function diffFunction(
  fn: DesiredFunction,
  found: LiveFunction | undefined,
  rebuild: Rebuild,
  changes: Change[],
): void {
  if (!found) {
    changes.push({ kind: 'create-function', fn, live: null });
    return;
  }
  const replaceable = sameSignature(fn, found);
  if (!replaceable || rebuild.has(rebuildKey('function', '', found.oid)))
    changes.push({ kind: 'recreate-function', fn, live: found });
  else if (!sameFunction(fn, found) || rebuild.has(rebuildKey('body', '', found.oid)))
    changes.push({ kind: 'replace-function', fn, live: found });
  if (replaceable && !isGranted(fn, found)) changes.push({ kind: 'grant-function', fn, live: found });
}

/**
 * Which function of the database each declared one is, of all that have its name: the one with its signature, otherwise one
 * that PostgreSQL could not tell from it, otherwise one of ours that no other declaration is.
 */
function matchOverloads(
  declared: readonly DesiredFunction[],
  live: readonly LiveFunction[],
  isOurs: (found: LiveFunction) => boolean,
): ReadonlyMap<DesiredFunction, LiveFunction> {
  const found = new Map<DesiredFunction, LiveFunction>();
  const matched = new Set<LiveFunction>();
  const match = (isIt: (fn: DesiredFunction, one: LiveFunction) => boolean): void => {
    for (const fn of declared) {
      const one = found.has(fn) ? undefined : live.find((other) => !matched.has(other) && isIt(fn, other));
      if (!one) continue;
      found.set(fn, one);
      matched.add(one);
    }
  };
  match(sameSignature);
  match(({ normal }, one) => normal !== null && sameList(normal.argumentTypes, one.argumentTypes));
  match((_fn, one) => isOurs(one) || (declared.length === 1 && live.length === 1));
  return found;
}

/** `overloads`: how many functions have its name. What the state knows of a type may be older than its name. */
function isOwned(
  { argumentTypes }: LiveFunction,
  owned: readonly OwnedFunction[],
  overloads: number,
): boolean {
  return owned.some(
    (one) =>
      one.argumentTypes === null ||
      sameList(one.argumentTypes, argumentTypes) ||
      (owned.length === 1 && overloads === 1),
  );
}

/** Whether CREATE OR REPLACE can get there: argument types and names and the result are fixed, defaults only grow. */
export function sameSignature({ normal }: DesiredFunction, live: LiveFunction): boolean {
  return (
    normal !== null &&
    sameList(normal.argumentTypes, live.argumentTypes) &&
    sameList(normal.argumentNames, live.argumentNames) &&
    normal.result === live.result &&
    sameList(normal.outputs ?? [], live.outputs ?? []) &&
    normal.defaults >= live.defaults
  );
}

/**
 * Roles that the file does not name and that are not of the API are left alone. What returns `trigger` nobody can call,
 * whatever the grants.
 */
function isGranted({ model }: DesiredFunction, { callers, result }: LiveFunction): boolean {
  if (result === 'trigger') return true;
  const wanted = callersOf(model);
  const ours: readonly string[] = [...API_ROLES, PUBLIC];
  return (
    wanted.every((role) => callers.includes(role)) &&
    callers.every((role) => wanted.includes(role) || !ours.includes(role))
  );
}

export function callersOf({ execute }: DesiredFunction['model']): readonly string[] {
  return execute ?? API_ROLES;
}

const VOLATILITY: Record<string, string> = { v: 'volatile', s: 'stable', i: 'immutable' };
export const PARALLEL: Readonly<Record<string, string>> = { u: 'unsafe', r: 'restricted', s: 'safe' };
const DEFINER_SETTINGS = ['search_path=public, pg_temp'];

function sameFunction({ model, normal, body }: DesiredFunction, live: LiveFunction): boolean {
  return (
    normal?.arguments === live.arguments &&
    (model.atomic ? normal.atomicBody : body) === live.body &&
    (model.atomic ?? false) === live.atomic &&
    model.language === live.language &&
    model.volatility === VOLATILITY[live.volatility] &&
    model.definer === live.definer &&
    (model.strict ?? false) === live.strict &&
    (model.parallel ?? 'unsafe') === PARALLEL[live.parallel] &&
    (model.cost ?? USUAL_COST) === live.cost &&
    (live.rows === 0 || (model.rows ?? USUAL_ROWS) === live.rows) &&
    sameList(
      (normal.settings ?? (model.definer ? DEFINER_SETTINGS : [])).toSorted(),
      live.settings.toSorted(),
    )
  );
}
