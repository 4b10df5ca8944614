// Row-level security policies of tables and buckets: conditions that an operation requires or ignores.
import type { KeyPath } from '../../mistakes/mistake.ts';
import { isServed, type RawSqlFunction } from '../../schema/functions.ts';
import { CALLERS, type RawPolicy } from '../../schema/tables/policies.ts';
import type { CheckContext } from '../context.ts';
import { checkName } from '../name.ts';
import { typeFamily } from './type-family.ts';

/** `columns`: declared types of a table, by column name. */
export function checkPolicies(
  context: CheckContext,
  path: KeyPath,
  policies: readonly RawPolicy[],
  columns: ReadonlyMap<string, string | undefined> = new Map(),
): void {
  const names = new Map<string, number>();
  policies.forEach((policy, index) => {
    const at: KeyPath = [...path, index];
    if (policy.name !== undefined) {
      checkName(context, [...at, 'name'], policy.name);
      const first = names.get(policy.name);
      if (first !== undefined) {
        context.report({
          code: 'duplicate',
          path: [...at, 'name'],
          message: `rls[${first}] already has the name ${context.quote([...at, 'name'], policy.name)}`,
          hint: 'Choose another name, or remove it.',
        });
      }
      names.set(policy.name, index);
    }
    const twice = policy.operations.findIndex((operation, n) => policy.operations.indexOf(operation) !== n);
    if (twice >= 0) {
      context.reportTwice([...at, 'operations', twice], `${policy.operations[twice]} is listed twice`);
    }
    checkRoles(context, [...at, 'to'], policy.to ?? []);
    checkConditions(context, at, policy);
    checkCalls(context, at, policy);
    checkOwner(context, [...at, 'using'], policy.using, columns);
    checkOwner(context, [...at, 'with_check'], policy.withCheck, columns);
    checkOwner(context, [...at, 'check'], policy.check, columns);
  });
}

/** Checks role names. Only the database can check that a role exists. */
function checkRoles(context: CheckContext, path: KeyPath, roles: readonly string[]): void {
  roles.forEach((role, index) => {
    const at = context.isWritten([...path, index]) ? [...path, index] : path;
    checkName(context, at, role);
    if (role === 'service_role') {
      context.conflict(
        at,
        'service_role bypasses every policy',
        roles.length === 1 ? 'Remove the policy.' : 'Remove this role.',
      );
    } else if (role === 'public' && roles.length > 1) {
      context.conflict(
        at,
        'public includes every role, so the other roles have no effect',
        'Write to: public, or remove public.',
      );
    } else if (role.includes(',')) {
      context.badValue(
        at,
        `${context.quote(at, role)} is not a role name`,
        'Write a list: to: [first, second].',
      );
    } else if (roles.indexOf(role) !== index) {
      context.reportTwice(at, `${role} is listed twice`);
    }
  });
}

function checkConditions(context: CheckContext, at: KeyPath, policy: RawPolicy): void {
  const { using, withCheck, check } = policy;
  if (using === undefined && withCheck === undefined && check === undefined)
    return context.report({
      code: 'missing-key',
      path: at,
      message: 'the policy has no condition',
      hint: 'Write using: and with_check:. The condition true allows every row.',
    });
  const onRows = policy.operations.filter((operation) => operation !== 'insert');
  const writes = policy.operations.some((operation) => operation === 'insert' || operation === 'update');
  if (onRows.length > 0 && using === undefined && check === undefined)
    return context.report({
      code: 'missing-key',
      path: at,
      message: `${onRows.join(', ')} needs a condition on existing rows`,
      hint: 'Add using:.',
    });
  if (onRows.length === 0 && using !== undefined && withCheck === undefined && check === undefined) {
    context.report({
      code: 'conflict',
      path: [...at, 'using'],
      message: 'an insert has no existing row, so using is applied as with_check',
      severity: 'warning',
      hint: 'Write with_check.',
      part: 'key',
    });
  }
  if (!writes && withCheck !== undefined) {
    context.conflict(
      [...at, 'with_check'],
      `${onRows.join(', ')} does not write rows, so with_check has no effect`,
      'Remove with_check, or add insert or update to operations.',
      'key',
    );
  }
  if (using !== undefined && withCheck !== undefined && check !== undefined) {
    context.conflict(
      [...at, 'check'],
      'check replaces a missing using or with_check, and both are present',
      'Remove check.',
      'key',
    );
  }
}

/** A policy runs with the rights of the caller. Requests fail if the caller cannot execute a function in it. */
function checkCalls(context: CheckContext, at: KeyPath, policy: RawPolicy): void {
  const roles = policy.to ?? CALLERS;
  for (const [name, overloads] of context.functions) {
    const barred = roles.filter(
      (role) =>
        (CALLERS.includes(role) || role === 'public') && !overloads.some(({ fn }) => canRun(role, fn)),
    );
    if (barred.length === 0) continue;
    const [{ key: entry, fn }] = overloads;
    for (const key of ['using', 'withCheck', 'check'] as const) {
      if (!calls(policy[key] ?? '', name)) continue;
      const signature = `${fn.schema === 'public' ? '' : `${fn.schema}.`}${name}`;
      const grant = `grant execute on function ${signature} to ${barred.join(', ')}`;
      context.report({
        code: 'conflict',
        path: [...at, key === 'withCheck' ? 'with_check' : key],
        message: `${barred.join(' and ')} cannot execute ${name}, which the policy calls: their requests fail`,
        severity: 'warning',
        hint: `Add them to rpc.${entry}.execute, or write in its SQL file: ${grant};`,
      });
    }
  }
}

function canRun(role: string, fn: RawSqlFunction): boolean {
  const granted = fn.execute ?? (isServed(fn) ? undefined : []);
  return granted === undefined || granted.includes(role);
}

function calls(condition: string, name: string): boolean {
  const at = condition.indexOf(name);
  return at >= 0 && new RegExp(`(?<![\\w$])"?${name.replaceAll(/[^\w]/g, '\\$&')}"?\\s*\\(`).test(condition);
}

/** Reports a condition that compares `auth.uid()` with a column of a type that has no such comparison. */
function checkOwner(
  context: CheckContext,
  path: KeyPath,
  condition: string | undefined,
  columns: ReadonlyMap<string, string | undefined>,
): void {
  const [, left, right] =
    /^\s*(?:"?(\w+)"?\s*=\s*auth\.uid\(\)|auth\.uid\(\)\s*=\s*"?(\w+)"?)\s*$/i.exec(condition ?? '') ?? [];
  const column = left ?? right;
  const type = column === undefined ? undefined : columns.get(column);
  const family = type === undefined ? undefined : typeFamily(type);
  if (family === undefined || family === 'uuid') return;
  context.conflict(
    path,
    `${column} is ${type} and auth.uid() is uuid, so they cannot be compared`,
    family === 'text'
      ? `Change the type of the column to uuid, or write ${column} = auth.uid()::text.`
      : 'Compare it with a uuid column that contains the id of the user.',
  );
}
