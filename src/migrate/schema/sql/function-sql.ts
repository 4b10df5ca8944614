// SQL functions as statements.
import { quoteIdent, quoteLiteral } from '../../../postgres/sql.ts';
import { defaultSql } from './default-sql.ts';
import type { DesiredFunction } from '../desired.ts';
import { type FunctionModel, nameOf } from '../model.ts';
import { atomicSql, looseBody } from './atomic-body.ts';
import { wordsOf } from '../../../lib/sql/sql-text.ts';

/** `views`: names of the views of the file. */
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
    // The server wants a default on every argument after the first with one; the API checks required ones.
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
    isOfView: views.size > 0 && [...wordsOf(head)].some((word) => views.has(word)),
    body: model.body.trimEnd(),
    at: model.at,
    normal: null,
  };
}

function settingSql(name: string, value: string): string {
  const quoted = name.split('.').map(quoteIdent).join('.');
  if (name.toLowerCase() !== 'search_path') return `${quoted} to ${quoteLiteral(value)}`;
  // One literal would be one schema.
  return `${quoted} to ${pathOf(value).map(quoteIdent).join(', ') || "''"}`;
}

/** The schemas of a search path. */
export function pathOf(value: string): string[] {
  return value
    .split(',')
    .map((schema) => schema.trim())
    .map((schema) => (/^".*"$/.test(schema) ? schema.slice(1, -1).replaceAll('""', '"') : schema))
    .filter((schema) => schema !== '');
}

/** Body quoting that no body can break out of: the tag is made longer until the body does not contain it. */
export function bodyLiteral(body: string): string {
  let tag = '$svc$';
  // A body may also end with the beginning of the tag.
  for (let n = 1; `${body}${tag}`.indexOf(tag) < body.length; n += 1) tag = `$svc${n}$`;
  return `${tag}${body}${tag}`;
}

export function routineWord({ kind }: Pick<FunctionModel, 'kind'>): 'function' | 'procedure' {
  return kind ?? 'function';
}

/** With a body of text, about which the server asks nothing. */
export function createFunctionSql(fn: DesiredFunction): string {
  const body = fn.model.atomic ? looseBody(readBody(fn)) : fn.body;
  return `${createHead(fn)} as ${bodyLiteral(body)}`;
}

/** So that the server reads the body: what it names must be there. */
export function createCheckedSql(fn: DesiredFunction): string {
  return fn.model.atomic ? `${createHead(fn)}\n${atomicSql(readBody(fn))}` : createFunctionSql(fn);
}

function createHead(fn: DesiredFunction): string {
  return `create or replace ${routineWord(fn.model)} ${nameOf(fn)}${fn.head}`;
}

/** As of a view, the server's print and not the text: `select *` would yield retired columns too. */
function readBody({ normal, body }: DesiredFunction): string {
  return normal?.atomicBody ?? body;
}
