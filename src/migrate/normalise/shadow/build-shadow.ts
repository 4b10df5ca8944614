// Statements that build the shadow.
import { quoteIdent } from '../../../postgres/sql.ts';
import { sqlWords } from '../../../lib/sql/sql-text.ts';
import type { DesiredFunction, DesiredType } from '../../schema/desired.ts';
import { recordCreatedObject } from '../../schema/live/live-statements.ts';
import { type IndexModel, objectKey, quoteName, tableKey } from '../../schema/model.ts';
import { createPartitionSql, partitionBySql } from '../../schema/partitions.ts';
import { primaryKeyColumns } from '../../schema/relation.ts';
import { BLOCKS, copyName, HOSTS } from '../../schema/rights/hosts.ts';
import { NO_USER } from '../../schema/row-triggers.ts';
import { createSequenceSql } from '../../schema/sequences.ts';
import { columnTypeSql, generatedSql } from '../../schema/sql/column-sql.ts';
import { createCheckedSql, createUncheckedSql } from '../../schema/sql/function-sql.ts';
import { indexBodySql } from '../../schema/sql/index-sql.ts';
import { optionsSql } from '../../schema/sql/options-sql.ts';
import {
  type DesiredStatement,
  rangeTypeNames,
  sortByKind,
  statementPhase,
} from '../../schema/statements.ts';
import { createTriggerSql, type DesiredTrigger, USERS } from '../../schema/triggers.ts';
import { createTypeSql, domainChecks, findTypesUsing, sortTypesByUse } from '../../schema/types.ts';
import { createViewSql, type DesiredView, sortByMentions } from '../../schema/views.ts';
import { requalify } from './requalify.ts';
import type { Piece, ShadowStatement } from './shadow-errors.ts';
import {
  domainCheckName,
  exclusionLabel,
  indexLabel,
  policyLabel,
  type ShadowNames,
  viewCopyName,
  viewIndexLabel,
} from './shadow-names.ts';
import type { Shadow, ShadowTable } from './shadow.ts';

/**
 * Returns the statements that build the shadow. `atOnce`: CREATE TABLE includes generated columns, unless they call a
 * declared function. Otherwise they replace plain columns later, so that an error in one is not reported for the table.
 */
export function buildStatements(shadow: Shadow, names: ShadowNames, atOnce: boolean): ShadowStatement[] {
  const statements: ShadowStatement[] = [];
  const requalified = createRequalifier(shadow, names);
  const add: Add = (text, from, { retry = false, after = '' } = {}): void => {
    const sql = requalified(text);
    // Positions in requalified text differ from positions in the file.
    const piece = typeof from === 'string' ? null : sql === text ? from : { ...from, sql: '' };
    statements.push({ sql: `${sql}${after}`, at: typeof from === 'string' ? from : from.at, piece, retry });
  };
  const createFunction = (fn: DesiredFunction): string =>
    createUncheckedSql({ ...fn, body: requalified(fn.body) });
  const types = sortTypesByUse(shadow.types);
  const addStatements = (isWanted: (statement: DesiredStatement) => boolean): void =>
    sortByKind(shadow.statements)
      .filter(isWanted)
      .forEach((statement) =>
        addStatement(statement, shadow.statements.indexOf(statement), names.schemas, add),
      );
  const addTypes = (added: readonly DesiredType[]): void => {
    for (const type of added) {
      add(createTypeSql(type), type.at);
      addDomainChecks(type, false, add);
    }
  };
  const ranges = shadow.statements.filter(({ kind }) => kind === 'type');
  const ofRanges = findTypesUsing(new Set(ranges.flatMap(rangeTypeNames)), types);
  addStatements((statement) => statementPhase(statement) === 'base' && statement.kind !== 'type');
  addTypes(types.filter((type) => !ofRanges.has(type)));
  for (const fn of shadow.functions) if (fn.isUsedByRange) add(createFunction(fn), fn.at, { retry: true });
  addStatements((statement) => statement.kind === 'type');
  addTypes([...ofRanges]);
  for (const sequence of shadow.sequences) add(createSequenceSql(sequence), sequence.at);
  for (const table of shadow.tables) addTable(table, atOnce, add);
  addKeys(shadow, add);
  for (const fn of shadow.functions)
    if (!fn.usesViewRows && !fn.isUsedByRange) add(createFunction(fn), fn.at, { retry: true });
  addStatements((statement) => statementPhase(statement) === 'calls');
  for (const type of types) addDomainChecks(type, true, add);
  for (const table of shadow.tables) addGenerated(table, atOnce, add);
  for (const view of sortByMentions(shadow.views)) addView(view, add);
  for (const fn of shadow.functions) if (fn.usesViewRows) add(createFunction(fn), fn.at, { retry: true });
  addStatements((statement) => statementPhase(statement) === 'last');
  shadow.tables.forEach((table, number) => addExpressions(table, number, add));
  shadow.views.forEach((view, number) => addViewIndexes(view, number, names.copies, add));
  addHostedPolicies(shadow, names, add);
  if (shadow.functions.length > 0) {
    // All tables exist now, so the server can check the bodies of SQL functions.
    add('set local check_function_bodies = on', '');
    for (const fn of shadow.functions)
      add(createCheckedSql({ ...fn, body: requalified(fn.body) }), `${fn.at}.body`);
  }
  addRowTriggers(shadow, add);
  addTriggers(shadow, `${names.copies}.users`, add);
  return statements;
}

