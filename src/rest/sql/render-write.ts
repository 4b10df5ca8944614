// INSERT, UPDATE and DELETE. The body is one JSON parameter that PostgreSQL splits by the columns'
// declared types. Without a representation nothing is read back, so the caller needs no SELECT privilege.
import type { Column } from '../../catalog/catalog.ts';
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { ExposedRelation } from '../plan/relation.ts';
import type { PlanNode } from '../plan/plan.ts';
import type { InsertPlan, WritePlan, WriteRows, WrittenColumn } from '../plan/plan-write.ts';
import { namesIn, neededColumns, qualifiedName } from './names.ts';
import { renderCondition } from './render-node.ts';
import { renderResult, type ReadShape } from './render-read.ts';
import {
  checkedCount,
  checkedCountFrom,
  selectResult,
  type Check,
  type ResultEntry,
  type ResultStatement,
} from './render-result.ts';
import { BODY } from '../request/query.ts';
import { StatementParts } from './statement.ts';

export type WriteShape = ReadShape & {
  readonly withLocation: boolean;
  /** Return how many rows were inserted and not updated. */
  readonly countInserted: boolean;
  /** Checks on the rows that are changed; `checks` are on the rows that are shown. */
  readonly guards: readonly Check[];
  /** Return the number of changed rows, which differs from the number of rows in the body. */
  readonly countAffected: boolean;
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
    shape.guards.length > 0 ||
    (shape.checks ?? []).length > 0 ||
    shape.withResponseSettings;
  const returning = returningColumns(relation, node, shape);
  const statements = renderStatements(
    { relation, write, node, shape },
    parts,
    needsResult || hasGroups(write) ? returning : undefined,
  );
  const [only = '', ...more] = statements;
  // The command tag has the number of rows.
  if (!needsResult && more.length === 0) return { ...parts.statement(only), columns: [] };

  const source = parts.alias('source');
  const alias = relation.name;
  const prefix = `WITH ${renderSource(source, statements, parts)} `;
  const extra = extraEntries(relation, shape);
  const from = `${quoteIdent(source)} AS ${quoteIdent(alias)}`;
  if (shape.withBody) {
    const shown: PlanNode = { ...node, conditions: [] };
    // Embeds, null tests and groups decide what is shown, so the guards count the rows of the write itself.
    if (shape.countAffected || shape.guards.length > 0)
      extra.unshift(['affected', checkedCountFrom(source, shape.guards)]);
    return renderResult(shown, { from, alias, where: [] }, shape, { parts, prefix, extra });
  }
  const checks = [...shape.guards, ...(shape.checks ?? [])];
  return selectResult(parts, shape, [['page', checkedCount(checks)], ...extra], from, prefix);
}

