// Converts the functions of a database to entries of `rpc`.
import { WHOLE_BODY_TYPES } from '../../config/schema/functions.ts';
import { PARALLEL } from '../diff/functions.ts';
import { plainType } from '../../config/schema/overloads.ts';
import { renderSignature } from '../../config/sql/overloads.ts';
import { groupBy } from '../../lib/group-by.ts';
import { typeNamer } from './pulled-columns.ts';
import { functionIdentity } from './adoption/hidden-functions.ts';
import type { Live, LiveFunction, LivePolicy } from '../schema/live/live-schema.ts';
import { API_ROLES, PUBLIC } from '../schema/rights/roles.ts';
import { objectKey, DEFAULT_COST, DEFAULT_ROWS } from '../schema/model.ts';
import { searchPathSchemas } from '../schema/sql/function-sql.ts';
import { sqlWords } from '../../lib/sql/sql-text.ts';

type Node = Record<string, unknown>;

export type PulledFunctions = {
  /** Functions with their keys under `rpc`. */
  readonly functions: ReadonlyArray<readonly [key: string, keys: Node]>;
  /** Names of the functions, as `schema.name`. */
  readonly names: ReadonlySet<string>;
  /** Keys of overloads that the API cannot distinguish. */
  readonly alike: readonly string[];
  readonly omitted: readonly string[];
  /** Keys of functions to which the file adds a search path. */
  readonly repaired: readonly string[];
};

/** Converts the functions. `hidden` contains the `functionIdentity` of functions that the API does not serve. */
export function pulledFunctions(
  { functions: live, ...rest }: Live,
  hidden: ReadonlySet<string> = new Set(),
): PulledFunctions {
  const all = [...live.values()].flat();
  const nameType = typeNamer(rest);
  const called = calledNames(rest, all);
  const taken = all.filter((fn) => inexpressible(fn) === null);
  const byName = groupBy(taken, ({ name }) => name);
  const keys = uniqueKeys(taken, (fn) =>
    byName.get(fn.name)?.length === 1
      ? fn.name
      : renderSignature({ ...fn, inputs: fn.argumentTypes.map(plainType) }),
  );
  const keyIn = (fn: LiveFunction): string => keys.get(fn) ?? fn.name;
  const alike = new Set([...live.values()].flatMap((overloads) => servedAlike(overloads, hidden)));
  return {
    functions: taken.map((fn) => {
      const key = keyIn(fn);
      return [
        key,
        {
          ...(key === fn.name ? {} : { name: fn.name }),
          ...toFunction(fn, {
            isUnserved: alike.has(fn) || isHidden(fn) || hidden.has(functionIdentity(fn)),
            isCalled: called.has(fn.name) || isComputed(fn, rest),
            nameType,
          }),
        },
      ];
    }),
    names: new Set(taken.map(objectKey)),
    alike: taken.filter((fn) => alike.has(fn)).map(keyIn),
    repaired: taken.filter(needsPath).map(keyIn),
    omitted: all.flatMap((fn) => {
      const reason = inexpressible(fn);
      const schema = fn.schema === 'public' ? '' : `${fn.schema}.`;
      return reason === null ? [] : [`function ${schema}${fn.name}(${fn.identityArguments}): ${reason}`];
    }),
  };
}

/**
 * Assigns the keys of `rpc`. Two functions can have the same signature without quotes, such as `f(mood)` and
 * `f("Mood")`, or `one.f(integer)` and `"one.f"(integer)`. The second of them gets a number.
 */
function uniqueKeys(
  functions: readonly LiveFunction[],
  signature: (fn: LiveFunction) => string,
): ReadonlyMap<LiveFunction, string> {
  const keys = new Map<LiveFunction, string>();
  const used = new Set<string>();
  for (const fn of functions) {
    const wanted = signature(fn);
    let key = wanted;
    for (let number = 2; used.has(key); number++) key = `${wanted} ${number}`;
    used.add(key);
    keys.set(fn, key);
  }
  return keys;
}

