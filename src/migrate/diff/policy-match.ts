// Matches declared with live policies by what they allow, independent of labels and of the split into commands.
import type { DesiredPolicy } from '../schema/desired.ts';
import type { LivePolicy } from '../schema/live/live-schema.ts';
import { POLICY_ROLES, PUBLIC } from '../schema/rights/roles.ts';
import type { Command, Policy } from '../schema/relation.ts';
import { unwrapCallerHelpers } from '../../lib/sql/sql-text.ts';

export type PolicyMatch = {
  /** PUBLIC is equivalent to the default roles, because no other role has a privilege on the table. */
  readonly publicIsCallers: boolean;
  /** The policy existed before svc: `auth.uid()` in it matches `(select auth.uid())`. */
  readonly isPreexisting: (label: string) => boolean;
};

/** Pairs each declared policy with at most one live policy. Identical policies are paired first. */
export function pairPolicies<P extends DesiredPolicy>(
  desired: readonly P[],
  live: readonly LivePolicy[],
  match: PolicyMatch,
): { pairs: { wanted: P; found: LivePolicy }[]; missing: P[]; unmatched: LivePolicy[] } {
  const unmatched = new Set(live);
  const found = new Map<P, LivePolicy>();
  for (const isEqual of [isIdentical, isEquivalent]) {
    for (const wanted of desired) {
      if (found.has(wanted)) continue;
      const livePolicy = [...unmatched].find((candidate) => isEqual(wanted, candidate, match));
      if (livePolicy === undefined) continue;
      unmatched.delete(livePolicy);
      found.set(wanted, livePolicy);
    }
  }
  return {
    pairs: desired.flatMap((wanted) => {
      const livePolicy = found.get(wanted);
      return livePolicy ? [{ wanted, found: livePolicy }] : [];
    }),
    missing: desired.filter((wanted) => !found.has(wanted)),
    unmatched: [...unmatched],
  };
}

const COMMANDS = ['select', 'insert', 'update', 'delete'] as const;

/** Replaces each policy for all commands by four equivalent policies for one command each. */
export function splitByCommand<P extends { readonly command: Command }>(policies: readonly P[]): P[] {
  return policies.flatMap((policy) =>
    policy.command === 'all' ? COMMANDS.map((command) => ({ ...policy, command })) : [policy],
  );
}

function isIdentical(wanted: DesiredPolicy, found: LivePolicy): boolean {
  return wanted.roles === boundRoles(found) && policyMeaning(toNormalForm(wanted)) === policyMeaning(found);
}

function isEquivalent(wanted: DesiredPolicy, found: LivePolicy, match: PolicyMatch): boolean {
  const roles = boundRoles(found);
  if (wanted.roles !== roles) {
    if (!match.publicIsCallers || wanted.roles !== POLICY_ROLES || roles !== PUBLIC) return false;
  }
  const form = toNormalForm(wanted);
  if (policyMeaning(form) === policyMeaning(found)) return true;
  // The reverse is a difference, because a sub-select can complete a cycle (see policy-cycles.ts).
  return (
    match.isPreexisting(found.label) &&
    usesWrappedHelper(form) &&
    policyMeaning(unwrapped(form)) === policyMeaning(unwrapped(found))
  );
}

/** Returns the roles of a policy without service_role, which bypasses policies. */
export function boundRoles({ roles }: LivePolicy): string {
  const otherRoles = roles.split(',').filter((role) => role !== 'service_role');
  return otherRoles.length === 0 ? roles : otherRoles.join(',');
}

function toNormalForm({ command, roles, permissive, using, check }: DesiredPolicy): Policy<string> {
  return { command, roles, permissive, using: using?.normal ?? null, check: check?.normal ?? null };
}

function unwrapped<P extends Policy<string>>(policy: P): P {
  const { using, check } = policy;
  return {
    ...policy,
    using: using === null ? null : unwrapCallerHelpers(using),
    check: check === null ? null : unwrapCallerHelpers(check),
  };
}

/** Returns whether a policy calls a caller helper such as `auth.uid()`. */
export function callsHelper({ using, check }: LivePolicy): boolean {
  return [using, check].some((text) => text !== null && /\bauth\.\w+\(\)/.test(text));
}

function usesWrappedHelper(policy: Policy<string>): boolean {
  return policyMeaning(policy) !== policyMeaning(unwrapped(policy));
}

/**
 * Returns what a policy allows as comparable text. Without WITH CHECK, USING also applies to new rows. A policy without
 * an expression allows no rows if it is permissive, and all rows if it is restrictive.
 */
function policyMeaning({ command, permissive, using, check }: Policy<string>): string {
  const writes = command === 'update' || command === 'all' || command === 'insert';
  const absent = absentCondition(permissive);
  return JSON.stringify([
    command,
    permissive,
    command === 'insert' ? null : (using ?? absent),
    writes ? (check ?? using ?? absent) : null,
  ]);
}

export function absentCondition(permissive: boolean): 'false' | 'true' {
  return permissive ? 'false' : 'true';
}
