// Fields, casts, aggregates and conditions as SQL text. Names are quoted by the two functions of postgres/sql.ts;
// values are parameters; keywords come from tables and never from the request.
import { unreachable } from '../../lib/assert.ts';
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { Field, PlannedOrder } from '../plan/plan.ts';
import { COMPARE, IS, SEARCH } from '../request/operators.ts';
import type { Operation } from '../request/query.ts';
import type { StatementParts } from './statement.ts';

export function renderField({ path, column }: Field, alias: string): string {
  const base = `${quoteIdent(alias)}.${quoteIdent(path.column)}`;
  if (path.steps.length === 0) return base;
  const isJson = column !== undefined && (column.baseType === 'json' || column.baseType === 'jsonb');
  // An index on an expression only fits when the keys are constants, so they are literals and no parameters.
  const steps = path.steps.map(({ arrow, key }) =>
    typeof key === 'number' ? `${arrow}${key < 0 ? `(${key})` : key}` : `${arrow}${quoteLiteral(key).trim()}`,
  );
  return `(${isJson ? base : `to_jsonb(${base})`}${steps.join('')})`;
}

export function renderCast(expression: string, type: string | undefined): string {
  return type === undefined ? expression : `CAST(${expression} AS ${renderType(type)})`;
}

// Types whose names are SQL words and mean nothing as quoted identifiers.
const WORD_TYPES = new Set([
  'int',
  'integer',
  'smallint',
  'bigint',
  'real',
  'float',
  'double precision',
  'decimal',
  'dec',
  'numeric',
  'boolean',
  'char',
  'character',
  'character varying',
  'varchar',
  'national character',
  'national character varying',
  'nchar',
  'bit',
  'bit varying',
  'time',
  'time with time zone',
  'time without time zone',
  'timestamp',
  'timestamp with time zone',
  'timestamp without time zone',
  'interval',
]);

/**
 * Renders a type name. A single word is an identifier in PostgreSQL's case folding; several words must be a known
 * phrase.
 */
function renderType(type: string): string {
  const folded = type.toLowerCase();
  return WORD_TYPES.has(folded) ? folded : quoteIdent(folded);
}

export function renderOperation(
  expression: string,
  operation: Operation,
  negated: boolean,
  parts: StatementParts,
  isSearchVector = false,
): string {
  const text = positive(expression, operation, parts, isSearchVector);
  return negated ? `NOT (${text})` : text;
}

function positive(
  expression: string,
  operation: Operation,
  parts: StatementParts,
  isSearchVector: boolean,
): string {
  switch (operation.kind) {
    case 'compare': {
      const operator = COMPARE[operation.operator];
      const value = parts.param(operation.slot);
      if (operation.quantifier === undefined) return `${expression} ${operator} ${value}`;
      return `${expression} ${operator} ${operation.quantifier.toUpperCase()}(${value})`;
    }
    case 'in':
      return `${expression} = ANY(${parts.param(operation.slot)})`;
    case 'is':
      return `${expression} IS ${IS[operation.value]}`;
    case 'search': {
      const language =
        operation.language === undefined ? '' : `${quoteLiteral(operation.language)}::regconfig, `;
      const vector = isSearchVector ? expression : `to_tsvector(${language}${expression})`;
      return `${vector} @@ ${SEARCH[operation.operator]}(${language}${parts.param(operation.slot)})`;
    }
    default:
      return unreachable(operation);
  }
}

export function isSearchVector({ path, column }: Field): boolean {
  return path.steps.length === 0 && column?.baseType === 'tsvector';
}

export function renderOrder(expression: string, { direction, nulls }: PlannedOrder): string {
  const order = direction === undefined ? '' : direction === 'desc' ? ' DESC' : ' ASC';
  const place = nulls === undefined ? '' : nulls === 'first' ? ' NULLS FIRST' : ' NULLS LAST';
  return `${expression}${order}${place}`;
}
