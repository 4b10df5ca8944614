// Compares SQL functions. CREATE OR REPLACE cannot change a signature, so a function with another one is recreated.
import type { Change } from './change.ts';
import type { DesiredFunction } from '../schema/desired.ts';
import type { Live, LiveFunction } from '../schema/live/live-schema.ts';
import { API_ROLES, PUBLIC } from '../schema/rights/roles.ts';
import { groupBy } from '../../lib/group-by.ts';
import type { OwnedFunction, Ownership } from '../schema/managed.ts';
import { objectKey, DEFAULT_COST, DEFAULT_ROWS } from '../schema/model.ts';
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
  const ours = groupBy(owned.functions.values(), objectKey);
  const isManaged = (found: LiveFunction): boolean => {
    const key = objectKey(found);
    return isOwned(found, ours.get(key) ?? [], live.get(key)?.length ?? 0);
  };
  const groups = groupBy(desired, objectKey);
  const found = new Map(
    [...groups].flatMap(([key, declared]) => [...matchOverloads(declared, live.get(key) ?? [], isManaged)]),
  );
  const matched = new Set(found.values());
  for (const key of groups.keys()) {
    for (const other of live.get(key) ?? []) {
      if (!matched.has(other) && !isManaged(other))
        unmanaged.push({ table: key, what: 'function', name: `${other.name}(${other.identityArguments})` });
    }
  }
  const isHidden = (liveFunction: LiveFunction): boolean =>
    (ours.get(objectKey(liveFunction)) ?? []).some(
      ({ hidden, argumentTypes }) =>
        hidden === true && (argumentTypes === null || sameList(argumentTypes, liveFunction.argumentTypes)),
    );
  for (const fn of desired) {
    const liveFunction = found.get(fn);
    const opens = liveFunction === undefined ? [] : newCallers(fn, liveFunction, isHidden(liveFunction));
    diffFunction(fn, liveFunction, { rebuild, opens }, changes);
  }
  for (const key of ours.keys()) {
    for (const liveFunction of live.get(key) ?? []) {
      if (!matched.has(liveFunction) && isManaged(liveFunction))
        changes.push({ kind: 'drop-function', live: liveFunction });
    }
  }
}

function diffFunction(
  fn: DesiredFunction,
  found: LiveFunction | undefined,
  { rebuild, opens }: { readonly rebuild: Rebuild; readonly opens: readonly string[] },
  changes: Change[],
): void {
  if (!found) {
    changes.push({ kind: 'create-function', fn, live: null });
    return;
  }
  const replaceable = sameSignature(fn, found);
  if (!replaceable || rebuild.has(rebuildKey('function', '', found.oid)))
    changes.push({ kind: 'recreate-function', fn, live: found, opens });
  else if (!sameFunction(fn, found) || rebuild.has(rebuildKey('body', '', found.oid)))
    changes.push({ kind: 'replace-function', fn, live: found });
  if (replaceable && (opens.length > 0 || !isGranted(fn, found)))
    changes.push({ kind: 'grant-function', fn, live: found, opens });
}

/**
 * Returns the API roles that gain access to a function. PostgreSQL grants EXECUTE to PUBLIC by default, so a grant to
 * PUBLIC counts only for a function that the API does not serve. `wasHidden`: the API did not serve the function
 * before. The service role is ignored.
 */
function newCallers({ model, normal }: DesiredFunction, live: LiveFunction, wasHidden: boolean): string[] {
  const { callers, result } = live;
  // A function with other argument types is a new function.
  const isNew = normal !== null && !sameList(normal.argumentTypes, live.argumentTypes);
  if (result === 'trigger' || isNew) return [];
  const isHidden = model.hidden === true;
  const hadAccess = (role: string): boolean =>
    callers.includes(role) ? isHidden || !wasHidden : isHidden && callers.includes(PUBLIC);
  return executingRoles(model).filter((role) => role !== 'service_role' && !hadAccess(role));
}

/**
 * Matches declared functions with live functions of the same name: by signature, then by argument types, then with any
 * remaining owned function.
 */
function matchOverloads(
  declared: readonly DesiredFunction[],
  live: readonly LiveFunction[],
  isManaged: (found: LiveFunction) => boolean,
): ReadonlyMap<DesiredFunction, LiveFunction> {
  const found = new Map<DesiredFunction, LiveFunction>();
  const matched = new Set<LiveFunction>();
  const match = (matches: (fn: DesiredFunction, liveFunction: LiveFunction) => boolean): void => {
    for (const fn of declared) {
      const liveFunction = found.has(fn)
        ? undefined
        : live.find((candidate) => !matched.has(candidate) && matches(fn, candidate));
      if (!liveFunction) continue;
      found.set(fn, liveFunction);
      matched.add(liveFunction);
    }
  };
  match(sameSignature);
  match(
    ({ normal }, liveFunction) =>
      normal !== null && sameList(normal.argumentTypes, liveFunction.argumentTypes),
  );
  match((_fn, liveFunction) => isManaged(liveFunction) || (declared.length === 1 && live.length === 1));
  return found;
}

/** `overloads`: number of functions with the name. The recorded name of an argument type may be outdated. */
function isOwned(
  { argumentTypes }: LiveFunction,
  owned: readonly OwnedFunction[],
  overloads: number,
): boolean {
  return owned.some(
    (ownedFunction) =>
      ownedFunction.argumentTypes === null ||
      sameList(ownedFunction.argumentTypes, argumentTypes) ||
      (owned.length === 1 && overloads === 1),
  );
}

/**
 * Returns whether CREATE OR REPLACE is possible. It cannot change argument types, argument names or the result, and it
 * cannot remove defaults.
 */
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
 * Returns whether the grants are as declared. Grants to other roles than the API roles are not changed unless the file
 * names them. A function that returns `trigger` cannot be called, so its grants do not matter.
 */
function isGranted({ model }: DesiredFunction, { callers, result }: LiveFunction): boolean {
  if (result === 'trigger') return true;
  const wanted = executingRoles(model);
  const ours: readonly string[] = [...API_ROLES, PUBLIC];
  return (
    wanted.every((role) => callers.includes(role)) &&
    callers.every((role) => wanted.includes(role) || !ours.includes(role))
  );
}

export function executingRoles({ execute }: DesiredFunction['model']): readonly string[] {
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
    (model.cost ?? DEFAULT_COST) === live.cost &&
    (live.rows === 0 || (model.rows ?? DEFAULT_ROWS) === live.rows) &&
    sameList(
      (normal.settings ?? (model.definer ? DEFINER_SETTINGS : [])).toSorted(),
      live.settings.toSorted(),
    )
  );
}
