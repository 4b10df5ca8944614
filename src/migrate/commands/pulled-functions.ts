// Functions of a database as entries under `rpc`.
import { WHOLE_BODY_TYPES } from '../../config/schema/functions.ts';
import { PARALLEL } from '../diff/functions.ts';
import { plainType } from '../../config/schema/overloads.ts';
import { signatureOf } from '../../config/sql/overloads.ts';
import { groupBy } from '../../lib/group-by.ts';
import type { Live, LiveFunction } from '../schema/live/live-schema.ts';
import { API_ROLES, PUBLIC } from '../schema/rights/roles.ts';
import { keyOf, USUAL_COST, USUAL_ROWS } from '../schema/model.ts';
import { pathOf } from '../schema/sql/function-sql.ts';

type Node = Record<string, unknown>;

export type PulledFunctions = {
  /** By their keys under `rpc`. */
  readonly functions: ReadonlyArray<readonly [key: string, keys: Node]>;
  /** `schema.name` of each. */
  readonly names: ReadonlySet<string>;
  /** Keys of those that the API could not choose among. */
  readonly alike: readonly string[];
  readonly left: readonly string[];
};

export function pulledFunctions(live: Live['functions']): PulledFunctions {
  const all = [...live.values()].flat();
  const taken = all.filter((fn) => inexpressible(fn) === null);
  const byName = groupBy(taken, ({ name }) => name);
  const keyIn = (fn: LiveFunction): string =>
    byName.get(fn.name)?.length === 1
      ? fn.name
      : signatureOf({ ...fn, inputs: fn.argumentTypes.map(plainType) });
  const alike = new Set([...live.values()].flatMap((overloads) => servedAlike(overloads)));
  return {
    functions: taken.map((fn) => {
      const key = keyIn(fn);
      return [key, { ...(key === fn.name ? {} : { name: fn.name }), ...toFunction(fn, alike.has(fn)) }];
    }),
    names: new Set(taken.map(keyOf)),
    alike: taken.filter((fn) => alike.has(fn)).map(keyIn),
    left: all.flatMap((fn) => {
      const reason = inexpressible(fn);
      const schema = fn.schema === 'public' ? '' : `${fn.schema}.`;
      return reason === null ? [] : [`function ${schema}${fn.name}(${fn.identityArguments}): ${reason}`];
    }),
  };
}

/** Those that would be served, and have arguments of the same names. */
function servedAlike(overloads: readonly LiveFunction[]): LiveFunction[] {
  const served = overloads.filter(
    (fn) => inexpressible(fn) === null && !isHidden(fn) && rolesOf(fn).length > 0,
  );
  const names = ({ parameters }: LiveFunction): string =>
    JSON.stringify(parameters.flatMap(({ name, mode }) => ('ot'.includes(mode) ? [] : [name])).sort());
  return [...groupBy(served, names).values()].filter((group) => group.length > 1).flat();
}

/** Why the file cannot say it. */
function inexpressible(fn: LiveFunction): string | null {
  if (fn.language !== 'sql' && fn.language !== 'plpgsql') return `its language is ${fn.language}`;
  if (fn.definer && !isPinned(fn.settings)) return 'it is SECURITY DEFINER without a pinned search_path';
  return null;
}

/** Whose path the caller does not decide. */
function isPinned(settings: readonly string[]): boolean {
  const path = settings.find((one) => one.startsWith(SEARCH_PATH))?.slice(SEARCH_PATH.length);
  return path !== undefined && !pathOf(path).includes('$user');
}

const SEARCH_PATH = 'search_path=';
/** What a function with the owner's rights has without a word. */
const USUAL_PATH = `${SEARCH_PATH}public, pg_temp`;

function settingsKey({ definer, settings }: LiveFunction): Node {
  const said = settings
    .filter((one) => !(definer && one === USUAL_PATH))
    .map((one): [string, string] => {
      const at = one.indexOf('=');
      const value = one.slice(at + 1);
      return [one.slice(0, at), value === '""' ? '' : value];
    });
  return said.length === 0 ? {} : { settings: Object.fromEntries(said) };
}

