// Compares policies of tables, buckets and channels.
import type { Change } from './change.ts';
import type { Desired, DesiredPolicy } from '../schema/desired.ts';
import type { Host } from '../schema/rights/hosts.ts';
import type { Live, LivePolicy } from '../schema/live/live-schema.ts';
import { policyLabel } from '../schema/label.ts';
import type { Ownership } from '../schema/managed.ts';
import { callsHelper, pairPolicies, splitByCommand, type PolicyMatch } from './policy-match.ts';
import { type Rebuild, rebuildKey, type TableDiff } from './table-diff.ts';

export function diffPolicies(context: TableDiff): void {
  const { table, live, key, owned, rebuild, changes, unmanaged, claim } = context;
  const match: PolicyMatch = {
    publicIsCallers: !live.grantedToOthers,
    isPreexisting: (label) => !owned.policies.includes(label) || owned.asFound?.includes(label) === true,
  };
  const unchanged = live.policies.filter((policy) => !rebuild.has(rebuildKey('policy', key, policy.label)));
  const adopt = (kept: readonly LivePolicy[]): void => {
    claim.policies.push(...kept.map((policy) => policy.label));
    const asFound = kept.filter((policy) => match.isPreexisting(policy.label) && callsHelper(policy));
    if (asFound.length > 0) claim.asFound = asFound.map((policy) => policy.label);
  };
  const split = pairPolicies(splitByCommand(table.policies), splitByCommand(live.policies), match);
  if (unchanged.length === live.policies.length && split.missing.length + split.unmatched.length === 0) {
    adopt(live.policies);
    return;
  }
  const { pairs, missing } = pairPolicies(table.policies, unchanged, match);
  const kept = new Set(pairs.map(({ found }) => found));
  adopt([...kept]);
  const dropped: LivePolicy[] = [];
  for (const found of live.policies) {
    if (kept.has(found)) continue;
    // An undeclared policy is dropped only if an equivalent policy replaces it.
    const returns = pairPolicies(missing, [found], match).pairs.length > 0;
    if (returns || owned.policies.includes(found.label)) dropped.push(found);
    else unmanaged.push({ table: key, what: 'policy', name: found.label });
  }
  for (const policy of dropped) changes.push({ kind: 'drop-policy', table, live, policy });
  const free = new Set(dropped);
  const taken = live.policies.filter((policy) => !dropped.includes(policy)).map((policy) => policy.label);
  for (const { policy, label } of assignLabels(table, taken, missing)) {
    claim.policies.push(label);
    const { command, permissive } = policy;
    const replaces =
      [...free].find((candidate) => candidate.command === command && candidate.permissive === permissive) ??
      null;
    if (replaces) free.delete(replaces);
    changes.push({ kind: 'create-policy', table, live, policy, label, replaces });
  }
}

// svc created these policies and the grants of the tables.
const HOSTED_MATCH: PolicyMatch = { publicIsCallers: true, isPreexisting: () => false };

/** Returns the labels of the file's policies. */
export function diffHostedPolicies(
  host: Host,
  desired: Desired,
  live: Live,
  owned: Ownership,
  rebuild: Rebuild,
  changes: Change[],
): string[] {
  const found = live.hosted[host];
  const managed = found.filter((policy) => owned.hosted[host].has(policy.label));
  const unchanged = managed.filter((policy) => !rebuild.has(rebuildKey('policy', host, policy.label)));
  const { pairs, missing } = pairPolicies(desired.hosted[host], unchanged, HOSTED_MATCH);
  const kept = new Set(pairs.map((pair) => pair.found));
  const removed = managed.filter((policy) => !kept.has(policy));
  for (const policy of removed) changes.push({ kind: 'drop-hosted-policy', host, policy });
  const used = new Set(found.filter((policy) => !removed.includes(policy)).map((policy) => policy.label));
  const claims = [...kept].map((policy) => policy.label);
  for (const policy of missing) {
    const { stem, command, name } = policy;
    const label = freeLabel(used, (number) =>
      number === 1 && name !== null ? name : policyLabel(stem, number, command),
    );
    claims.push(label);
    changes.push({ kind: 'create-hosted-policy', host, policy, label });
  }
  return claims;
}

/** Assigns a free label to each policy. */
export function assignLabels(
  table: { readonly name: string },
  taken: readonly string[],
  policies: readonly DesiredPolicy[],
): { policy: DesiredPolicy; label: string }[] {
  const used = new Set(taken);
  return policies.map((policy) => {
    const label = freeLabel(used, (number) =>
      number === 1 && policy.name !== null ? policy.name : policyLabel(table.name, number, policy.command),
    );
    return { policy, label };
  });
}

function freeLabel(used: Set<string>, labelOf: (number: number) => string): string {
  let number = 1;
  while (used.has(labelOf(number))) number += 1;
  used.add(labelOf(number));
  return labelOf(number);
}