/**
 * `from`: text of the user in the statement, or the path of a statement without any. `retry`: see `ShadowStatement`.
 * `after`: SQL to run with the statement, which contains no text of the user.
 */
type Add = (
  text: string,
  from: string | Piece,
  options?: { readonly retry?: boolean; readonly after?: string },
) => void;

/** Adds a table with its columns and partitions. */
function addTable(table: ShadowTable, atOnce: boolean, add: Add): void {
  const columns = table.columns.map(
    (column) =>
      `${quoteIdent(column.name)} ` +
      `${columnTypeSql(column)}${atOnce && !column.callsDeclaredFunction ? generatedSql(column) : ''}`,
  );
  const { partitioning, options } = table;
  add(
    `create table ${quoteName(table)} (${columns.join(', ')})${partitionBySql(partitioning)}`,
    partitioning?.at ?? table.at,
  );
  if (options !== undefined)
    add(`alter table ${quoteName(table)} set (${optionsSql(options)})`, `${table.at}.with`);
  for (const partition of partitioning?.partitions ?? [])
    add(createPartitionSql(table, partition), partition.values);
}

/** Adds a statement and records the object that it creates. */
function addStatement(
  { kind, model, at }: DesiredStatement,
  number: number,
  schemas: readonly string[],
  add: Add,
): void {
  const piece = { sql: model.create, written: model.create, at };
  const record = recordCreatedObject(kind, number, schemas);
  add([model.create, ...model.alter].join(';\n'), piece, { retry: true, after: `;\n${record}` });
}

/** Adds primary keys if a query uses GROUP BY, because the other columns depend functionally on the key. */
function addKeys({ tables, functions, views }: Shadow, add: Add): void {
  const groups = (text: string): boolean => sqlWords(text).has('group');
  if (!functions.some((fn) => groups(fn.body)) && !views.some((view) => groups(view.model.query))) return;
  for (const table of tables) {
    const key = primaryKeyColumns(table).map(quoteIdent);
    if (key.length > 0) add(`alter table ${quoteName(table)} add primary key (${key.join(', ')})`, table.at);
  }
}

/**
 * Adds the checks of a domain. Checks that call declared functions are added later than the others. PostgreSQL cannot
 * add checks while a column contains an array of the domain.
 */
function addDomainChecks(type: DesiredType, callsDeclaredFunction: boolean, add: Add): void {
  domainChecks(type).forEach((check, n) => {
    const { expression } = check;
    const alter = `alter domain ${quoteName(type)} add constraint ${domainCheckName(n)}`;
    if (check.callsDeclaredFunction === callsDeclaredFunction)
      add(`${alter} check (\n${expression.sql}\n)`, expression);
  });
}

function addGenerated(table: ShadowTable, atOnce: boolean, add: Add): void {
  for (const column of table.columns) {
    if (column.generated === null || column.default === null || (atOnce && !column.callsDeclaredFunction))
      continue;
    const name = quoteIdent(column.name);
    add(
      `alter table ${quoteName(table)} drop column ${name}, add column ${name} ` +
        `${columnTypeSql(column)}${generatedSql(column)}`,
      column.default,
    );
  }
}

function addExpressions(table: ShadowTable, number: number, add: Add): void {
  const name = quoteName(table);
  for (const column of table.columns) {
    const text = `alter table ${name} alter column ${quoteIdent(column.name)} set default`;
    if (column.default !== null && column.generated === null)
      add(`${text} ${column.default.sql}`, column.default);
  }
  for (const { label, expression } of table.checks) {
    const constraint = `constraint ${quoteIdent(label)} check (
${expression.sql}
)`;
    add(`alter table ${name} add ${constraint}`, expression);
  }
  table.indexes.forEach((index, position) => {
    const { columns, plain, predicate } = index;
    const label = indexLabel(number, position);
    if (!plain) return addIndex(index, label, name, add);
    if (predicate === null) return;
    const target = `${name} (${columns.map(quoteIdent).join(', ')})`;
    add(
      `create index ${label} on ${target} where (
${predicate.sql}
)`,
      predicate,
    );
  });
  table.exclusions.forEach(({ sql, at }, position) =>
    add(`alter table ${name} add constraint ${exclusionLabel(number, position)} ${sql}`, at),
  );
  table.policies.forEach((policy, index) => addPolicy(name, policy, index, add));
}

