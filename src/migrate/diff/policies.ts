// Policies of tables and of buckets. What they allow is compared, not how they are labelled or split by command.
import type { Change } from './change.ts';
import type { DesiredPolicy, DesiredStoragePolicy } from '../schema/desired.ts';
import { POLICY_ROLES, type LivePolicy } from '../schema/live-schema.ts';
import { policyLabel, STORAGE_POLICY_PREFIX, storagePolicyLabel } from '../schema/label.ts';
import type { Ownership } from '../schema/managed.ts';
import { STORAGE_OBJECTS } from '../schema/policy-rings.ts';
import { type Policy, sameList } from '../schema/relation.ts';
import { type Rebuild, rebuildKey, type TableDiff } from './table-diff.ts';

export function diffPolicies(context: TableDiff): void {
  const { table, live, key, owned, rebuild, changes, unmanaged, claim } = context;
  const untouched = live.policies.every(
    (one) => isForCallers(one) && !rebuild.has(rebuildKey('policy', key, one.label)),
  );
  if (untouched && sameList(perCommand(table.policies.map(inNormalForm)), perCommand(live.policies))) {
    claim.policies.push(...live.policies.map((one) => one.label));
    return;
  }
  const { kept, missing, left } = match(table.policies, live.policies, key, rebuild);
  claim.policies.push(...kept);
  const dropped: LivePolicy[] = [];
  for (const found of left) {
    // A stranger's policy goes only if an equal one is made in its place.
    const returns = missing.some((wanted) => meaningOf(inNormalForm(wanted)) === meaningOf(found));
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

/** The labels of the storage policies that are the file's. */
export function diffStoragePolicies(
  desired: readonly DesiredStoragePolicy[],
  live: readonly LivePolicy[],
  owned: Ownership,
  rebuild: Rebuild,
  changes: Change[],
): string[] {
  const ours = live.filter(
    (one) => one.label.startsWith(STORAGE_POLICY_PREFIX) && owned.storagePolicies.has(one.label),
  );
  const { kept, missing, left } = match(desired, ours, STORAGE_OBJECTS, rebuild);
  for (const policy of left) changes.push({ kind: 'drop-storage-policy', policy });
  const used = new Set(live.filter((one) => !left.includes(one)).map((one) => one.label));
  const claims = [...kept];
  for (const policy of missing) {
    const { bucket, command } = policy;
    const label = freeLabel(used, (number) => storagePolicyLabel(bucket, number, command));
    claims.push(label);
    changes.push({ kind: 'create-storage-policy', policy, label, bucket });
  }
  return claims;
}

/** `kept`: labels of live policies that equal a declared one. `left`: the live policies that equal none. */
function match<P extends DesiredPolicy>(
  desired: readonly P[],
  live: readonly LivePolicy[],
  table: string,
  rebuild: Rebuild,
): { kept: string[]; missing: P[]; left: LivePolicy[] } {
  const left = new Set(live);
  const kept: string[] = [];
  const missing: P[] = [];
  for (const wanted of desired) {
    const meaning = meaningOf(inNormalForm(wanted));
    const found = [...left].find(
      (one) =>
        isForCallers(one) &&
        meaningOf(one) === meaning &&
        !rebuild.has(rebuildKey('policy', table, one.label)),
    );
    if (found) {
      left.delete(found);
      kept.push(found.label);
    } else missing.push(wanted);
  }
  return { kept, missing, left: [...left] };
}

// PUBLIC is these two roles and those that bypass row-level security anyway.
function isForCallers(policy: LivePolicy): boolean {
  return policy.roles === POLICY_ROLES || policy.roles === 'public';
}

function inNormalForm({ command, permissive, using, check }: DesiredPolicy): Policy<string> {
  return { command, permissive, using: using?.normal ?? null, check: check?.normal ?? null };
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

const COMMANDS = ['select', 'insert', 'update', 'delete'] as const;

/** A policy for all commands allows what four policies for one command each would. */
function perCommand(policies: readonly Policy<string>[]): string[] {
  return policies
    .flatMap((one) =>
      (one.command === 'all' ? COMMANDS : [one.command]).map((command) => meaningOf({ ...one, command })),
    )
    .sort();
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
