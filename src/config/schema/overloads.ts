// Overloaded functions. PostgreSQL selects an overload by the types of input arguments, the data API by their names.
import type { RawSqlFunction } from './functions.ts';

type Argument = Pick<RawSqlFunction['args'][number], 'name' | 'type' | 'mode'>;

/** Returns the arguments that a call passes. */
export function inputArguments<A extends { readonly mode?: string | undefined }>(args: readonly A[]): A[] {
  return args.filter(({ mode }) => mode !== 'out');
}

/** Returns the types by which PostgreSQL distinguishes overloads, derived from their spelling. */
export function inputTypes(args: readonly Argument[]): string[] {
  return inputArguments(args).map(({ type, mode }) => {
    const plain = plainType(type);
    return mode === 'variadic' && !plain.endsWith('[]') ? `${plain}[]` : plain;
  });
}

/** Returns the names by which the data API distinguishes overloads. */
export function inputNames(args: readonly Argument[]): string[] {
  return inputArguments(args)
    .map(({ name = '' }) => name)
    .sort();
}

/** Returns the overload with these arguments, or undefined if the choice is ambiguous. */
export function withArguments<
  R extends { readonly args: ReadonlyArray<{ readonly name: string; readonly type: string }> },
>(overloads: readonly R[], args: readonly Argument[]): R | undefined {
  const list = (texts: readonly string[]): string => JSON.stringify(texts);
  const names = list(inputArguments(args).map(({ name = '' }) => name));
  const types = list(inputTypes(args));
  const named = overloads.filter((overload) => list(overload.args.map(({ name }) => name)) === names);
  if (named.length === 1) return named[0];
  // During a rollout an argument can have a different name.
  const alike = (named.length > 0 ? named : overloads).filter(
    (overload) => list(overload.args.map(({ type }) => plainType(type))) === types,
  );
  return alike.length === 1 ? alike[0] : undefined;
}

/** Normalises the spelling of a type, without modifiers and without the schema `public`. */
export function plainType(written: string): string {
  const plain = written
    .toLowerCase()
    .replaceAll('"', '')
    .replaceAll(/\([^)]*\)/g, ' ')
    .replaceAll(/\[\s*\d*\s*\]/g, '[]')
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/ ?(\[\]) ?/g, '$1')
    .replace(/^(public|pg_catalog)\./, '')
    .trim();
  const brackets = /(\[\])*$/.exec(plain)?.[0] ?? '';
  const name = plain.slice(0, plain.length - brackets.length);
  // PostgreSQL has a single array type for any number of dimensions.
  return `${SPELLINGS.get(name) ?? name}${brackets === '' ? '' : '[]'}`;
}

const SPELLINGS: ReadonlyMap<string, string> = new Map([
  ['int', 'integer'],
  ['int4', 'integer'],
  ['int2', 'smallint'],
  ['int8', 'bigint'],
  ['bool', 'boolean'],
  ['float4', 'real'],
  ['float', 'double precision'],
  ['float8', 'double precision'],
  ['decimal', 'numeric'],
  ['dec', 'numeric'],
  ['varchar', 'character varying'],
  ['char', 'character'],
  ['bpchar', 'character'],
  ['varbit', 'bit varying'],
  ['timestamp', 'timestamp without time zone'],
  ['timestamptz', 'timestamp with time zone'],
  ['time', 'time without time zone'],
  ['timetz', 'time with time zone'],
]);
