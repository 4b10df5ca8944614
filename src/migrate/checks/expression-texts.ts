// Checks that each SQL text of the file is exactly one expression. Other texts are not sent to the server.
import { searchPathSchemas } from '../schema/sql/function-sql.ts';
import {
  declaredViews,
  objectKey,
  type FunctionModel,
  type PolicyModel,
  type SchemaModel,
  type TableModel,
} from '../schema/model.ts';
import { type MigrationProblem, problem } from '../problem.ts';
import { partitionTexts } from '../schema/partitions.ts';
import { atomicFault } from '../schema/sql/atomic-body.ts';
import { expressionFault } from '../../lib/sql/sql-text.ts';

/** `changed`: keys of the tables, functions and views to check. Policies of buckets and channels are always checked. */
export function checkExpressionTexts(model: SchemaModel, changed: ReadonlySet<string>): MigrationProblem[] {
  const problems: MigrationProblem[] = [];
  const check: CheckText = (text, at) => {
    const fault = text === null ? null : expressionFault(text);
    if (fault !== null) problems.push(problem('MIG-101', at, fault));
  };
  for (const table of model.tables) {
    if (!changed.has(objectKey(table))) continue;
    checkTable(table, check, problems);
    if (typeof table.rls === 'string') continue;
    for (const policy of table.rls) checkPolicy(policy, check);
  }
  for (const trigger of model.userTriggers ?? []) check(trigger.when, `${trigger.at}.when`);
  for (const bucket of model.buckets) for (const policy of bucket.policies) checkPolicy(policy, check);
  for (const policy of model.channels ?? []) checkPolicy(policy, check);
  for (const view of declaredViews(model)) {
    if (!changed.has(objectKey(view))) continue;
    check(view.query, `${view.at}.query`);
    for (const trigger of view.triggers ?? []) check(trigger.when, `${trigger.at}.when`);
  }
  for (const fn of model.functions) {
    if (!changed.has(objectKey(fn))) continue;
    checkFunction(fn, check, problems);
  }
  return problems;
}

type CheckText = (text: string | null, at: string) => void;

function checkTable(table: TableModel, check: CheckText, problems: MigrationProblem[]): void {
  for (const column of table.columns) {
    check(column.type, `${column.at}.type`);
    check(column.check, `${column.at}.check`);
    check(column.backfill, `${column.at}.backfill`);
    check(column.using, `${column.at}.using`);
    check(column.onUpdate ?? null, `${column.at}.on_update`);
    if (column.default?.kind === 'sql') check(column.default.text, `${column.at}.default`);
    if (column.ref && !table.columns.some((candidate) => candidate.primaryKey)) {
      problems.push(
        problem(
          'MIG-101',
          `${column.at}.ref`,
          'a table with a storage reference needs a primary key',
          'Mark a field with primary_key: true.',
        ),
      );
    }
  }
  for (const index of table.indexes) {
    check(index.where, `${index.at}.where`);
    index.columns.forEach((part, n) => {
      if (typeof part !== 'string' && part.expression !== undefined)
        check(part.expression, `${index.at}.columns[${n}].expression`);
    });
  }
  for (const constraint of table.constraints ?? []) {
    if (constraint.kind !== 'exclude') continue;
    check(constraint.where ?? null, `${constraint.at}.where`);
    constraint.parts.forEach((part, n) =>
      check(part.expression ?? null, `${constraint.at}.exclude[${n}].expression`),
    );
  }
  for (const [text, at] of partitionTexts(table)) check(text, at);
  if (table.onNewUser) {
    const { set, when, at } = table.onNewUser;
    for (const [column, text] of Object.entries(set)) check(text, `${at}.${column}`);
    check(when, `${at}.when`);
  }
  for (const trigger of table.triggers ?? []) check(trigger.when, `${trigger.at}.when`);
}

function checkFunction(fn: FunctionModel, check: CheckText, problems: MigrationProblem[]): void {
  if (fn.returns !== '') check(fn.returns, `${fn.at}.returns`);
  const fault = fn.atomic ? atomicFault(fn.body) : null;
  if (fault !== null) problems.push(problem('MIG-101', `${fn.at}.body`, fault));
  const path = searchPathSchemas(fn.settings?.['search_path'] ?? '');
  if (fn.definer && path.includes('$user')) {
    problems.push(
      problem(
        'MIG-115',
        `${fn.at}.settings`,
        'the function runs with the privileges of its owner, but its search path depends on the caller',
        'Set search_path: "" under settings and qualify all names, or remove $user.',
      ),
    );
  }
  for (const arg of fn.args) {
    check(arg.type, `${fn.at}.args`);
    if (arg.default?.kind === 'sql') check(arg.default.text, `${fn.at}.args`);
  }
}

function checkPolicy(policy: PolicyModel, check: CheckText): void {
  check(policy.using, `${policy.at}.using`);
  check(policy.withCheck, `${policy.at}.with_check`);
  check(policy.check, `${policy.at}.check`);
}