function rolesOf({ callers }: LiveFunction): readonly string[] {
  return callers.includes(PUBLIC) ? API_ROLES : API_ROLES.filter((role) => callers.includes(role));
}

/** Which of the API roles may run it; all of them without a word. `hidden`: the API does not serve it. */
function callersKey(fn: LiveFunction, hidden: boolean): Node {
  if (fn.result === 'trigger') return {};
  const roles = rolesOf(fn);
  const expose = hidden || roles.length === 0 ? { expose: false } : {};
  const isUsual = hidden ? roles.length === 0 : roles.length === API_ROLES.length;
  return { ...expose, ...(isUsual || roles.length === 0 ? {} : { execute: roles }) };
}

/**
 * What has no name cannot be passed by name, and a procedure is called from SQL. Other schemas are not opened by what they
 * hold.
 */
function isHidden(fn: LiveFunction): boolean {
  const isUnnamed = fn.parameters.some(({ name, mode }) => name === '' && !'ot'.includes(mode));
  return (
    fn.schema !== 'public' || fn.isProcedure || fn.result === 'trigger' || (isUnnamed && !takesWholeBody(fn))
  );
}

function takesWholeBody({ parameters: [only, ...more] }: LiveFunction): boolean {
  return only?.mode === 'i' && more.length === 0 && WHOLE_BODY_TYPES.includes(only.type);
}

const VOLATILITY: Record<string, string> = { v: 'volatile', s: 'stable', i: 'immutable' };

/** `isAlike`: the API could not tell it from another one. */
function toFunction(fn: LiveFunction, isAlike: boolean): Node {
  const args = fn.parameters.filter(({ mode }) => mode !== 't');
  const columns = fn.parameters.filter(({ mode }) => mode === 't');
  const returns = returnsKey(fn, columns);
  return {
    ...(fn.schema === 'public' ? {} : { schema: fn.schema }),
    language: fn.language,
    ...(fn.isProcedure ? { kind: 'procedure' } : { volatility: VOLATILITY[fn.volatility] ?? 'volatile' }),
    ...(fn.strict ? { strict: true } : {}),
    ...(fn.parallel === 'u' ? {} : { parallel: PARALLEL[fn.parallel] }),
    ...(fn.cost === USUAL_COST ? {} : { cost: fn.cost }),
    ...(fn.rows === 0 || fn.rows === USUAL_ROWS ? {} : { rows: fn.rows }),
    ...(fn.definer ? { security: 'definer' } : {}),
    ...settingsKey(fn),
    ...callersKey(fn, isAlike || isHidden(fn)),
    ...(args.length > 0 ? { args: args.map(toArgument) } : {}),
    ...(returns === undefined ? {} : { returns }),
    ...(fn.atomic ? { atomic: true } : {}),
    body: fn.body,
  };
}

const MODES: Readonly<Record<string, string>> = { o: 'out', b: 'inout', v: 'variadic' };

function toArgument({ name, mode, type, default: value }: LiveFunction['parameters'][number]): Node {
  const isInput = mode !== 'o';
  return {
    ...(name === '' ? {} : { name }),
    type,
    ...(mode === 'i' ? {} : { mode: MODES[mode] }),
    ...(value === null ? (isInput ? { required: true } : {}) : { default: { sql: value } }),
  };
}

/** Undefined where the arguments say it. */
function returnsKey(fn: LiveFunction, columns: LiveFunction['parameters']): Node | undefined {
  if (columns.length > 0) return { table: columns.map(({ name, type }) => ({ name, type })) };
  const isSet = fn.result.startsWith('SETOF ');
  if (fn.isProcedure || (!isSet && fn.outputs)) return undefined;
  return { type: isSet ? `setof ${fn.result.slice('SETOF '.length)}` : fn.result };
}
