// Renders function calls with named arguments of the declared types, so that defaults apply and the call is
// unambiguous. Simple arguments are separate parameters, which lets PostgreSQL inline the function.
import { quoteIdent } from '../../postgres/sql.ts';
import type { CallPlan, PlanNode, PlannedArgument } from '../plan/plan.ts';
import type { MediaType } from '../request/media-type.ts';
import { BODY } from '../request/query.ts';
import { namesIn, qualifiedName } from './names.ts';
import { renderLimits } from './render-node.ts';
import { renderResult, type ReadShape, type ResultParts } from './render-read.ts';
import {
  checkedCount,
  checkedCountFrom,
  selectResult,
  type Check,
  type ResultEntry,
  type ResultStatement,
} from './render-result.ts';
import { StatementParts } from './statement.ts';

export type CallShape = ReadShape & {
  /** Checks on the rows that the function returns, before filters and limits. */
  readonly guards: readonly Check[];
};

export function renderCall(call: CallPlan, node: PlanNode, shape: CallShape): ResultStatement {
  const parts = new StatementParts([...namesIn(node), call.routine.name]);
  const { isSetOf, returns } = call.routine;
  const record = call.fromBody ? parts.alias('args') : undefined;
  const invocation = renderInvocation(call, record, parts);
  const body = record === undefined ? undefined : renderRecord(call, record, parts);
  const alias = quoteIdent(node.name);

  if (returns.kind === 'composite' || returns.kind === 'columns') {
    const lateral = body === undefined ? '' : `${body}, LATERAL `;
    const from = `${lateral}${invocation} AS ${alias}`;
    const once = renderOnce(call, `SELECT ${alias}.* FROM ${from}`, shape, parts);
    const source = {
      from: once ? `${once.from} AS ${alias}` : from,
      alias: node.name,
      where: [],
      limit: shape.limit,
      offset: shape.offset,
    };
    return renderResult(node, source, { ...shape, isSingleRow: !isSetOf }, { parts, ...once });
  }
  const from = body === undefined ? '' : ` FROM ${body}`;
  const isBytes = returns.kind === 'scalar' && returns.baseType === 'bytea';
  if (!isSetOf) return renderValue(invocation, from, { ...shape, isBytes }, parts);
  const column = quoteIdent(parts.alias(returns.kind === 'record' ? 'row' : 'value'));
  const values = `SELECT ${invocation} AS ${column}${from}`;
  const once = renderOnce(call, values, shape, parts);
  const rows = `${once ? once.from : `(${values})`} AS ${alias}`;
  return renderSetOfValues({ rows, value: `${alias}.${column}` }, shape, { parts, ...once });
}

type Once = { readonly from: string; readonly prefix: string; readonly extra: readonly ResultEntry[] };

/**
 * The result as a common table expression, for statements that mention it twice: a function that writes must run
 * once. Undefined where the result is mentioned once, so that PostgreSQL can inline the function.
 */
function renderOnce(
  { routine }: CallPlan,
  rows: string,
  { total, guards }: CallShape,
  parts: StatementParts,
): Once | undefined {
  const isCounted = total !== undefined && routine.volatility === 'volatile';
  if (!isCounted && guards.length === 0) return undefined;
  const source = parts.alias('source');
  return {
    from: quoteIdent(source),
    prefix: `WITH ${quoteIdent(source)} AS MATERIALIZED (${rows}) `,
    extra: guards.length === 0 ? [] : [['affected', checkedCountFrom(source, guards)]],
  };
}

function renderValue(
  invocation: string,
  from: string,
  { isBytes, ...shape }: ReadShape & { readonly isBytes: boolean },
  parts: StatementParts,
): ResultStatement {
  const value = quoteIdent(parts.alias('value'));
  const body = renderOneValue(value, shape.media, isBytes);
  // OFFSET 0 keeps the call from being written out once for each mention of its value.
  const rows = `(SELECT ${invocation} AS ${value}${from} OFFSET 0) AS ${quoteIdent(parts.alias('call'))}`;
  return selectResult(
    parts,
    shape,
    [
      ['body', body],
      ['page', '1'],
    ],
    rows,
  );
}

function renderOneValue(value: string, { kind }: MediaType, isBytes: boolean): string {
  if (kind === 'raw' && isBytes) return `encode(${value}, 'hex')`;
  if (kind === 'raw' || kind === 'csv') return `${value}::text`;
  return `coalesce(to_json(${value})::text, 'null')`;
}

function renderSetOfValues(
  { rows, value }: { readonly rows: string; readonly value: string },
  shape: ReadShape,
  { parts, prefix, extra = [] }: ResultParts,
): ResultStatement {
  const page = quoteIdent(parts.alias('page'));
  const entries: ResultEntry[] = [
    ...extra,
    ['body', renderItems(`${page}."item"`, shape.media)],
    ['page', checkedCount(shape.checks)],
  ];
  if (shape.total !== undefined) entries.push(['total', `(SELECT count(*) FROM ${rows})`]);
  const items = `(SELECT ${value} AS "item" FROM ${rows}${renderLimits(shape, parts)}) AS ${page}`;
  return selectResult(parts, shape, entries, items, prefix);
}

function renderItems(item: string, { kind }: MediaType): string {
  if (kind === 'csv') return `string_agg(${item}::text, E'\\n')`;
  if (kind === 'singular') return `string_agg(to_json(${item})::text, ',')`;
  return `coalesce(json_agg(${item}), '[]')`;
}

function renderInvocation(call: CallPlan, record: string | undefined, parts: StatementParts): string {
  const args = call.arguments.map((argument) => renderArgument(argument, record, parts));
  return `${qualifiedName(call.routine)}(${args.join(', ')})`;
}

function renderArgument(
  argument: PlannedArgument,
  record: string | undefined,
  parts: StatementParts,
): string {
  const name = quoteIdent(argument.name);
  const type = argumentType(argument.type);
  const prefix = argument.variadic ? 'VARIADIC ' : '';
  if (record !== undefined) return `${prefix}${name} := ${quoteIdent(record)}.${quoteIdent(argument.key)}`;
  const [first, ...more] = argument.slots.map((slot) => parts.param(slot));
  if (argument.variadic) return `${prefix}${name} := ARRAY[${[first, ...more].join(', ')}]::${type}`;
  return argument.name === '' ? `${first}::${type}` : `${name} := ${first}::${type}`;
}

function renderRecord(call: CallPlan, record: string, parts: StatementParts): string {
  const definition = call.arguments.map(
    (argument) => `${quoteIdent(argument.key)} ${argumentType(argument.type)}`,
  );
  return `json_to_record(${parts.param(BODY)}::json) AS ${quoteIdent(record)}(${definition.join(', ')})`;
}

/** Replaces the two types that mean a length of one, which would truncate the value, if no length is given. */
function argumentType(type: string): string {
  if (type === 'character') return 'bpchar';
  return type === 'bit' ? 'bit varying' : type;
}
