// Which roles must be granted something else on a table, and whether that would let somebody do what they could not.
import {
  effectiveGrants,
  gained,
  liveGrants,
  opensColumns,
  sameGrants,
  wantedGrants,
} from '../schema/rights/grants.ts';
import type { Grants } from '../schema/model.ts';
import type { TableDiff } from './table-diff.ts';

export function diffGrants({ table, live, key, ownership, changes, claim }: TableDiff): void {
  const { grants: declared, rls } = table.model;
  const owned = ownership.tables.get(key) ?? ownership.retiredTables.get(key);
  // It came with the database, and nobody has said who may see it.
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
  const wanted = wantedGrants(declared);
  const differing = Object.keys(wanted).filter(
    (role) => !sameGrants([...(wanted[role] ?? [])], [...(found[role] ?? [])]),
  );
  const isSame =
    declared === undefined ? live.granted === 'api' : liveGrants(live, 'public', columns).length === 0;
  if (isSame && differing.length === 0) return;
  const opens = differing.flatMap((role) => {
    // The service role passes every policy; it is the server's own.
    if (role === 'service_role') return [];
    // What everybody has is taken from everybody and given to the roles that the file names.
    const had = effectiveGrants(live, role, columns);
    const gains = gained(wanted[role] ?? [], had).filter(
      (one) => !one.includes(' ') || live.columns.has(one.slice(one.indexOf(' ') + 1)),
    );
    const isHeld = rls !== 'absent' || (declared === undefined && owned !== undefined);
    return gains.length > 0 && (!isHeld || opensColumns(gains, had))
      ? [`${gains.join(', ')} for ${role}`]
      : [];
  });
  changes.push({ kind: 'grant-table', table, live, opens });
}
