// Converts declared policies to desired policies: one per command, with wrapped caller helpers and a bucket condition.
import { quoteLiteral } from '../../../postgres/sql.ts';
import type { DesiredHostedPolicy, DesiredPolicy } from '../desired.ts';
import { expression, type Expression } from '../expression.ts';
import { BLOCKS, REALTIME_MESSAGES } from '../rights/hosts.ts';
import { bucketStem, CHANNEL_STEM } from '../label.ts';
import type { PolicyModel } from '../model.ts';
import { POLICY_ROLES } from '../rights/roles.ts';
import type { Command } from '../relation.ts';
import { holdsSubSelect, wrapCallerHelpers } from '../../../lib/sql/sql-text.ts';

const ALL_OPERATIONS = 4;

export function toPolicies(policy: PolicyModel, inCycle: boolean): DesiredPolicy[] {
  return splitPolicy(policy, (command, clauses) =>
    inCycle && canCloseCycle(command, clauses) ? clauses : withWrappedHelpers(clauses),
  );
}

function splitPolicy(
  policy: PolicyModel,
  written: (command: Command, clauses: Clauses) => Clauses,
): DesiredPolicy[] {
  const commands: readonly Command[] =
    new Set(policy.operations).size === ALL_OPERATIONS ? ['all'] : [...new Set(policy.operations)];
  return commands.map((command) => {
    const { using, check } = written(command, policyClauses(policy, command));
    return {
      command,
      roles: policy.to?.join(',') ?? POLICY_ROLES,
      permissive: policy.permissive,
      using,
      check,
      name: policy.name,
      at: policy.at,
    };
  });
}

type Clauses = { readonly using: Expression | null; readonly check: Expression | null };

// PostgreSQL expands only policies that apply to reading a table, so INSERT and DELETE policies cannot complete a
// cycle. A policy that already contains a sub-select is expanded anyway, so another sub-select makes no difference.
function canCloseCycle(command: Command, { using, check }: Clauses): boolean {
  if (command === 'insert' || command === 'delete') return false;
  return ![using, check].some((clause) => clause !== null && holdsSubSelect(clause.sql));
}

function withWrappedHelpers({ using, check }: Clauses): Clauses {
  return {
    using: using && { ...using, sql: wrapCallerHelpers(using.sql) },
    check: check && { ...check, sql: wrapCallerHelpers(check.sql) },
  };
}

function policyClauses(policy: PolicyModel, command: Command): Clauses {
  const clause = (key: 'using' | 'withCheck' | 'check'): Expression | null => {
    const text = policy[key];
    return text === null
      ? null
      : expression(text, `${policy.at}.${key === 'withCheck' ? 'with_check' : key}`);
  };
  const visible = clause('using') ?? clause('check');
  switch (command) {
    case 'select':
    case 'delete':
      return { using: visible, check: null };
    case 'insert':
      return { using: null, check: clause('withCheck') ?? clause('check') ?? clause('using') };
    case 'update':
    case 'all': {
      const written = clause('withCheck') ?? clause('check');
      // Without WITH CHECK, the server also applies USING to new rows.
      return { using: visible, check: written && written.sql === visible?.sql ? null : written };
    }
  }
}

export function toStoragePolicies(
  bucket: string,
  policy: PolicyModel,
  inCycle: boolean,
): DesiredHostedPolicy[] {
  return toPolicies(policy, inCycle).flatMap((desired) => {
    if (desired.using === null && desired.check === null) return [];
    const using = desired.using && inBucket(bucket, policy.permissive, desired.using);
    const check = desired.check && inBucket(bucket, policy.permissive, desired.check);
    // The label contains the name of the bucket.
    return [{ ...desired, name: null, using, check, home: `storage.${bucket}`, stem: bucketStem(bucket) }];
  });
}

/**
 * Converts a channel policy as written. Helpers are not wrapped, because an access check reads only one or two rows.
 */
export function toChannelPolicies(policy: PolicyModel): DesiredHostedPolicy[] {
  const home = BLOCKS[REALTIME_MESSAGES];
  return splitPolicy(policy, (_command, clauses) => clauses).map((desired) => {
    return { ...desired, home, stem: CHANNEL_STEM };
  });
}

// A restrictive policy uses the negated condition with OR. A condition with AND would hide all other buckets.
function inBucket(bucket: string, permissive: boolean, expression: Expression): Expression {
  const condition = permissive
    ? `bucket_id = ${quoteLiteral(bucket)} and`
    : `bucket_id <> ${quoteLiteral(bucket)} or`;
  return { ...expression, sql: `${condition} (\n${expression.sql}\n)` };
}
