// Calling a function: always by named arguments with the declared types, so that defaults apply and nothing is
// ambiguous. Simple arguments are parameters of their own, which lets PostgreSQL inline the function.
import { quoteIdent } from '../../postgres/sql.ts';
import type { CallPlan, PlanNode, PlannedArgument } from '../plan/plan.ts';
import type { MediaType } from '../request/media-type.ts';
import { BODY } from '../request/query.ts';
import { namesIn, qualifiedName } from './names.ts';
import { renderLimits } from './render-node.ts';
import { renderResult, type ReadShape } from './render-read.ts';
import { selectResult, type ResultEntry, type ResultStatement } from './render-result.ts';
import { StatementParts } from './statement.ts';

export function renderCall(call: CallPlan, node: PlanNode, shape: ReadShape): ResultStatement {
  const parts = new StatementParts([...namesIn(node), call.routine.name]);
  const { isSetOf, returns } = call.routine;
  const record = call.fromBody ? parts.alias('args') : undefined;
  const invocation = renderInvocation(call, record, parts);
  const body = record === undefined ? undefined : renderRecord(call, record, parts);
  const alias = quoteIdent(node.name);

  if (returns.kind === 'composite' || returns.kind === 'columns') {
    const lateral = body === undefined ? '' : `${body}, LATERAL `;
    const from = `${lateral}${invocation} AS ${alias}`;
    const source = { from, alias: node.name, where: [], limit: shape.limit, offset: shape.offset };
    return renderResult(node, source, { ...shape, isSingleRow: !isSetOf }, parts);
  }
  const from = body === undefined ? '' : ` FROM ${body}`;
  if (!isSetOf) return renderValue(invocation, from, shape, parts);
  const column = quoteIdent(parts.alias(returns.kind === 'record' ? 'row' : 'value'));
  const rows = `(SELECT ${invocation} AS ${column}${from}) AS ${alias}`;
  return renderSetOfValues(rows, `${alias}.${column}`, shape, parts);
}

function renderValue(
  invocation: string,
  from: string,
  shape: ReadShape,
  parts: StatementParts,
): ResultStatement {
  const value = quoteIdent(parts.alias('value'));
  const body = shape.media.kind === 'csv' ? `${value}::text` : `coalesce(to_json(${value})::text, 'null')`;
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

function renderSetOfValues(
  rows: string,
  value: string,
  shape: ReadShape,
  parts: StatementParts,
): ResultStatement {
  const page = quoteIdent(parts.alias('page'));
  const entries: ResultEntry[] = [
    ['body', renderItems(`${page}."item"`, shape.media)],
    ['page', 'count(*)'],
  ];
  if (shape.total !== undefined) entries.push(['total', `(SELECT count(*) FROM ${rows})`]);
  const items = `(SELECT ${value} AS "item" FROM ${rows}${renderLimits(shape, parts)}) AS ${page}`;
  return selectResult(parts, shape, entries, items);
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

/** Without a length these two mean a length of one and would cut the value. */
function argumentType(type: string): string {
  if (type === 'character') return 'bpchar';
  return type === 'bit' ? 'bit varying' : type;
}
