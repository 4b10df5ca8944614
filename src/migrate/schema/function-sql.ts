// SQL functions as statements.
import { quoteIdent } from '../../postgres/sql.ts';
import { defaultSql } from './default-sql.ts';
import type { DesiredFunction } from './desired.ts';
import { type FunctionModel, nameOf } from './model.ts';

export function toDesiredFunction(model: FunctionModel): DesiredFunction {
  let defaulted = false;
  const args = model.args.map((arg) => {
    const text = arg.default === null ? (arg.required ? null : 'null') : defaultSql(arg.default, arg.type);
    // The server wants a default on every argument after the first with one; the API checks required ones.
    const value = text ?? (defaulted ? 'null' : null);
    defaulted ||= value !== null;
    return `${quoteIdent(arg.name)} ${arg.type}${value === null ? '' : ` default ${value}`}`;
  });
  const security = model.definer ? 'security definer set search_path = public, pg_temp' : 'security invoker';
  return {
    schema: model.schema,
    name: model.name,
    model,
    head: `(${args.join(', ')}) returns ${model.returns} language ${model.language} ${model.volatility} ${security}`,
    body: model.body.trimEnd(),
    at: model.at,
    normal: null,
  };
}

/** Body quoting that no body can break out of: the tag is made longer until the body does not contain it. */
export function bodyLiteral(body: string): string {
  let tag = '$svc$';
  // A body may also end with the beginning of the tag.
  for (let n = 1; `${body}${tag}`.indexOf(tag) < body.length; n += 1) tag = `$svc${n}$`;
  return `${tag}${body}${tag}`;
}

export function createFunctionSql(fn: DesiredFunction): string {
  return `create or replace function ${nameOf(fn)}${fn.head} as ${bodyLiteral(fn.body)}`;
}
