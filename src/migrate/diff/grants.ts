// Compares privileges on tables, and determines which privileges roles gain.
import {
  effectiveGrants,
  gained,
  liveGrants,
  opensColumns,
  sameGrants,
  wantedGrants,
} from '../schema/rights/grants.ts';
import type { Grants } from '../schema/model.ts';
import type { LivePolicy } from '../schema/live/live-schema.ts';
import { PUBLIC } from '../schema/rights/roles.ts';
import type { TableDiff } from './table-diff.ts';

export function diffGrants({ table, live, key, ownership, changes, claim }: TableDiff): void {
  const { grants: declared, rls } = table.model;
  const owned = ownership.tables.get(key) ?? ownership.retiredTables.get(key);
  // The table existed before svc, and the file declares no access.
  claim.closed =
    declared === undefined &&
    rls === 'absent' &&
    live.granted === 'none' &&
    (owned === undefined || owned.closed === true);
  if (claim.closed) return;
  const columns = new Set(table.columns.map(({ name }) => name));
  const found: Grants = Object.fromEntries(
    Object.keys(wantedGrants(declared)).map((role) => [role, liveGrants(live, role, columns)]),
  );
  const required = wantedGrants(declared);
  const differing = Object.keys(required).filter(
    (role) => !sameGrants([...(required[role] ?? [])], [...(found[role] ?? [])]),
  );
  const isSame =
    declared === undefined ? live.granted === 'api' : liveGrants(live, 'public', columns).length === 0;
  if (isSame && differing.length === 0) return;
  const policies = [...table.policies, ...live.policies];
  const admits = (privilege: string, role: string): boolean => isAdmitted(policies, privilege, role);
  const opens = differing.flatMap((role) => {
    // The service role bypasses every policy.
    if (role === 'service_role') return [];
    // Privileges of PUBLIC are revoked and granted to the named roles.
    const current = effectiveGrants(live, role, columns);
    const gains = gained(required[role] ?? [], current).filter(
      (gain) => !gain.includes(' ') || live.columns.has(gain.slice(gain.indexOf(' ') + 1)),
    );
    // A retired table that returns gets its declared privileges again.
    const isBack = ownership.retiredTables.has(key) && (declared === undefined || rls !== 'absent');
    const isBound = isBack || Array.isArray(rls);
    const opened =
      !isBound || opensColumns(gains, current)
        ? gains
        : gains.filter((gain) => !isBack && admits(gain, role));
    return opened.length > 0 ? [`${opened.join(', ')} for ${role}`] : [];
  });
  changes.push({ kind: 'grant-table', table, live, opens });
}

/** Returns whether a permissive policy allows a role to use a privilege. Policies do not apply to TRUNCATE. */
function isAdmitted(
  policies: ReadonlyArray<Pick<LivePolicy, 'command' | 'permissive' | 'roles'>>,
  privilege: string,
  role: string,
): boolean {
  const [verb] = privilege.split(' ', 1);
  if (verb === 'truncate') return true;
  return policies.some(
    ({ command, permissive, roles }) =>
      permissive &&
      (command === verb || command === 'all') &&
      roles.split(',').some((boundRole) => boundRole === role || boundRole === PUBLIC),
  );
}
