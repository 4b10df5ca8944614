// SQL functions. CREATE OR REPLACE cannot change a signature; one with another signature is dropped and made again.
import type { Change } from './change.ts';
import type { DesiredFunction } from '../schema/desired.ts';
import type { Live, LiveFunction } from '../schema/live/live-schema.ts';
import { API_ROLES, PUBLIC } from '../schema/rights/roles.ts';
import type { Ownership } from '../schema/managed.ts';
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
  for (const fn of desired) {
    const key = keyOf(fn);
    const overloads = live.get(key) ?? [];
    const found =
      overloads.find((one) => sameSignature(fn, one)) ??
      (owned.functions.has(key) || overloads.length === 1 ? overloads[0] : undefined);
    for (const other of overloads) {
      if (other !== found)
        unmanaged.push({ table: key, what: 'function', name: `${other.name}(${other.identityArguments})` });
    }
    if (!found) {
      changes.push({ kind: 'create-function', fn, live: null });
      continue;
    }
    const replaceable = sameSignature(fn, found);
    if (!replaceable || rebuild.has(rebuildKey('function', '', found.oid)))
      changes.push({ kind: 'recreate-function', fn, live: found });
    else if (!sameFunction(fn, found)) changes.push({ kind: 'replace-function', fn, live: found });
    if (replaceable && !isGranted(fn, found)) changes.push({ kind: 'grant-function', fn, live: found });
  }
  const declared = new Set(desired.map(keyOf));
  for (const key of owned.functions) {
    if (declared.has(key)) continue;
    for (const found of live.get(key) ?? []) changes.push({ kind: 'drop-function', live: found });
  }
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
    body === live.body &&
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