/** Returns served overloads whose arguments have the same names. */
function servedAlike(overloads: readonly LiveFunction[], hidden: ReadonlySet<string>): LiveFunction[] {
  const served = overloads.filter(
    (fn) =>
      inexpressible(fn) === null &&
      !isHidden(fn) &&
      !hidden.has(functionIdentity(fn)) &&
      grantedRoles(fn).length > 0,
  );
  const names = ({ parameters }: LiveFunction): string =>
    JSON.stringify(parameters.flatMap(({ name, mode }) => ('ot'.includes(mode) ? [] : [name])).sort());
  return [...groupBy(served, names).values()].filter((group) => group.length > 1).flat();
}

/** Names in expressions and bodies that run with the rights of a caller. A function does not call itself. */
function calledNames(live: Omit<Live, 'functions'>, functions: readonly LiveFunction[]): Set<string> {
  const names = sqlWords(callingExpressions(live).join('\n'));
  for (const { body, definer, name } of functions) {
    if (definer) continue;
    for (const word of sqlWords(body)) if (word !== name) names.add(word);
  }
  return names;
}

function callingExpressions(live: Omit<Live, 'functions'>): string[] {
  const ofPolicies = ({ using, check }: LivePolicy): string[] => [using ?? '', check ?? ''];
  const tables = [...live.tables.values()];
  return [
    ...tables.flatMap(({ policies, checks, columns, triggers }) => [
      ...policies.flatMap(ofPolicies),
      ...checks.map(({ expression }) => expression),
      ...[...columns.values()].map(({ default: text }) => text ?? ''),
      ...triggers.map(({ definition }) => definition),
    ]),
    ...Object.values(live.hosted).flatMap((policies) => policies.flatMap(ofPolicies)),
    ...[...live.views.values()].map(({ definition }) => definition),
    ...[...live.types.values()].flatMap(({ domain }) => [
      ...(domain?.checks.map(({ expression }) => expression) ?? []),
      domain?.default ?? '',
    ]),
  ];
}

export function isPulled(fn: LiveFunction): boolean {
  return inexpressible(fn) === null;
}

/** Returns the reason why the file cannot express the function, or null. */
function inexpressible(fn: LiveFunction): string | null {
  if (fn.language !== 'sql' && fn.language !== 'plpgsql') return `its language is ${fn.language}`;
  return null;
}

/** Returns true if the caller cannot influence the search path. */
function isPinned(settings: readonly string[]): boolean {
  const path = settings.find((setting) => setting.startsWith(SEARCH_PATH))?.slice(SEARCH_PATH.length);
  return path !== undefined && !searchPathSchemas(path).includes('$user');
}

const SEARCH_PATH = 'search_path=';
/** Default setting of a security definer function in the file. */
const USUAL_PATH = `${SEARCH_PATH}public, pg_temp`;

/** Search path for security definer functions that use the search path of the caller. */
export const SAFE_PATH = 'public, extensions, pg_temp';

/**
 * Returns true for a security definer function without its own search path. Its caller could choose the objects that
 * the function accesses with the rights of its owner.
 */
export function needsPath(fn: LiveFunction): boolean {
  return fn.definer && !isPinned(fn.settings);
}

function settingsKey(fn: LiveFunction): Node {
  const { definer } = fn;
  const settings = needsPath(fn)
    ? [...fn.settings.filter((setting) => !setting.startsWith(SEARCH_PATH)), `${SEARCH_PATH}${SAFE_PATH}`]
    : fn.settings;
  const entries = settings
    .filter((setting) => !(definer && setting === USUAL_PATH))
    .map((setting): [string, string] => {
      const at = setting.indexOf('=');
      const value = setting.slice(at + 1);
      return [setting.slice(0, at), value === '""' ? '' : value];
    });
  return entries.length === 0 ? {} : { settings: Object.fromEntries(entries) };
}

/** Returns the API roles with an explicit grant. The default grant to PUBLIC does not publish a function. */
function grantedRoles({ callers }: LiveFunction): readonly string[] {
  return API_ROLES.filter((role) => callers.includes(role));
}

/** Returns true if only PUBLIC has EXECUTE: SQL can call the function, but no API role has an explicit grant. */
export function isPublicByDefault(fn: LiveFunction): boolean {
  return fn.callers.includes(PUBLIC) && grantedRoles(fn).length === 0 && !isHidden(fn);
}

/**
 * Returns the API roles that may run the function. `hidden` functions are not served by the API. A function that PUBLIC
 * may call stays callable from SQL if something calls it with the rights of a caller (`isCalled`), such as a policy.
 */