/** The rows of the write, as a common table expression for each of its statements and one for all. */
function renderSource(source: string, statements: readonly string[], parts: StatementParts): string {
  if (statements.length === 1) return `${quoteIdent(source)} AS (${statements[0] ?? ''})`;
  const groups = statements.map((text) => ({ name: quoteIdent(parts.alias('group')), text }));
  const all = groups.map(({ name }) => `SELECT * FROM ${name}`).join(' UNION ALL ');
  return [
    ...groups.map(({ name, text }) => `${name} AS (${text})`),
    `${quoteIdent(source)} AS (${all})`,
  ].join(', ');
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

type Written = {
  readonly relation: ExposedRelation;
  readonly write: WritePlan;
  readonly node: PlanNode;
  readonly shape: WriteShape;
};

/** Renders a single statement, or several for an insert whose rows differ in their identity columns. */
function renderStatements(
  { relation, write, node, shape }: Written,
  parts: StatementParts,
  returning: string | undefined,
): string[] {
  const tail = returning === undefined ? '' : ` RETURNING ${returning}`;
  const table = `${qualifiedName(relation)} AS ${quoteIdent(relation.name)}`;
  switch (write.kind) {
    case 'insert':
      return rowGroups(write.rows).map(
        (group) => `INSERT INTO ${table}${renderInsert(write, group, shape, parts)}${tail}`,
      );
    case 'update': {
      const { columns, omitted } = write.rows;
      if (columns.length + omitted.length === 0) return [noUpdate(relation, returning)];
      const body = parts.alias('body');
      const alias = quoteIdent(body);
      const set = [
        ...columns.map(({ name, key }) => `${quoteIdent(name)} = ${alias}.${quoteIdent(key)}`),
        ...omitted.map(({ name }) => `${quoteIdent(name)} = DEFAULT`),
      ].join(', ');
      if (columns.length === 0) return [`UPDATE ${table} SET ${set}${renderWhere(node, parts)}${tail}`];
      const prefix = renderBody(write.rows, body, parts);
      const where = renderWhere(node, parts, [`(SELECT count(*) FROM ${alias}) > 0`]);
      return [`${prefix} UPDATE ${table} SET ${set} FROM ${alias}${where}${tail}`];
    }
    case 'delete':
      return [`DELETE FROM ${table}${renderWhere(node, parts)}${tail}`];
  }
}

/**
 * The body of an update as a common table expression. Its count is a condition without columns of the table, which
 * PostgreSQL evaluates before it reads the table. In a plain join the plan decides whether a body is evaluated when no
 * row matches, and plans follow statistics that include hidden rows.
 */
function renderBody(rows: WriteRows, body: string, parts: StatementParts): string {
  const { columns } = rows;
  const given = columns.map((column) => {
    const name = column.isJsonText ? ` AS ${quoteIdent(column.key)}` : '';
    return `${renderGiven(column, body)}${name}`;
  });
  const records = renderRecords(rows, { columns }, body, parts);
  return `WITH ${quoteIdent(body)} AS MATERIALIZED (SELECT ${given.join(', ')} FROM ${records})`;
}

/** Updates nothing, and returns no rows with the same columns as an update would. */
function noUpdate(relation: ExposedRelation, returning: string | undefined): string {
  // Not FROM the relation: the caller may lack the privilege to read it.
  if (returning === undefined || returning === '1') return 'SELECT 1 WHERE false';
  return `SELECT ${returning} FROM ${qualifiedName(relation)} AS ${quoteIdent(relation.name)} WHERE false`;
}

/** Filters of the root choose the rows; inner joins only choose among those that are shown. */
function renderWhere(node: PlanNode, parts: StatementParts, before: readonly string[] = []): string {
  const conditions = node.conditions.map((condition) => renderCondition(condition, node.name, parts));
  const where = [...before, ...conditions];
  return where.length === 0 ? '' : ` WHERE ${where.join(' AND ')}`;
}

/** Rows that give the same identity columns. */
type RowGroup = {
  /** Columns that the rows of this group contain. */
  readonly columns: readonly WrittenColumn[];
  /** Identity columns by which the groups differ. */
  readonly given: readonly WrittenColumn[];
  readonly left: readonly WrittenColumn[];
};

/**
 * An identity column that only some rows give splits the rows in two statements. PostgreSQL evaluates the default of
 * an identity column only where a statement leaves the column out, and a caller has no privilege on its sequence.
 */
function rowGroups({ columns, partial }: WriteRows): RowGroup[] {
  let groups: RowGroup[] = [{ columns, given: [], left: [] }];
  for (const identity of partial.filter(isIdentity)) {
    groups = groups.flatMap((group) => [
      { ...group, given: [...group.given, identity] },
      {
        ...group,
        columns: group.columns.filter(({ name }) => name !== identity.name),
        left: [...group.left, identity],
      },
    ]);
  }
  return groups;
}

function hasGroups(write: WritePlan): boolean {
  return write.kind === 'insert' && write.rows.partial.some(isIdentity);
}

function isIdentity({ default: expression }: Column): boolean {
  return expression === 'identity';
}

function renderInsert(
  { rows, conflict, only }: InsertPlan,
  group: RowGroup,
  shape: WriteShape,
  parts: StatementParts,
): string {
  const { columns } = group;
  const keys = new Map(columns.map(({ name, key }) => [name, key]));
  const body = parts.alias('body');
  const alias = quoteIdent(body);
  const conditions = only.map(
    ({ column, slot }) => `${alias}.${quoteIdent(keys.get(column) ?? column)} = ${parts.param(slot)}`,
  );
  if (shape.countInserted) conditions.push(countStep('+ 1'));
  const where = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;
  const names = columns.map(({ name }) => quoteIdent(name)).join(', ');
  const given = columns.map((column) => renderGiven(column, body)).join(', ');
  const values =
    columns.length === 0
      ? ` SELECT FROM ${emptyRows(rows, group, alias, parts)}${where}`
      : `(${names}) SELECT ${given} FROM ${renderRecords(rows, group, body, parts)}${where}`;
  if (!conflict) return values;
  const target = conflict.columns.map(quoteIdent).join(', ');
  // A row that leaves its identity out keeps the one that it has; other columns take their defaults.
  const set = [...columns, ...rows.omitted.filter((column) => !isIdentity(column))]
    .map(({ name }) => `${quoteIdent(name)} = EXCLUDED.${quoteIdent(name)}`)
    .join(', ');
  if (conflict.action === 'ignore' || set === '') return `${values} ON CONFLICT (${target}) DO NOTHING`;
  const counted = shape.countInserted ? ` WHERE ${countStep('- 1')}` : '';
  return `${values} ON CONFLICT (${target}) DO UPDATE SET ${set}${counted}`;
}

/** Each proposed row adds one; each row that was updated instead subtracts one. */
function countStep(step: '+ 1' | '- 1'): string {
  const current = `coalesce(nullif(current_setting('${INSERTED_SETTING}', true), ''), '0')::int`;
  return `set_config('${INSERTED_SETTING}', (${current} ${step})::text, true) IS NOT NULL`;
}

function emptyRows(rows: WriteRows, group: RowGroup, alias: string, parts: StatementParts): string {
  const body = parts.param(BODY);
  const list = rows.isArray ? rowElements(group, body) : `json_build_array(${body}::json)`;
  return `json_array_elements(${list}) AS ${alias}`;
}

/** The rows of a group as one JSON array. */
function rowElements({ given, left }: Pick<RowGroup, 'given' | 'left'>, body: string): string {
  const tests = [...given.map(hasKey), ...left.map((column) => `NOT ${hasKey(column)}`)];
  if (tests.length === 0) return `${body}::json`;
  return (
    `(SELECT coalesce(json_agg("element"), '[]') FROM jsonb_array_elements(${body}::jsonb) AS "element" ` +
    `WHERE ${tests.join(' AND ')})`
  );
}

function hasKey({ key }: WrittenColumn): string {
  return `"element" ? ${quoteLiteral(key).trim()}`;
}

/** The value that a row of the body has for a column. */
function renderGiven({ key, type, isJsonText }: WrittenColumn, body: string): string {
  const value = `${quoteIdent(body)}.${quoteIdent(key)}`;
  return isJsonText ? `${value}::${type}` : value;
}

type RecordOptions = Pick<RowGroup, 'columns'> & Partial<Pick<RowGroup, 'given' | 'left'>>;

/** The body as rows of the columns' types. */
function renderRecords(
  { isArray, partial }: WriteRows,
  { columns, given = [], left = [] }: RecordOptions,
  alias: string,
  parts: StatementParts,
): string {
  const definition = columns
    .map(({ key, type, isJsonText }) => `${quoteIdent(key)} ${isJsonText ? 'text' : type}`)
    .join(', ');
  const as = `AS ${quoteIdent(alias)}(${definition})`;
  const body = parts.param(BODY);
  if (!isArray) return `json_to_record(${body}::json) ${as}`;
  const defaults = partial.flatMap((column) =>
    column.default === null || isIdentity(column)
      ? []
      : [`${quoteLiteral(column.key).trim()}, ${column.default}`],
  );
  const list = rowElements({ given, left }, body);
  if (defaults.length === 0) return `json_to_recordset(${list}) ${as}`;
  const filled = `jsonb_build_object(${defaults.join(', ')}) || "element"`;
  return (
    `jsonb_to_recordset((SELECT coalesce(jsonb_agg(${filled}), '[]') ` +
    `FROM jsonb_array_elements((${list})::jsonb) AS "element")) ${as}`
  );
}
