// SQL functions and code functions.
import { isHookFunction } from '../schema/auth.ts';
import { declaredType } from '../schema/declared-type.ts';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { KeyPath } from '../mistakes/mistake.ts';
import { checkHandler } from './syntax/handler-syntax.ts';
import { mentionsServiceClient } from './service-client.ts';
import { groupBy } from '../../lib/group-by.ts';
import { inputNames, inputTypes } from '../schema/overloads.ts';
import {
  listFunctions,
  isOutput,
  isServed,
  type NamedFunction,
  type RawSqlFunction,
  returnsTrigger,
  WHOLE_BODY_TYPES,
} from '../schema/functions.ts';
import { type CheckContext, didYouMean } from './context.ts';
import { checkDefault } from './tables/default.ts';
import { checkName, checkRenames, checkRoles, checkSchema } from './name.ts';
import { checkBodyFile, checkReferencedFile } from './referenced-file.ts';

/** PostgreSQL's FUNC_MAX_ARGS. */
const MAX_ARGUMENTS = 100;

/** PostgreSQL types that a set-returning function may return instead of a table's row type. */
const KNOWN_TYPE_NAMES = [
  'record|text|varchar|character varying|char|bool(ean)?|small(int)?|int(eger|[248])?|bigint|numeric|decimal|real',
  'float[48]?|double precision|uuid|jsonb?|date|time(stamp)?(tz)?( with(out)? time zone)?|interval|bytea|inet|cidr',
];
const KNOWN_TYPE = new RegExp(`^(${KNOWN_TYPE_NAMES.join('|')})(\\s*\\(.*\\))?(\\[\\])*$`, 'i');

export function checkSqlFunctions(context: CheckContext): void {
  const entries = listFunctions(context.file.rpc);
  const tables = new Set(
    [...Object.entries(context.file.tables), ...Object.entries(context.file.views)].map(
      ([name, { schema }]) => `${schema}.${name}`,
    ),
  );
  for (const { key, name, fn } of entries) {
    if (context.isFull) return;
    const path = ['rpc', key];
    if (fn.name === undefined) checkName(context, path, name, 'key');
    else checkName(context, [...path, 'name'], name);
    checkSchema(context, [...path, 'schema'], fn.schema);
    if (fn.kind === 'procedure') checkProcedure(context, path, fn);
    else if (!checkReturns(context, path, fn)) continue;
    checkArguments(context, path, fn);
    checkBody(context, path, fn);
    checkServed(context, path, fn);
    checkExecute(context, [...path, 'execute'], fn);
    checkResult(context, [...path, 'returns', 'type'], fn.returns, tables);
  }
  const overloads = groupBy(entries, ({ name, fn }) => `${fn.schema}.${name}`);
  checkRenames(
    context,
    entries.map(({ key, name, fn }) => ({
      path: ['rpc', key],
      name,
      from: fn.renamedFrom,
      ...((overloads.get(`${fn.schema}.${name}`)?.length ?? 0) > 1
        ? { among: inputTypes(fn.args).join(', ') }
        : {}),
    })),
  );
  for (const group of overloads.values()) checkOverloads(context, group);
  for (const { key, fn } of entries) {
    checkRenames(
      context,
      fn.args.map((arg, index) => ({
        path: ['rpc', key, 'args', index],
        name: arg.name ?? '',
        from: arg.renamedFrom,
      })),
    );
  }
}

