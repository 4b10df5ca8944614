// Functions of a database as entries under `rpc`.
import { WHOLE_BODY_TYPES } from '../../config/schema/functions.ts';
import { PARALLEL } from '../diff/functions.ts';
import type { LiveFunction } from '../schema/live/live-schema.ts';
import { API_ROLES, PUBLIC } from '../schema/rights/roles.ts';
import { USUAL_COST, USUAL_ROWS } from '../schema/model.ts';
import { pathOf } from '../schema/sql/function-sql.ts';

type Node = Record<string, unknown>;

/** Why the file cannot say it. */
export function inexpressible(fn: LiveFunction): string | null {
  if (fn.language !== 'sql' && fn.language !== 'plpgsql') return `its language is ${fn.language}`;
  if (fn.atomic) return 'its body is BEGIN ATOMIC';
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

/** Which of the API roles may run it; all of them without a word. `isHidden`: the API does not serve it. */
function callersKey({ callers, result }: LiveFunction, isHidden: boolean): Node {
  if (result === 'trigger') return {};
  const roles = callers.includes(PUBLIC) ? API_ROLES : API_ROLES.filter((role) => callers.includes(role));
  const hidden = isHidden || roles.length === 0 ? { expose: false } : {};
  const isUsual = isHidden ? roles.length === 0 : roles.length === API_ROLES.length;
  return { ...hidden, ...(isUsual || roles.length === 0 ? {} : { execute: roles }) };
}

function takesWholeBody({ parameters: [only, ...more] }: LiveFunction): boolean {
  return only?.mode === 'i' && more.length === 0 && WHOLE_BODY_TYPES.includes(only.type);
}

const VOLATILITY: Record<string, string> = { v: 'volatile', s: 'stable', i: 'immutable' };

/** Under `rpc`, by its name. */
export function toFunction(fn: LiveFunction): Node {
  const args = fn.parameters.filter(({ mode }) => mode !== 't');
  const columns = fn.parameters.filter(({ mode }) => mode === 't');
  const returns = returnsKey(fn, columns);
  const isOutside = fn.schema !== 'public';
  return {
    ...(isOutside ? { schema: fn.schema } : {}),
    language: fn.language,
    ...(fn.isProcedure ? { kind: 'procedure' } : { volatility: VOLATILITY[fn.volatility] ?? 'volatile' }),
    ...(fn.strict ? { strict: true } : {}),
    ...(fn.parallel === 'u' ? {} : { parallel: PARALLEL[fn.parallel] }),
    ...(fn.cost === USUAL_COST ? {} : { cost: fn.cost }),
    ...(fn.rows === 0 || fn.rows === USUAL_ROWS ? {} : { rows: fn.rows }),
    ...(fn.definer ? { security: 'definer' } : {}),
    ...settingsKey(fn),
    // What has no name cannot be passed by name, and a procedure is called from SQL. Other schemas are not opened by this.
    ...callersKey(
      fn,
      isOutside ||
        fn.isProcedure ||
        (args.some(({ name, mode }) => name === '' && mode !== 'o') && !takesWholeBody(fn)),
    ),
    ...(args.length > 0 ? { args: args.map(toArgument) } : {}),
    ...(returns === undefined ? {} : { returns }),
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
