// CREATE FUNCTION and CREATE PROCEDURE → keys of `rpc`.
import type { A_Const, CreateFunctionStmt, DefElem, FunctionParameter } from '@pgsql/types';
import { Words } from './statement-text.ts';
import { type Declaration, statementHead, refuse, renamedFrom, type Written } from './declaration.ts';
import { namesIn, LocatedValue, type KeyMap, type KeyValue } from './key-nodes.ts';
import type { Extent } from './parser.ts';
import { inputTypes } from '../schema/overloads.ts';

/** Keywords that can follow the result type. */
const AFTER_RESULT: ReadonlySet<string> = new Set(
  (
    'as language immutable stable volatile strict called returns security external leakproof not parallel cost rows ' +
    'support set window transform begin return'
  ).split(' '),
);
const MODES = {
  FUNC_PARAM_IN: undefined,
  FUNC_PARAM_DEFAULT: undefined,
  FUNC_PARAM_OUT: 'out',
  FUNC_PARAM_INOUT: 'inout',
  FUNC_PARAM_VARIADIC: 'variadic',
  FUNC_PARAM_TABLE: undefined,
} as const;
const MODE_WORDS: ReadonlySet<string> = new Set(['in', 'out', 'inout', 'variadic']);
const DEFAULTS: ReadonlySet<string> = new Set(['default', '=', ':=']);

export function declareFunction(written: Written, node: CreateFunctionStmt): Declaration {
  const { statement, text } = written;
  const names = namesIn(node.funcname);
  const name = names.at(-1) ?? '';
  const schema = names.length > 1 ? (names[0] ?? '') : 'public';
  const words = Words.of(statement);
  const parameters = (node.parameters ?? []).flatMap((parameter) =>
    'FunctionParameter' in parameter ? [parameter.FunctionParameter] : [],
  );
  const inputs = parameters.filter(({ mode }) => mode !== 'FUNC_PARAM_TABLE');
  const pieces = words.inBrackets.split();
  const args = inputs.map((input, n) => readArgument(input, pieces[n] ?? words, text));
  const options = readOptions(written, node);
  return {
    kind: 'rpc',
    schema,
    name,
    inputs: inputTypes(args.map(({ keys }) => keys)),
    extent: statementHead(written),
    keys: {
      schema: schema === 'public' ? undefined : schema,
      ...(node.is_procedure === true ? { kind: 'procedure' } : {}),
      args: args.length === 0 ? undefined : args.map(({ keys, extent }) => new LocatedValue(keys, extent)),
      returns: readResult(node, parameters, words, text),
      ...options,
      renamed_from: renamedFrom(written),
    },
  };
}

type Argument = {
  readonly name: string | undefined;
  readonly type: string;
  readonly mode: (typeof MODES)[keyof typeof MODES];
};

function readArgument(
  { name, mode, defexpr }: FunctionParameter,
  words: Words,
  text: string,
): { readonly keys: Argument & KeyMap; readonly extent: Extent } {
  const at = words.find(DEFAULTS);
  const hasDefault = defexpr !== undefined && at >= 0;
  let type = hasDefault ? words.slice(0, at) : words;
  const dropModes = (): void => {
    while (type.tokens.length > 1 && MODE_WORDS.has(type.first?.text ?? '')) type = type.slice(1);
  };
  dropModes();
  if (name !== undefined && name !== '') type = type.slice(1);
  dropModes();
  const argumentMode = MODES[mode ?? 'FUNC_PARAM_DEFAULT'];
  const isInput = argumentMode === undefined || argumentMode === 'inout';
  return {
    keys: {
      name: name === '' ? undefined : name,
      type: type.in(text),
      mode: argumentMode,
      required: isInput && !hasDefault ? true : undefined,
      default: hasDefault ? { sql: words.slice(at + 1).in(text) } : undefined,
    },
    extent: words.extent,
  };
}

function readResult(
  { returnType }: CreateFunctionStmt,
  parameters: readonly FunctionParameter[],
  words: Words,
  text: string,
): KeyValue {
  if (!returnType) return undefined;
  const result = words.after('returns');
  if (!parameters.some(({ mode }) => mode === 'FUNC_PARAM_TABLE'))
    return { type: result.before(AFTER_RESULT).in(text) };
  const columns = result.inBrackets.split();
  const names = parameters.filter(({ mode }) => mode === 'FUNC_PARAM_TABLE').map(({ name }) => name);
  return { table: columns.map((column, n) => ({ name: names[n], type: column.slice(1).in(text) })) };
}

