// Expressions that are not exactly one expression, which must not even be sent to the server. Needs no database.
import { pathOf } from '../schema/sql/function-sql.ts';
import { keyOf, type PolicyModel, type SchemaModel, viewsOf } from '../schema/model.ts';
import { type MigrationProblem, problem } from '../problem.ts';
import { textsOf } from '../schema/partitions.ts';
import { atomicFault } from '../schema/sql/atomic-body.ts';
import { expressionFault } from '../../lib/sql/sql-text.ts';

/** `changed`: tables, functions and views to check; policies of buckets and channels always are. */
export function textFaults(model: SchemaModel, changed: ReadonlySet<string>): MigrationProblem[] {
  const problems: MigrationProblem[] = [];
  const check = (text: string | null, at: string): void => {
    const fault = text === null ? null : expressionFault(text);
    if (fault !== null) problems.push(problem('MIG-101', at, fault));
  };
  for (const table of model.tables) {
    if (!changed.has(keyOf(table))) continue;
    for (const column of table.columns) {
      check(column.type, `${column.at}.type`);
      check(column.check, `${column.at}.check`);
      check(column.backfill, `${column.at}.backfill`);
      check(column.using, `${column.at}.using`);
      check(column.onUpdate ?? null, `${column.at}.on_update`);
      if (column.default?.kind === 'sql') check(column.default.text, `${column.at}.default`);
      if (column.ref && !table.columns.some((one) => one.primaryKey)) {
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
    for (const one of table.constraints ?? []) {
      if (one.kind !== 'exclude') continue;
      check(one.where ?? null, `${one.at}.where`);
      one.parts.forEach((part, n) => check(part.expression ?? null, `${one.at}.exclude[${n}].expression`));
    }
    for (const [text, at] of textsOf(table)) check(text, at);
    if (table.onNewUser) {
      const { set, when, at } = table.onNewUser;
      for (const [column, text] of Object.entries(set)) check(text, `${at}.${column}`);
      check(when, `${at}.when`);
    }
    for (const trigger of table.triggers ?? []) check(trigger.when, `${trigger.at}.when`);
    if (typeof table.rls === 'string') continue;
    for (const policy of table.rls) checkPolicy(policy, check);
  }
  for (const trigger of model.userTriggers ?? []) check(trigger.when, `${trigger.at}.when`);
  for (const bucket of model.buckets) for (const policy of bucket.policies) checkPolicy(policy, check);
  for (const policy of model.channels ?? []) checkPolicy(policy, check);
  for (const view of viewsOf(model)) {
    if (!changed.has(keyOf(view))) continue;
    check(view.query, `${view.at}.query`);
    for (const trigger of view.triggers ?? []) check(trigger.when, `${trigger.at}.when`);
  }
  for (const fn of model.functions) {
    if (!changed.has(keyOf(fn))) continue;
    if (fn.returns !== '') check(fn.returns, `${fn.at}.returns`);
    const fault = fn.atomic ? atomicFault(fn.body) : null;
    if (fault !== null) problems.push(problem('MIG-101', `${fn.at}.body`, fault));
    const path = pathOf(fn.settings?.['search_path'] ?? '');
    if (fn.definer && path.includes('$user')) {
      problems.push(
        problem(
          'MIG-115',
          `${fn.at}.settings`,
          'it runs with the owner’s rights, and its search path depends on who calls it',
          'Write settings: { search_path: "" } and every name with its schema, or remove $user.',
        ),
      );
    }
    for (const arg of fn.args) {
      check(arg.type, `${fn.at}.args`);
      if (arg.default?.kind === 'sql') check(arg.default.text, `${fn.at}.args`);
    }
  }
  return problems;
}

function checkPolicy(policy: PolicyModel, check: (text: string | null, at: string) => void): void {
  check(policy.using, `${policy.at}.using`);
  check(policy.withCheck, `${policy.at}.with_check`);
  check(policy.check, `${policy.at}.check`);
}
