// Functions of one name. PostgreSQL tells them apart by the types of what goes in, the data API by its names.
import type { RawSqlFunction } from './functions.ts';

type Argument = Pick<RawSqlFunction['args'][number], 'name' | 'type' | 'mode'>;

/** What a call passes. */
export function inputArguments<A extends { readonly mode?: string | undefined }>(args: readonly A[]): A[] {
  return args.filter(({ mode }) => mode !== 'out');
}

/** The types by which PostgreSQL tells functions of one name apart, as far as their spelling tells. */
export function inputTypes(args: readonly Argument[]): string[] {
  return inputArguments(args).map(({ type, mode }) => {
    const plain = plainType(type);
    return mode === 'variadic' && !plain.endsWith('[]') ? `${plain}[]` : plain;
  });
}

/** The names by which the data API tells them apart. */
export function inputNames(args: readonly Argument[]): string[] {
  return inputArguments(args)
    .map(({ name = '' }) => name)
    .sort();
}

/** Which of the functions that have one name takes these arguments; undefined where that cannot be told. */
export function withArguments<
  R extends { readonly args: ReadonlyArray<{ readonly name: string; readonly type: string }> },
>(overloads: readonly R[], args: readonly Argument[]): R | undefined {
  const list = (texts: readonly string[]): string => JSON.stringify(texts);
  const names = list(inputArguments(args).map(({ name = '' }) => name));
  const types = list(inputTypes(args));
  const named = overloads.filter((one) => list(one.args.map(({ name }) => name)) === names);
  if (named.length === 1) return named[0];
  // In a rollout an argument may have another name.
  const alike = (named.length > 0 ? named : overloads).filter(
    (one) => list(one.args.map(({ type }) => plainType(type))) === types,
  );
  return alike.length === 1 ? alike[0] : undefined;
}

/** One spelling for all that PostgreSQL takes: without modifiers, and without the schema `public`. */
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
  // An array has one type, however many dimensions are written.
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
