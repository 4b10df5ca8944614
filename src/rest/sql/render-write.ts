// INSERT, UPDATE and DELETE. The body is one JSON parameter that PostgreSQL splits by the columns'
// declared types. Without a representation nothing is read back, so the caller needs no SELECT privilege.
import type { Column } from '../../catalog/catalog.ts';
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { ExposedRelation } from '../plan/relation.ts';
import type { PlanNode } from '../plan/plan.ts';
import type { InsertPlan, WritePlan, WriteRows } from '../plan/plan-write.ts';
import { namesIn, neededColumns, qualifiedName } from './names.ts';
import { renderCondition } from './render-node.ts';
import { renderResult, type ReadShape } from './render-read.ts';
import { checkedCount, selectResult, type ResultEntry, type ResultStatement } from './render-result.ts';
import { BODY } from '../request/query.ts';
import { StatementParts } from './statement.ts';

export type WriteShape = ReadShape & {
  readonly withLocation: boolean;
  /** Return how many rows were inserted and not updated. */
  readonly countInserted: boolean;
};

const INSERTED_SETTING = 'svc.inserted';

export function renderWrite(
  relation: ExposedRelation,
  write: WritePlan,
  node: PlanNode,
  shape: WriteShape,
): ResultStatement {
  const parts = new StatementParts([...namesIn(node), relation.name]);
  const needsResult =
    shape.withBody ||
    shape.withLocation ||
    shape.countInserted ||
    (shape.checks ?? []).length > 0 ||
    shape.withResponseSettings;
  const returning = returningColumns(relation, node, shape);
  const statement = renderStatement(relation, write, node, shape, parts, needsResult ? returning : undefined);
  // The command tag has the number of rows.
  if (!needsResult) return { ...parts.statement(statement), columns: [] };

  const source = parts.alias('source');
  const alias = relation.name;
  const prefix = `WITH ${quoteIdent(source)} AS (${statement}) `;
  const extra = extraEntries(relation, shape);
  const from = `${quoteIdent(source)} AS ${quoteIdent(alias)}`;
  if (shape.withBody) {
    const shown: PlanNode = { ...node, conditions: [] };
    return renderResult(shown, { from, alias, where: [] }, shape, parts, prefix, extra);
  }
  return selectResult(parts, shape, [['page', checkedCount(shape.checks)], ...extra], from, prefix);
}

function extraEntries(relation: ExposedRelation, shape: WriteShape): ResultEntry[] {
  const extra: ResultEntry[] = [];
  if (shape.withLocation) {
    const keys = relation.primaryKey.map((key) => `${quoteIdent(relation.name)}.${quoteIdent(key)}::text`);
    extra.push(['location', `(array_agg(json_build_array(${keys.join(', ')})))[1]`]);
  }
  if (shape.countInserted) {
    extra.push(['inserted', `nullif(current_setting('${INSERTED_SETTING}', true), '')`]);
  }
  return extra;
}

function returningColumns(relation: ExposedRelation, node: PlanNode, shape: WriteShape): string {
  const alias = quoteIdent(relation.name);
  const needed = shape.withBody ? neededColumns(node) : new Set<string>();
  if (!needed) return `${alias}.*`;
  const columns = new Set(needed);
  if (shape.withLocation) for (const key of relation.primaryKey) columns.add(key);
  if (columns.size === 0) return '1';
  return [...columns].map((column) => `${alias}.${quoteIdent(column)}`).join(', ');
}

function renderStatement(
  relation: ExposedRelation,
  write: WritePlan,
  node: PlanNode,
  shape: WriteShape,
  parts: StatementParts,
  returning: string | undefined,
): string {
  const tail = returning === undefined ? '' : ` RETURNING ${returning}`;
  const table = `${qualifiedName(relation)} AS ${quoteIdent(relation.name)}`;
  switch (write.kind) {
    case 'insert':
      return `INSERT INTO ${table}${renderInsert(relation, write, shape, parts)}${tail}`;
    case 'update': {
      const body = parts.alias('body');
      if (write.rows.columns.length === 0) return noUpdate(relation, returning);
      const set = write.rows.columns.map(
        ({ name, key }) => `${quoteIdent(name)} = ${quoteIdent(body)}.${quoteIdent(key)}`,
      );
      const from = renderRecords(relation, write.rows, body, parts);
      return `UPDATE ${table} SET ${set.join(', ')} FROM ${from}${renderWhere(node, parts)}${tail}`;
    }
    case 'delete':
      return `DELETE FROM ${table}${renderWhere(node, parts)}${tail}`;
  }
}