function addIndex(
  { unique, predicate, model, at }: ShadowTable['indexes'][number],
  label: string,
  name: string,
  add: Add,
): void {
  const where = predicate === null ? '' : ` where (\n${predicate.sql}\n)`;
  const create = `create ${unique ? 'unique ' : ''}index ${label} on ${name} ${indexBodySql(model)}${where}`;
  add(create, firstExpression(model) ?? predicate ?? at);
}

/** Returns the first expression of an index, for error positions. */
function firstExpression({ columns, at }: IndexModel): Piece | null {
  const position = columns.findIndex((part) => typeof part !== 'string' && part.expression !== undefined);
  const part = columns[position];
  if (part === undefined || typeof part === 'string' || part.expression === undefined) return null;
  return { sql: part.expression, written: part.expression, at: `${at}.columns[${position}].expression` };
}

function addPolicy(table: string, policy: ShadowTable['policies'][number], index: number, add: Add): void {
  const kind = policy.permissive ? 'permissive' : 'restrictive';
  const using = policy.using ? ` using (\n${policy.using.sql}\n)` : '';
  const check = policy.check ? ` with check (\n${policy.check.sql}\n)` : '';
  add(
    `create policy ${policyLabel(index)} on ${table} as ${kind} for ${policy.command}${using}${check}`,
    policy.using ?? policy.check ?? policy.at,
  );
}

function addView(view: DesiredView, add: Add): void {
  const { query } = view.model;
  add(createViewSql(view, query), { sql: query, written: query, at: `${view.at}.query` }, { retry: true });
}

/**
 * Adds indexes of a materialized view. The shadow contains a plain view, so a table with its columns has the indexes.
 */
function addViewIndexes(view: DesiredView, number: number, schema: string, add: Add): void {
  if (view.indexes.length === 0) return;
  const copy = `${schema}.${viewCopyName(number)}`;
  add(`create table ${copy} as select * from ${quoteName(view)} with no data`, view.at);
  view.indexes.forEach((index, position) => addIndex(index, viewIndexLabel(number, position), copy, add));
}

function addHostedPolicies(shadow: Shadow, { copies }: ShadowNames, add: Add): void {
  for (const host of HOSTS) {
    const policies = shadow.hosted[host];
    if (policies.length === 0) continue;
    const copy = copyName(host, copies);
    add(`create table ${copy} (like ${host})`, BLOCKS[host]);
    policies.forEach((policy, index) => addPolicy(copy, policy, index, add));
  }
}

/** Adds queries with the expressions of `on_update` and `on_new_user`. They select no rows, so nothing is evaluated. */
function addRowTriggers(shadow: Shadow, add: Add): void {
  for (const table of shadow.tables) {
    const name = quoteName(table);
    for (const { column, expression } of table.onUpdate?.values ?? []) {
      const type = table.columns.find((candidate) => candidate.name === column)?.typeSql ?? '';
      add(
        `select (
${expression.sql}
)::${type} from ${name} as old, ${name} as new limit 0`,
        expression,
      );
    }
  }
  if (shadow.newUsers.length === 0) return;
  const path = "select set_config('search_path', current_setting('svc.path'), true)";
  add(
    "select set_config('svc.path', current_setting('search_path'), true), set_config('search_path', '', true)",
    '',
  );
  for (const { table, values, when } of shadow.newUsers) {
    for (const { column, expression } of values)
      add(
        `insert into ${quoteName(table)} (${quoteIdent(column)}) select (
${expression.sql}
) from ${NO_USER} where false`,
        expression,
      );
    if (when !== null)
      add(
        `select from ${NO_USER} where false and (
${when.sql}
)`,
        when,
      );
  }
  add(path, '');
}

function addTriggers(shadow: Shadow, users: string, add: Add): void {
  const addTo = (relation: string, trigger: DesiredTrigger): void =>
    add(createTriggerSql(trigger, relation), trigger.when ?? trigger.at);
  for (const table of shadow.tables) for (const trigger of table.triggers) addTo(quoteName(table), trigger);
  for (const view of shadow.views) for (const trigger of view.triggers) addTo(quoteName(view), trigger);
  if (shadow.userTriggers.length === 0) return;
  add(`create table ${users} (like ${USERS} including generated)`, 'auth.triggers');
  for (const trigger of shadow.userTriggers) addTo(users, trigger);
}

/** Returns a function that requalifies names of objects which only the real schemas contain. */
export function createRequalifier(shadow: Shadow, { temporary }: ShadowNames): (text: string) => string {
  const built = new Set(
    [
      ...shadow.types,
      ...shadow.sequences,
      ...shadow.statements,
      ...shadow.statements.flatMap(({ schema, model }) =>
        model.multirange === undefined ? [] : [{ schema, name: model.multirange }],
      ),
      ...shadow.tables,
      ...shadow.tables.flatMap(({ partitioning }) => partitioning?.partitions ?? []),
      ...shadow.functions,
      ...shadow.views,
    ].map(objectKey),
  );
  return (text) => requalify(text, temporary, (schema, name) => built.has(tableKey(schema, name)));
}