function readOptions(written: Written, node: CreateFunctionStmt): KeyMap {
  const { statement } = written;
  const keys: Record<string, KeyValue> = {};
  const settings: Record<string, KeyValue> = {};
  for (const option of node.options ?? []) {
    if (!('DefElem' in option)) continue;
    const { defname = '', arg, location } = option.DefElem;
    const start = statement.at(location);
    const extent = { start, end: start + 1 };
    switch (defname) {
      case 'language':
      case 'volatility':
      case 'parallel':
        keys[defname] = new LocatedValue(readText(option.DefElem), extent);
        break;
      case 'security':
        keys['security'] = isTrue(option.DefElem) ? 'definer' : 'invoker';
        break;
      case 'strict':
        keys['strict'] = isTrue(option.DefElem);
        break;
      case 'cost':
      case 'rows':
        keys[defname] = readNumber(option.DefElem);
        break;
      case 'as': {
        const [body = '', library] = arg && 'List' in arg ? namesIn(arg.List.items) : [];
        if (library !== undefined) refuseOption(written, 'a C library', extent);
        keys['body'] = new LocatedValue(body, bodyExtent(written, start));
        break;
      }
      case 'set': {
        if (!arg || !('VariableSetStmt' in arg)) break;
        const { kind, name = '', args } = arg.VariableSetStmt;
        if (kind !== 'VAR_SET_VALUE') refuseOption(written, `SET ${name} without a value`, extent);
        settings[name] = (args ?? []).map((value) => readSetting(value, name)).join(', ');
        break;
      }
      default:
        refuseOption(written, defname.toUpperCase(), extent);
    }
  }
  if (node.sql_body !== undefined) {
    keys['language'] ??= 'sql';
    keys['body'] = readAtomicBody(written);
    keys['atomic'] = true;
  }
  if (keys['language'] === undefined)
    refuse(written, 'the function has no language', 'Add language sql, or language plpgsql.');
  if (Object.keys(settings).length > 0) keys['settings'] = settings;
  return keys;
}

/** Returns the text between BEGIN ATOMIC and END, or `return` with its expression. */
function readAtomicBody({ statement, text }: Written): LocatedValue {
  const words = Words.of(statement);
  const afterArguments = words.find(OPENING_BRACKET) + words.inBrackets.tokens.length + 2;
  const at = words.find(ATOMIC_BEGINNINGS, afterArguments);
  const body = words.tokens[at]?.text === 'return' ? words.slice(at) : words.slice(at + 2, -1);
  const { end } = body.extent;
  // The statement does not include the last semicolon, which marks the body as a block.
  const isBlock = words.tokens[at]?.text === 'begin';
  return new LocatedValue(`${text.slice(body.extent.start, end)}${isBlock ? ';' : ''}`, body.extent);
}

const OPENING_BRACKET: ReadonlySet<string> = new Set(['(']);
const ATOMIC_BEGINNINGS: ReadonlySet<string> = new Set(['begin', 'return']);

function refuseOption(written: Written, option: string, extent: { start: number; end: number }): never {
  return refuse(written, `svc does not create functions with ${option}`, 'Remove it.', extent);
}

function bodyExtent({ statement }: Written, start: number): { start: number; end: number } {
  const index = statement.tokens.findIndex((token) => token.start >= start);
  const { start: from, end } = statement.tokens[index + 1] ?? { start, end: start + 1 };
  return { start: from, end };
}

function readSetting(node: object, name: string): string {
  if (!('A_Const' in node)) return '';
  const { sval, ival, fval, boolval } = node.A_Const as A_Const;
  if (sval) {
    const text = sval.sval ?? '';
    const isPath = name.toLowerCase() === 'search_path';
    return isPath && text !== '' && !/^[a-z_$][a-z0-9_$]*$/.test(text)
      ? `"${text.replaceAll('"', '""')}"`
      : text;
  }
  if (ival) return String(ival.ival ?? 0);
  if (fval) return fval.fval ?? '';
  return boolval?.boolval === true ? 'true' : 'false';
}

function readText({ arg }: DefElem): string {
  return arg && 'String' in arg ? (arg.String.sval ?? '').toLowerCase() : '';
}

export function isTrue({ arg }: DefElem): boolean {
  if (arg === undefined) return true;
  if ('Boolean' in arg) return arg.Boolean.boolval ?? false;
  if ('Integer' in arg) return (arg.Integer.ival ?? 0) !== 0;
  return 'String' in arg && /^(on|true|yes|1|t|y)$/i.test(arg.String.sval ?? '');
}

function readNumber({ arg }: DefElem): number {
  if (arg && 'Integer' in arg) return arg.Integer.ival ?? 0;
  return arg && 'Float' in arg ? Number(arg.Float.fval) : 0;
}
