// Combines the evaluated policies of a table into a decision about one row, in the same way as PostgreSQL.
import type { OperationVerdict, PolicyOutcome, PolicyVerdict } from '../contract.ts';

export type Operation = OperationVerdict['operation'];

/** A policy with the results of its expressions for this row and caller. */
export type EvaluatedPolicy = Readonly<PolicyVerdict> & { readonly operation: Operation | 'all' };

export type Situation = {
  readonly role: string;
  readonly relation: string;
  readonly granted: Readonly<Record<Operation, boolean>>;
  /** `off`: the table has no row security. `bypassed`: it does not apply to this role. */
  readonly security: 'on' | 'off' | 'bypassed';
  readonly policies: readonly EvaluatedPolicy[];
};

type Decision = { readonly allowed: boolean; readonly reason: string };

export function judge(situation: Situation): OperationVerdict[] {
  const select = judgeOperation(situation, 'select');
  return [
    toVerdict(situation, 'select', select),
    toVerdict(situation, 'insert', judgeOperation(situation, 'insert')),
    // UPDATE and DELETE by key read the row first, so a row that cannot be read cannot be changed.
    toVerdict(situation, 'update', requireReadable(select, 'changed', judgeOperation(situation, 'update'))),
    toVerdict(situation, 'delete', requireReadable(select, 'deleted', judgeOperation(situation, 'delete'))),
  ];
}

function requireReadable(select: Decision, act: string, next: Decision): Decision {
  if (!next.allowed || select.allowed) return next;
  return denied(`A row that cannot be read cannot be ${act} by its key: ${select.reason}`);
}

function toVerdict(situation: Situation, operation: Operation, decision: Decision): OperationVerdict {
  return {
    operation,
    ...decision,
    granted: situation.granted[operation],
    policies: situation.policies
      .filter(coversOperation(operation))
      .map(({ name, permissive, applies, using, withCheck }): PolicyVerdict => ({
        name,
        permissive,
        applies,
        using: operation === 'insert' && withCheck ? null : using,
        withCheck: operation === 'select' || operation === 'delete' ? null : withCheck,
      })),
  };
}

function coversOperation(operation: Operation): (policy: EvaluatedPolicy) => boolean {
  return (policy) => policy.operation === 'all' || policy.operation === operation;
}

function judgeOperation(situation: Situation, operation: Operation): Decision {
  const { role, relation, granted, security } = situation;
  if (!granted[operation])
    return denied(`The role ${role} has no ${operation.toUpperCase()} privilege on ${relation}.`);
  if (security === 'off') return allowed(`Row-level security is off: ${relation} is open.`);
  if (security === 'bypassed') return allowed(`The role ${role} bypasses row-level security.`);
  const policies = situation.policies.filter(
    (policy) => policy.applies && coversOperation(operation)(policy),
  );
  switch (operation) {
    case 'select':
    case 'delete':
      return combine(policies, usingClause, operation, role);
    case 'insert':
      return combine(policies, checkClause, operation, role);
    case 'update': {
      const before = combine(policies, usingClause, operation, role);
      return before.allowed ? combine(policies, checkClause, operation, role) : before;
    }
  }
}

type Clause = { readonly word: string; readonly outcome: PolicyOutcome };
type ClauseSelector = (policy: EvaluatedPolicy) => Clause | undefined;

const usingClause: ClauseSelector = ({ using }) =>
  using ? { word: 'USING', outcome: using.outcome } : undefined;
/** USING applies to the new row if WITH CHECK is absent. */
const checkClause: ClauseSelector = (policy) =>
  policy.withCheck ? { word: 'WITH CHECK', outcome: policy.withCheck.outcome } : usingClause(policy);

/**
 * Every restrictive policy and at least one permissive policy must be true. Policies without the expression are
 * ignored.
 */
function combine(
  policies: readonly EvaluatedPolicy[],
  selectClause: ClauseSelector,
  operation: Operation,
  role: string,
): Decision {
  const clauses = policies.flatMap((policy) => {
    const clause = selectClause(policy);
    return clause ? [{ policy, ...clause }] : [];
  });
  const permissive = clauses.filter(({ policy }) => policy.permissive);
  const [only] = permissive;
  if (!only) {
    return denied(`No permissive ${operation} policy applies to the role ${role}, so no row is allowed.`);
  }
  for (const { policy, word, outcome } of clauses.filter((clause) => !clause.policy.permissive)) {
    if (outcome.kind !== 'true')
      return denied(`The restrictive policy "${policy.name}" refuses: its ${word} ${describe(outcome)}.`);
  }
  // PostgreSQL evaluates in descending order of names, until the first that is true.
  for (const { policy, word, outcome } of permissive.toSorted((a, b) => compareNames(b.policy, a.policy))) {
    if (outcome.kind === 'true') return allowed(`The policy "${policy.name}" allows it.`);
    if (outcome.kind === 'error')
      return denied(`The statement fails: ${word} of the policy "${policy.name}" ${describe(outcome)}.`);
  }
  if (permissive.length > 1) return denied(`None of the ${permissive.length} permissive policies is true.`);
  return denied(
    `The policy "${only.policy.name}" is the only permissive one, and its ${only.word} ${describe(only.outcome)}.`,
  );
}

/** Compares bytes, like PostgreSQL's index on policy names. */
function compareNames(a: EvaluatedPolicy, b: EvaluatedPolicy): number {
  return Buffer.compare(Buffer.from(a.name), Buffer.from(b.name));
}

function describe(outcome: PolicyOutcome): string {
  switch (outcome.kind) {
    case 'error':
      return `ended in an error (${outcome.message})`;
    case 'null':
      return 'is null, which counts as false';
    case 'true':
    case 'false':
      return `is ${outcome.kind}`;
  }
}

function allowed(reason: string): Decision {
  return { allowed: true, reason };
}

function denied(reason: string): Decision {
  return { allowed: false, reason };
}
