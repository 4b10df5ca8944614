// Which policy of the database a declared one is. What they allow is compared, not how they are labelled or split by
// command.
import type { DesiredPolicy } from '../schema/desired.ts';
import type { LivePolicy } from '../schema/live/live-schema.ts';
import { POLICY_ROLES, PUBLIC } from '../schema/rights/roles.ts';
import type { Command, Policy } from '../schema/relation.ts';
import { unwrapCallerHelpers } from '../../lib/sql/sql-text.ts';

export type PolicyMatch = {
  /** PUBLIC is the callers and those that bypass row-level security: no other role may touch the table. */
  readonly publicIsCallers: boolean;
  /** The policy came with the database: `auth.uid()` may stay where the file's would be `(select auth.uid())`. */
  readonly isAsFound: (label: string) => boolean;
};

/** Pairs each declared policy with at most one of the database; exact ones first. */
export function pairPolicies<P extends DesiredPolicy>(
  desired: readonly P[],
  live: readonly LivePolicy[],
  match: PolicyMatch,
): { pairs: { wanted: P; found: LivePolicy }[]; missing: P[]; left: LivePolicy[] } {
  const left = new Set(live);
  const found = new Map<P, LivePolicy>();
  for (const isEqual of [isExactly, isMeant]) {
    for (const wanted of desired) {
      if (found.has(wanted)) continue;
      const one = [...left].find((candidate) => isEqual(wanted, candidate, match));
      if (one === undefined) continue;
      left.delete(one);
      found.set(wanted, one);
    }
  }
  return {
    pairs: desired.flatMap((wanted) => {
      const one = found.get(wanted);
      return one ? [{ wanted, found: one }] : [];
    }),
    missing: desired.filter((wanted) => !found.has(wanted)),
    left: [...left],
  };
}

const COMMANDS = ['select', 'insert', 'update', 'delete'] as const;

/** A policy for all commands allows what four policies for one command each would. */
export function perCommand<P extends { readonly command: Command }>(policies: readonly P[]): P[] {
  return policies.flatMap((one) =>
    one.command === 'all' ? COMMANDS.map((command) => ({ ...one, command })) : [one],
  );
}

function isExactly(wanted: DesiredPolicy, found: LivePolicy): boolean {
  return wanted.roles === rolesOf(found) && meaningOf(inNormalForm(wanted)) === meaningOf(found);
}

function isMeant(wanted: DesiredPolicy, found: LivePolicy, match: PolicyMatch): boolean {
  const roles = rolesOf(found);
  if (wanted.roles !== roles) {
    if (!match.publicIsCallers || wanted.roles !== POLICY_ROLES || roles !== PUBLIC) return false;
  }
  const form = inNormalForm(wanted);
  if (meaningOf(form) === meaningOf(found)) return true;
  // The other way round it must be written anew: a sub-select may close a ring (see policy-rings.ts).
  return (
    match.isAsFound(found.label) &&
    isWrapped(form) &&
    meaningOf(unwrapped(form)) === meaningOf(unwrapped(found))
  );
}

/** service_role passes every policy, so its name in one says nothing. */
export function rolesOf({ roles }: LivePolicy): string {
  const others = roles.split(',').filter((role) => role !== 'service_role');
  return others.length === 0 ? roles : others.join(',');
}

function inNormalForm({ command, roles, permissive, using, check }: DesiredPolicy): Policy<string> {
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

/** It may be written in two ways that mean the same. */
export function callsHelper({ using, check }: LivePolicy): boolean {
  return [using, check].some((text) => text !== null && /\bauth\.\w+\(\)/.test(text));
}

function isWrapped(policy: Policy<string>): boolean {
  return meaningOf(policy) !== meaningOf(unwrapped(policy));
}

/** What a policy allows, in one comparable text. Without WITH CHECK, USING applies to new rows, too. */
function meaningOf({ command, permissive, using, check }: Policy<string>): string {
  const writes = command === 'update' || command === 'all' || command === 'insert';
  return JSON.stringify([
    command,
    permissive,
    command === 'insert' ? null : using,
    writes ? (check ?? using) : null,
  ]);
}