/** PostgreSQL resolves overloads by argument types, the API by argument names. */
function checkOverloads(context: CheckContext, group: readonly NamedFunction[]): void {
  if (group.length < 2) return;
  const byTypes = new Map<string, string>();
  const byNames = new Map<string, string>();
  for (const { key, name, fn } of group) {
    const path = ['rpc', key];
    const types = inputTypes(fn.args).join(', ');
    const names = JSON.stringify(inputNames(fn.args));
    const same = byTypes.get(types);
    const alike = isServed(fn) ? byNames.get(names) : undefined;
    if (same !== undefined) {
      context.conflict(
        path,
        `rpc.${same} is already ${name}(${types})`,
        'Overloads must differ in the types of their arguments: remove one of the two, or rename it.',
        'key',
      );
    } else if (alike !== undefined) {
      const passed =
        fn.args.length === 0 ? 'no arguments' : `the arguments ${inputNames(fn.args).join(', ')}`;
      context.conflict(
        path,
        `rpc.${alike} is also called ${name}, with ${passed}: the API cannot choose between them`,
        'Rename one of the functions or its arguments, or write expose: false.',
        'key',
      );
    }
    byTypes.set(types, same ?? key);
    if (isServed(fn)) byNames.set(names, alike ?? key);
  }
}

function canBeEmpty({ language, returns, kind }: RawSqlFunction): boolean {
  return language === 'sql' && (kind === 'procedure' || returns.trim().toLowerCase() === 'void');
}

/** Detects a plain SQL statement where PL/pgSQL requires a block. */
function checkBody(context: CheckContext, path: KeyPath, fn: RawSqlFunction): void {
  if (fn.bodyFile !== undefined && fn.body !== undefined) {
    context.conflict(
      [...path, 'body_file'],
      'a function has either body or body_file',
      'Remove one of the two.',
      'key',
    );
  } else if (fn.bodyFile !== undefined) checkBodyFile(context, [...path, 'body_file'], fn.bodyFile);
  else if (fn.body === undefined) {
    context.report({
      code: 'missing-key',
      path: [...path, 'body'],
      message: '"body" is missing',
      hint: 'The body is the text between the dollar quotes of CREATE FUNCTION; body_file names a file with it.',
      part: 'key',
    });
  }
  if (fn.body?.trim() === '' && !canBeEmpty(fn))
    return context.badValue(
      [...path, 'body'],
      '"body" must not be empty',
      'Only a function with language: sql and returns: { type: void } may do nothing.',
    );
  if (fn.atomic === true && fn.language !== 'sql') {
    context.conflict(
      [...path, 'atomic'],
      `PostgreSQL does not parse a ${fn.language} body before it runs`,
      'Write language: sql, or remove atomic.',
      'key',
    );
  }
  if (fn.language === 'sql' || fn.body === undefined) return;
  const code = fn.body.replace(/^(\s|--[^\n]*(\n|$)|\/\*[^]*?\*\/)+/, '');
  if (!/^(select|insert|update|delete|merge|values|with|table)\b/i.test(code)) return;
  context.conflict(
    [...path, 'body'],
    'the body is a plain SQL statement, and the language is plpgsql',
    'Add language: sql, or write begin … end around it.',
  );
}

/** Trigger functions cannot be called, and functions that are not served have no signed-in caller. */
function checkServed(context: CheckContext, path: KeyPath, fn: RawSqlFunction): void {
  if (returnsTrigger(fn.returns)) {
    if (fn.args.length > 0) {
      context.conflict(
        [...path, 'args'],
        'a trigger function cannot declare arguments',
        'Remove args: the function reads the arguments of the trigger from TG_ARGV.',
        'key',
      );
    }
    if (fn.language === 'sql') {
      context.conflict(
        [...path, 'language'],
        'a trigger function cannot be written in SQL',
        'Write language: plpgsql.',
      );
    }
    if (fn.expose === true) {
      context.conflict(
        [...path, 'expose'],
        'a function that returns trigger cannot be called directly',
        'Remove expose.',
        'key',
      );
    }
  }
  if (!isServed(fn) && fn.authRequired) {
    context.conflict(
      [...path, 'auth_required'],
      'the function is not served, so auth_required has no effect',
      'Remove auth_required.',
      'key',
    );
  }
}

