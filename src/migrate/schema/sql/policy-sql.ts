// Policies as the file means them: one clause per command, caller helpers evaluated once, buckets apart.
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

export function toPolicies(policy: PolicyModel, inRing: boolean): DesiredPolicy[] {
  return policiesOf(policy, (command, clauses) =>
    inRing && mayCloseRing(command, clauses) ? clauses : withCallerOnce(clauses),
  );
}

function policiesOf(
  policy: PolicyModel,
  written: (command: Command, clauses: Clauses) => Clauses,
): DesiredPolicy[] {
  const commands: readonly Command[] =
    new Set(policy.operations).size === ALL_OPERATIONS ? ['all'] : [...new Set(policy.operations)];
  return commands.map((command) => {
    const { using, check } = written(command, clausesOf(policy, command));
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

// A table that is met again is read there, so its insert and delete policies play no part. Where PostgreSQL looks into
// the policy anyway, one more sub-select that reads nothing makes no difference.
function mayCloseRing(command: Command, { using, check }: Clauses): boolean {
  if (command === 'insert' || command === 'delete') return false;
  return ![using, check].some((one) => one !== null && holdsSubSelect(one.sql));
}

function withCallerOnce({ using, check }: Clauses): Clauses {
  return {
    using: using && { ...using, sql: wrapCallerHelpers(using.sql) },
    check: check && { ...check, sql: wrapCallerHelpers(check.sql) },
  };
}

function clausesOf(policy: PolicyModel, command: Command): Clauses {
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
      // Without WITH CHECK the server applies USING to new rows too, so repeating it would only be noise.
      return { using: visible, check: written && written.sql === visible?.sql ? null : written };
    }
  }
}

export function toStoragePolicies(
  bucket: string,
  policy: PolicyModel,
  inRing: boolean,
): DesiredHostedPolicy[] {
  return toPolicies(policy, inRing).flatMap((one) => {
    if (one.using === null && one.check === null) return [];
    const using = one.using && inBucket(bucket, policy.permissive, one.using);
    const check = one.check && inBucket(bucket, policy.permissive, one.check);
    // A label says which bucket it is of.
    return [{ ...one, name: null, using, check, home: `storage.${bucket}`, stem: bucketStem(bucket) }];
  });
}

/** As they are written: a probe reads a row or two, so nothing is gained by evaluating a helper once. */
export function toChannelPolicies(policy: PolicyModel): DesiredHostedPolicy[] {
  const home = BLOCKS[REALTIME_MESSAGES];
  return policiesOf(policy, (_command, clauses) => clauses).map((one) => {
    return { ...one, home, stem: CHANNEL_STEM };
  });
}

// In a restrictive policy the condition is negated: with AND it would hide every other bucket.
function inBucket(bucket: string, permissive: boolean, expression: Expression): Expression {
  const condition = permissive
    ? `bucket_id = ${quoteLiteral(bucket)} and`
    : `bucket_id <> ${quoteLiteral(bucket)} or`;
  return { ...expression, sql: `${condition} (\n${expression.sql}\n)` };
}
