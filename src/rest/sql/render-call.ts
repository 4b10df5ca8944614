// Calling a function: always by named arguments with the declared types, so that defaults apply and nothing is
// ambiguous. Simple arguments are parameters of their own, which lets PostgreSQL inline the function.
import { quoteIdent } from '../../postgres/sql.ts';
import type { CallPlan, PlanNode, PlannedArgument } from '../plan/plan.ts';
import type { Count } from '../request/query.ts';
import { namesIn, qualifiedName } from './render-node.ts';
import { renderResult, type ReadShape, type ResultStatement } from './render-read.ts';
import { RESPONSE_SETTINGS, type ResultColumn } from './render-result.ts';
import { BODY } from '../request/slots.ts';
import { StatementParts } from './statement.ts';

export type CallShape = ReadShape & {
  readonly limit: Count | undefined;
};

export function renderCall(call: CallPlan, node: PlanNode, shape: CallShape): ResultStatement {
  const parts = new StatementParts([...namesIn(node), call.routine.name]);
  const { routine } = call;
  const record = call.fromBody ? parts.alias('args') : undefined;
  const invocation = renderInvocation(call, record, parts);
  const lateral = record === undefined ? '' : `${renderRecord(call, record, parts)}, LATERAL `;
  const alias = node.name;

  switch (routine.returns.kind) {
    case 'composite':
    case 'columns': {
      const from = `${lateral}${invocation} AS ${quoteIdent(alias)}`;
      const source = { from, alias, where: [], limit: shape.limit, offset: shape.offset };
      return renderResult(node, source, { ...shape, isSingleRow: !routine.isSetOf }, parts, '');
    }
    case 'record':
    case 'scalar':
    case 'void': {
      if (routine.isSetOf) {
        const value = routine.returns.kind === 'record' ? 'row' : 'value';
        const column = parts.alias(value);
        const rows = `(SELECT ${invocation} AS ${quoteIdent(column)}${record === undefined ? '' : ` FROM ${renderRecord(call, record, parts)}`}) AS ${quoteIdent(alias)}`;
        return renderSetOfValues(rows, `${quoteIdent(alias)}.${quoteIdent(column)}`, shape, parts);
      }
      return renderValue(
        invocation,
        record === undefined ? '' : ` FROM ${renderRecord(call, record, parts)}`,
        shape,
        parts,
      );
    }
  }
}

function renderValue(
  invocation: string,
  from: string,
  shape: CallShape,
  parts: StatementParts,
): ResultStatement {
  const columns: Array<readonly [ResultColumn, string]> = [];
  const value = quoteIdent(parts.alias('value'));
  const csv = shape.media.kind === 'csv';
  const body = csv ? `${value}::text` : `coalesce(to_json(${value})::text, 'null')`;
  columns.push(['body', body], ['page', '1']);
  if (shape.withResponseSettings) columns.push(...RESPONSE_SETTINGS);
  const select = columns.map(([, expression]) => expression).join(', ');
  // OFFSET 0 keeps the call from being written out once for each mention of its value.
  const rows = `(SELECT ${invocation} AS ${value}${from} OFFSET 0) AS ${quoteIdent(parts.alias('call'))}`;
  return {
    ...parts.statement(`SELECT ${select} FROM ${rows}`),
    columns: columns.map(([name]) => name),
  };
}

function renderSetOfValues(
  rows: string,
  value: string,
  shape: CallShape,
  parts: StatementParts,
): ResultStatement {
  const page = parts.alias('page');
  const item = `${quoteIdent(page)}."item"`;
  const limit = shape.limit === undefined ? '' : ` LIMIT ${renderPage(shape.limit, parts)}`;
  const offset = shape.offset === undefined ? '' : ` OFFSET ${renderPage(shape.offset, parts)}`;
  const columns: Array<readonly [ResultColumn, string]> = [
    ['body', renderItems(item, shape)],
    ['page', 'count(*)'],
  ];
  if (shape.total !== undefined) columns.push(['total', `(SELECT count(*) FROM ${rows})`]);
  if (shape.withResponseSettings) columns.push(...RESPONSE_SETTINGS);
  const select = columns.map(([, expression]) => expression).join(', ');
  const text = `SELECT ${select} FROM (SELECT ${value} AS "item" FROM ${rows}${limit}${offset}) AS ${quoteIdent(page)}`;
  return { ...parts.statement(text), columns: columns.map(([name]) => name) };
}

function renderItems(item: string, { media }: CallShape): string {
  if (media.kind === 'csv') return `string_agg(${item}::text, E'\\n')`;
  if (media.kind === 'singular') return `string_agg(to_json(${item})::text, ',')`;
  return `coalesce(json_agg(${item}), '[]')`;
}

function renderPage(count: Count, parts: StatementParts): string {
  return 'literal' in count ? String(count.literal) : `${parts.param(count.slot)}::bigint`;
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
  if (record !== undefined) return `${prefix}${name} := ${quoteIdent(record)}.${name}`;
  const [first, ...more] = argument.slots.map((slot) => parts.param(slot));
  if (argument.variadic) return `${prefix}${name} := ARRAY[${[first, ...more].join(', ')}]::${type}`;
  return `${name} := ${first}::${type}`;
}

function renderRecord(call: CallPlan, record: string, parts: StatementParts): string {
  const definition = call.arguments.map(
    (argument) => `${quoteIdent(argument.name)} ${argumentType(argument.type)}`,
  );
  return `json_to_record(${parts.param(BODY)}::json) AS ${quoteIdent(record)}(${definition.join(', ')})`;
}

/** Without a length these two mean a length of one and would cut the value. */
function argumentType(type: string): string {
  if (type === 'character') return 'bpchar';
  return type === 'bit' ? 'bit varying' : type;
}
