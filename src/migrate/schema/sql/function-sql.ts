// CREATE FUNCTION statements.
import { quoteIdent, quoteLiteral } from '../../../postgres/sql.ts';
import { defaultSql } from './default-sql.ts';
import type { DesiredFunction } from '../desired.ts';
import { type FunctionModel, quoteName } from '../model.ts';
import { atomicSql, textBody } from './atomic-body.ts';
import { sqlWords } from '../../../lib/sql/sql-text.ts';

/** Converts a function of the model. `views`: names of the declared views. */
export function toDesiredFunction(model: FunctionModel, views: ReadonlySet<string>): DesiredFunction {
  let defaulted = false;
  const args = model.args.map((arg) => {
    const name = arg.name === '' ? '' : `${quoteIdent(arg.name)} `;
    const written = `${arg.mode === undefined ? '' : `${arg.mode} `}${name}${arg.type}`;
    if (arg.mode === 'out') return written;
    const text =
      arg.default === null
        ? arg.required || arg.mode === 'variadic'
          ? null
          : 'null'
        : defaultSql(arg.default, arg.type);
    // The server requires a default for every argument after the first one with a default. The API checks that required
    // arguments are present.
    const value = text ?? (defaulted ? 'null' : null);
    defaulted ||= value !== null;
    return `${written}${value === null ? '' : ` default ${value}`}`;
  });
  const settings: Record<string, string> = {
    ...(model.definer ? { search_path: 'public, pg_temp' } : {}),
    ...model.settings,
  };
  const security = [
    model.definer ? 'security definer' : 'security invoker',
    ...Object.entries(settings).map(([name, value]) => `set ${settingSql(name, value)}`),
  ].join(' ');
  const head = [
    `(${args.join(', ')})`,
    ...(model.returns === '' ? [] : [`returns ${model.returns}`]),
    `language ${model.language}${model.kind === 'procedure' ? '' : ` ${model.volatility}`}`,
    ...(model.strict ? ['strict'] : []),
    ...(model.parallel ? [`parallel ${model.parallel}`] : []),
    ...(model.cost === undefined ? [] : [`cost ${model.cost}`]),
    ...(model.rows === undefined ? [] : [`rows ${model.rows}`]),
    security,
  ].join(' ');
  return {
    schema: model.schema,
    name: model.name,
    model,
    head,
    usesViewRows: views.size > 0 && [...sqlWords(head)].some((word) => views.has(word)),
    body: model.body.trimEnd(),
    at: model.at,
    normal: null,
  };
}

function settingSql(name: string, value: string): string {
  const quoted = name.split('.').map(quoteIdent).join('.');
  if (name.toLowerCase() !== 'search_path') return `${quoted} to ${quoteLiteral(value)}`;
  // A single literal would be the name of a single schema.
  return `${quoted} to ${searchPathSchemas(value).map(quoteIdent).join(', ') || "''"}`;
}

/** Splits a search path into schemas. */
export function searchPathSchemas(value: string): string[] {
  return value
    .split(',')
    .map((schema) => schema.trim())
    .map((schema) => (/^".*"$/.test(schema) ? schema.slice(1, -1).replaceAll('""', '"') : schema))
    .filter((schema) => schema !== '');
}

/** Returns the dollar-quoted body. The tag is changed until the body does not contain it. */
export function bodyLiteral(body: string): string {
  let tag = '$svc$';
  // The body may also end with the first characters of the tag.
  for (let n = 1; `${body}${tag}`.indexOf(tag) < body.length; n += 1) tag = `$svc${n}$`;
  return `${tag}${body}${tag}`;
}

export function routineWord({ kind }: Pick<FunctionModel, 'kind'>): 'function' | 'procedure' {
  return kind ?? 'function';
}

/**
 * Returns a statement with the body as a string, which the server does not parse while check_function_bodies is off.
 */
export function createFunctionSql(fn: DesiredFunction): string {
  const body = fn.model.atomic ? textBody(readBody(fn)) : fn.body;
  return `${createHead(fn)} as ${bodyLiteral(body)}`;
}

/** Returns a statement with the stub body if there is one. */
export function createUncheckedSql(fn: DesiredFunction): string {
  return fn.stub === undefined ? createFunctionSql(fn) : `${createHead(fn)} as ${bodyLiteral(fn.stub)}`;
}

/** Returns a statement whose body the server parses. All objects that the body names must exist. */
export function createCheckedSql(fn: DesiredFunction): string {
  return fn.model.atomic ? `${createHead(fn)}\n${atomicSql(readBody(fn))}` : createFunctionSql(fn);
}

function createHead(fn: DesiredFunction): string {
  return `create or replace ${routineWord(fn.model)} ${quoteName(fn)}${fn.head}`;
}

/** Prefers the printed body to the text of the file: `select *` would return retired columns too. */
function readBody({ normal, body }: DesiredFunction): string {
  return normal?.atomicBody ?? body;
}