/** Updates nothing, and returns no rows with the same columns as an update would. */
function noUpdate(relation: ExposedRelation, returning: string | undefined): string {
  // Not FROM the relation: the caller may lack the privilege to read it.
  if (returning === undefined || returning === '1') return 'SELECT 1 WHERE false';
  return `SELECT ${returning} FROM ${qualifiedName(relation)} AS ${quoteIdent(relation.name)} WHERE false`;
}

/** Filters of the root choose the rows; inner joins only choose among those that are shown. */
function renderWhere(node: PlanNode, parts: StatementParts): string {
  const where = node.conditions.map((condition) => renderCondition(condition, node.name, parts));
  return where.length === 0 ? '' : ` WHERE ${where.join(' AND ')}`;
}

function renderInsert(
  relation: ExposedRelation,
  { rows, conflict, only }: InsertPlan,
  shape: WriteShape,
  parts: StatementParts,
): string {
  const names = rows.columns.map(({ name }) => quoteIdent(name));
  const keys = new Map(rows.columns.map(({ name, key }) => [name, key]));
  const body = parts.alias('body');
  const alias = quoteIdent(body);
  const conditions = only.map(
    ({ column, slot }) => `${alias}.${quoteIdent(keys.get(column) ?? column)} = ${parts.param(slot)}`,
  );
  if (shape.countInserted) conditions.push(countStep('+ 1'));
  const where = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;
  const values =
    names.length === 0
      ? ` SELECT FROM ${emptyRows(rows, alias, parts)}${where}`
      : `(${names.join(', ')}) SELECT ${rows.columns.map(({ key }) => `${alias}.${quoteIdent(key)}`).join(', ')} FROM ${renderRecords(relation, rows, body, parts)}${where}`;
  if (!conflict) return values;
  const target = conflict.columns.map(quoteIdent).join(', ');
  if (conflict.action === 'ignore' || names.length === 0)
    return `${values} ON CONFLICT (${target}) DO NOTHING`;
  const set = names.map((name) => `${name} = EXCLUDED.${name}`).join(', ');
  const counted = shape.countInserted ? ` WHERE ${countStep('- 1')}` : '';
  return `${values} ON CONFLICT (${target}) DO UPDATE SET ${set}${counted}`;
}

/** Each proposed row adds one; each row that was updated instead subtracts one. */
function countStep(step: '+ 1' | '- 1'): string {
  const current = `coalesce(nullif(current_setting('${INSERTED_SETTING}', true), ''), '0')::int`;
  return `set_config('${INSERTED_SETTING}', (${current} ${step})::text, true) IS NOT NULL`;
}

function emptyRows(rows: WriteRows, alias: string, parts: StatementParts): string {
  const body = parts.param(BODY);
  const list = rows.isArray ? `${body}::json` : `json_build_array(${body}::json)`;
  return `json_array_elements(${list}) AS ${alias}`;
}

/** The body as rows of the columns' types. */
function renderRecords(
  relation: ExposedRelation,
  rows: WriteRows,
  alias: string,
  parts: StatementParts,
): string {
  const definition = rows.columns.map(({ key, type }) => `${quoteIdent(key)} ${type}`).join(', ');
  const as = `AS ${quoteIdent(alias)}(${definition})`;
  const body = parts.param(BODY);
  if (!rows.useDefaults) {
    return `${rows.isArray ? 'json_to_recordset' : 'json_to_record'}(${body}::json) ${as}`;
  }
  const defaults = rows.columns.flatMap((column) => {
    const value = defaultOf(relation, column);
    return value === undefined ? [] : [`${quoteLiteral(column.key).trim()}, ${value}`];
  });
  const filled = `jsonb_build_object(${defaults.join(', ')})`;
  if (!rows.isArray) return `jsonb_to_record(${filled} || ${body}::jsonb) ${as}`;
  return `jsonb_to_recordset((SELECT coalesce(jsonb_agg(${filled} || "element"), '[]') FROM jsonb_array_elements(${body}::jsonb) AS "element")) ${as}`;
}

function defaultOf(relation: ExposedRelation, { name, default: expression }: Column): string | undefined {
  if (expression === null) return undefined;
  if (expression !== 'identity') return expression;
  const table = quoteLiteral(qualifiedName(relation)).trim();
  return `nextval(pg_get_serial_sequence(${table}, ${quoteLiteral(name).trim()}))`;
}