function callersKey(fn: LiveFunction, hidden: boolean, isCalled: boolean): Node {
  if (fn.result === 'trigger') return {};
  const granted = grantedRoles(fn);
  const outsiders = fn.callers.filter((role) => role !== PUBLIC && !granted.includes(role)).toSorted();
  const named = [...granted, ...outsiders];
  if (!hidden && granted.length > 0)
    return granted.length === API_ROLES.length && outsiders.length === 0 ? {} : { execute: named };
  const isKept = fn.callers.includes(PUBLIC) && isCalled;
  const roles = isKept ? [...API_ROLES, ...outsiders] : named;
  return { expose: false, ...(roles.length === 0 ? {} : { execute: roles }) };
}

/**
 * Returns true for functions that the API cannot serve: functions with unnamed arguments, procedures, trigger
 * functions, and functions outside `public`.
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

/** Returns true for a computed column or relationship of a table that runs with the rights of the caller. */
function isComputed({ definer, argumentTypes }: LiveFunction, { tables, views }: RowTypes): boolean {
  const [only = '', ...more] = argumentTypes;
  if (definer || more.length > 0) return false;
  const [schema = '', name] = [...only.matchAll(/"((?:[^"]|"")+)"|[^".]+/g)].map(
    ([plain, quoted]) => quoted?.replaceAll('""', '"') ?? plain,
  );
  const key = name === undefined ? `public.${schema}` : `${schema}.${name}`;
  return tables.has(key) || views.has(key);
}

type RowTypes = Pick<Live, 'tables' | 'views'>;

type Use = {
  /** True if the API does not serve the function. */
  readonly isUnserved: boolean;
  /** True if something calls the function with the rights of a caller. */
  readonly isCalled: boolean;
  /** Converts a printed type to its name in the file. */
  readonly nameType: (type: string) => string;
};

function toFunction(fn: LiveFunction, { isUnserved, isCalled, nameType }: Use): Node {
  const args = fn.parameters.filter(({ mode }) => mode !== 't');
  const columns = fn.parameters.filter(({ mode }) => mode === 't');
  const returns = returnsKey(fn, columns, nameType);
  return {
    ...(fn.schema === 'public' ? {} : { schema: fn.schema }),
    language: fn.language,
    ...(fn.isProcedure ? { kind: 'procedure' } : { volatility: VOLATILITY[fn.volatility] ?? 'volatile' }),
    ...(fn.strict ? { strict: true } : {}),
    ...(fn.parallel === 'u' ? {} : { parallel: PARALLEL[fn.parallel] }),
    ...(fn.cost === DEFAULT_COST ? {} : { cost: fn.cost }),
    ...(fn.rows === 0 || fn.rows === DEFAULT_ROWS ? {} : { rows: fn.rows }),
    ...(fn.definer ? { security: 'definer' } : {}),
    ...settingsKey(fn),
    ...callersKey(fn, isUnserved, isCalled),
    ...(args.length > 0 ? { args: args.map((argument) => toArgument(argument, nameType)) } : {}),
    ...(returns === undefined ? {} : { returns }),
    ...(fn.atomic ? { atomic: true } : {}),
    body: fn.body,
  };
}

const MODES: Readonly<Record<string, string>> = { o: 'out', b: 'inout', v: 'variadic' };

function toArgument(
  { name, mode, type, default: value }: LiveFunction['parameters'][number],
  nameType: Use['nameType'],
): Node {
  const isInput = mode !== 'o';
  return {
    ...(name === '' ? {} : { name }),
    type: nameType(type),
    ...(mode === 'i' ? {} : { mode: MODES[mode] }),
    ...(value === null ? (isInput ? { required: true } : {}) : { default: { sql: value } }),
  };
}

/** Returns undefined if the output arguments define the result. */
function returnsKey(
  fn: LiveFunction,
  columns: LiveFunction['parameters'],
  nameType: Use['nameType'],
): Node | undefined {
  if (columns.length > 0) return { table: columns.map(({ name, type }) => ({ name, type: nameType(type) })) };
  const isSet = fn.result.startsWith('SETOF ');
  if (fn.isProcedure || (!isSet && fn.outputs)) return undefined;
  return { type: nameType(isSet ? `setof ${fn.result.slice('SETOF '.length)}` : fn.result) };
}