function checkExecute(context: CheckContext, path: KeyPath, { execute = [], returns }: RawSqlFunction): void {
  if (execute.length > 0 && returnsTrigger(returns)) {
    context.conflict(
      path,
      'a function that returns trigger cannot be called directly',
      'Remove execute.',
      'key',
    );
    return;
  }
  checkRoles(context, path, execute);
}

function checkArguments(context: CheckContext, path: KeyPath, fn: RawSqlFunction): void {
  const { args } = fn;
  if (args.length > MAX_ARGUMENTS)
    return context.badValue(
      [...path, 'args', MAX_ARGUMENTS],
      `PostgreSQL allows ${MAX_ARGUMENTS} arguments; this function has ${args.length}`,
      'Pass one jsonb argument instead.',
    );
  const seen = new Set<string>();
  args.forEach((arg, index) => {
    const at: KeyPath = [...path, 'args', index];
    const { name } = arg;
    if (name === undefined) checkUnnamed(context, at, fn);
    else {
      checkName(context, [...at, 'name'], name);
      if (seen.has(name)) context.reportTwice([...at, 'name'], `the argument ${name} is declared twice`);
      seen.add(name);
    }
    if (arg.mode === 'out' && (arg.required || arg.default !== undefined)) {
      const key = arg.required ? 'required' : 'default';
      context.conflict([...at, key], 'callers do not pass arguments with mode: out', `Remove ${key}.`, 'key');
    }
    if (arg.mode === 'variadic' && args.slice(index + 1).some(({ mode }) => mode !== 'out')) {
      context.conflict([...at, 'mode'], 'a variadic argument receives all remaining values', 'Put it last.');
    }
    checkDefault(context, [...at, 'default'], arg.type, arg.default);
    if (arg.required && arg.default !== undefined && arg.default !== null) {
      context.report({
        code: 'conflict',
        path: [...at, 'default'],
        message: `the argument ${name ?? index + 1} is required, so its default is never used`,
        severity: 'warning',
        hint: 'Remove one of the two.',
      });
    }
  });
}

/** The API passes arguments by name, except a single argument that receives the whole body. */
function checkUnnamed(context: CheckContext, at: KeyPath, fn: RawSqlFunction): void {
  const [only, ...more] = fn.args;
  const isWholeBody = more.length === 0 && WHOLE_BODY_TYPES.includes(only?.type.toLowerCase() ?? '');
  if (!isServed(fn) || (isWholeBody && (only?.mode ?? 'in') === 'in')) return;
  context.report({
    code: 'missing-key',
    path: [...at, 'name'],
    message: '"name" is missing',
    hint:
      'Callers pass arguments by name. A name is optional with expose: false, and for a single argument of type ' +
      'json, jsonb, text or bytea, which receives the whole body.',
    part: 'key',
  });
}

/** Rejects keys that have no equivalent in CREATE PROCEDURE. */
function checkProcedure(context: CheckContext, path: KeyPath, fn: RawSqlFunction): void {
  const excluded: ReadonlyArray<readonly [key: string, isWritten: boolean, hint: string]> = [
    ['returns', fn.returns !== '', 'Remove returns; a procedure returns values in inout arguments.'],
    ['expose', fn.expose === true, 'Remove expose: a procedure is called from SQL, with CALL.'],
    ['volatility', fn.volatility !== 'volatile', 'Remove volatility.'],
    ['strict', fn.strict === true, 'Remove strict.'],
    ['parallel', (fn.parallel ?? 'unsafe') !== 'unsafe', 'Remove parallel.'],
    ['cost', fn.cost !== undefined, 'Remove cost.'],
    ['rows', fn.rows !== undefined, 'Remove rows.'],
  ];
  for (const [key, isWritten, hint] of excluded) {
    if (isWritten) context.conflict([...path, key], `a procedure cannot have ${key}`, hint, 'key');
  }
}

