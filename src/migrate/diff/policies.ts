// Policies of tables, of buckets and of channels: which are kept, made anew, or left alone.
import type { Change } from './change.ts';
import type { Desired, DesiredPolicy } from '../schema/desired.ts';
import type { Host } from '../schema/rights/hosts.ts';
import type { Live, LivePolicy } from '../schema/live/live-schema.ts';
import { policyLabel } from '../schema/label.ts';
import type { Ownership } from '../schema/managed.ts';
import { callsHelper, pairPolicies, perCommand, type PolicyMatch } from './policy-match.ts';
import { type Rebuild, rebuildKey, type TableDiff } from './table-diff.ts';

export function diffPolicies(context: TableDiff): void {
  const { table, live, key, owned, rebuild, changes, unmanaged, claim } = context;
  const match: PolicyMatch = {
    publicIsCallers: !live.grantedToOthers,
    isAsFound: (label) => !owned.policies.includes(label) || owned.asFound?.includes(label) === true,
  };
  const stays = live.policies.filter((one) => !rebuild.has(rebuildKey('policy', key, one.label)));
  const adopt = (kept: readonly LivePolicy[]): void => {
    claim.policies.push(...kept.map((one) => one.label));
    const asFound = kept.filter((one) => match.isAsFound(one.label) && callsHelper(one));
    if (asFound.length > 0) claim.asFound = asFound.map((one) => one.label);
  };
  const whole = pairPolicies(perCommand(table.policies), perCommand(live.policies), match);
  if (stays.length === live.policies.length && whole.missing.length + whole.left.length === 0) {
    adopt(live.policies);
    return;
  }
  const { pairs, missing } = pairPolicies(table.policies, stays, match);
  const kept = new Set(pairs.map(({ found }) => found));
  adopt([...kept]);
  const dropped: LivePolicy[] = [];
  for (const found of live.policies) {
    if (kept.has(found)) continue;
    // A stranger's policy goes only if an equal one is made in its place.
    const returns = pairPolicies(missing, [found], match).pairs.length > 0;
    if (returns || owned.policies.includes(found.label)) dropped.push(found);
    else unmanaged.push({ table: key, what: 'policy', name: found.label });
  }
  for (const policy of dropped) changes.push({ kind: 'drop-policy', table, live, policy });
  const free = new Set(dropped);
  const taken = live.policies.filter((one) => !dropped.includes(one)).map((one) => one.label);
  for (const { policy, label } of labelled(table, taken, missing)) {
    claim.policies.push(label);
    const { command, permissive } = policy;
    const replaces =
      [...free].find((one) => one.command === command && one.permissive === permissive) ?? null;
    if (replaces) free.delete(replaces);
    changes.push({ kind: 'create-policy', table, live, policy, label, replaces });
  }
}

// svc made these policies and the tables' grants itself.
const HOSTED_MATCH: PolicyMatch = { publicIsCallers: true, isAsFound: () => false };

/** The labels of the policies that are the file's. */
export function diffHostedPolicies(
  host: Host,
  desired: Desired,
  live: Live,
  owned: Ownership,
  rebuild: Rebuild,
  changes: Change[],
): string[] {
  const found = live.hosted[host];
  const ours = found.filter((one) => owned.hosted[host].has(one.label));
  const stays = ours.filter((one) => !rebuild.has(rebuildKey('policy', host, one.label)));
  const { pairs, missing } = pairPolicies(desired.hosted[host], stays, HOSTED_MATCH);
  const kept = new Set(pairs.map((pair) => pair.found));
  const left = ours.filter((one) => !kept.has(one));
  for (const policy of left) changes.push({ kind: 'drop-hosted-policy', host, policy });
  const used = new Set(found.filter((one) => !left.includes(one)).map((one) => one.label));
  const claims = [...kept].map((one) => one.label);
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

/** The label each policy gets. */
export function labelled(
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