/** Returns false if the function has no result type. The remaining checks depend on it. */
function checkReturns(context: CheckContext, path: KeyPath, { args, returns }: RawSqlFunction): boolean {
  const outputs = args.filter(isOutput);
  if (returns === '' && outputs.length === 0) {
    context.report({
      code: 'missing-key',
      path: [...path, 'returns'],
      message: '"returns" is missing',
      hint: 'For example returns: { type: integer }, or { type: void }.',
      part: 'key',
    });
    return false;
  }
  if (outputs.length > 1 && !/^$|^(setof\s+)?record$/i.test(returns.trim())) {
    context.conflict(
      [...path, 'returns'],
      'the arguments with the mode out or inout are the result',
      'Remove returns, or write returns: { type: setof record } for many rows.',
      'key',
    );
  }
  return true;
}

function checkResult(context: CheckContext, path: KeyPath, type: string, tables: ReadonlySet<string>): void {
  const written = /^setof\s+(.+)$/is.exec(type.trim())?.[1]?.trim();
  if (written === undefined) return;
  const parts = nameParts(written);
  const setOf = parts.join('.');
  if (KNOWN_TYPE.test(setOf) || declaredType(written, context.file.types)) return;
  const whole = parts.length > 1 ? setOf : `public.${setOf}`;
  if (tables.has(whole) || context.broken.covers(['tables', whole.replace(/^[^.]*\./, '')])) return;
  const names = [...tables].map((table) => table.replace(/^public\./, ''));
  context.report({
    code: 'unknown-reference',
    path,
    message: `there is no table ${context.show(path, setOf)}`,
    hint: () => didYouMean(setOf, names) ?? 'Write setof with a table of this file, or with a type.',
  });
}

/** Splits `crm."quo""te"` at the dots and removes the quotes, as SQL does. */
function nameParts(text: string): string[] {
  return [...text.matchAll(/"((?:[^"]|"")*)"|[^".]+/g)].map(([whole, quoted]) =>
    quoted === undefined ? whole.trim() : quoted.replaceAll('""', '"'),
  );
}

export function checkCodeFunctions(context: CheckContext): void {
  const isBundled = context.file.functions_bundle !== undefined;
  for (const [name, fn] of Object.entries(context.file.functions)) {
    if (context.isFull) return;
    const path = ['functions', name];
    if (!/^[A-Za-z0-9][\w-]{0,62}$/.test(name)) {
      context.badValue(
        path,
        `${JSON.stringify(name)} is not a function name`,
        'Use letters, digits, - and _: the name is part of the URL.',
        'key',
      );
    }
    if (!fn.http && context.scalar([...path, 'auth_required'])?.text === 'false') {
      context.conflict(
        [...path, 'auth_required'],
        'auth_required must be true with http: false',
        'Remove auth_required: clients cannot call the function.',
        'key',
      );
    }
    if (!/\.(m?js|ts|mts)$/.test(fn.file)) {
      context.badValue(
        [...path, 'file'],
        `${context.quote([...path, 'file'], fn.file)} is not an ES module`,
        'The handler must be a .js, .mjs or .ts file.',
      );
      continue;
    }
    // Bundled sources need not exist in this directory.
    if (isBundled || !checkReferencedFile(context, [...path, 'file'], fn.file)) continue;
    if (context.options.syntax === true) checkHandler(context, [...path, 'file'], fn.file);
    if (!fn.authRequired && !isHookFunction(context.file, name))
      checkPublicSource(context, [...path, 'file'], fn.file);
  }
}

/** The service client bypasses every policy, and anyone can call a public function. */
function checkPublicSource(context: CheckContext, path: KeyPath, file: string): void {
  const { directory } = context.options;
  if (directory === undefined || !mentionsServiceClient(readFileSync(join(directory, file), 'utf8'))) return;
  context.conflict(
    path,
    `${context.show(path, file)} uses ctx.serviceClient, and anyone can call this function`,
    'Declare it with auth_required: true for signed-in callers, or use ctx.client, which obeys the policies. ' +
      'A caller without an account, such as a webhook, can only do what the policies and functions open to anon allow.',
  );
}
