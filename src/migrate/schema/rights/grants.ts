// What roles may do with a table, as the file says it, as the catalog has it, and as statements.
import { groupBy } from '../../../lib/group-by.ts';
import { quoteIdent } from '../../../postgres/sql.ts';
import type { LiveTable } from '../live/live-schema.ts';
import { API_ROLES } from './roles.ts';
import type { Grants } from '../model.ts';

type Declared = Readonly<Record<string, ReadonlyArray<string | Readonly<Record<string, unknown>>>>>;

const EVERYTHING = ['delete', 'insert', 'references', 'select', 'trigger', 'truncate', 'update'];

const DEFAULTS: Grants = {
  anon: ['delete', 'insert', 'select', 'update'],
  authenticated: ['delete', 'insert', 'select', 'update'],
  service_role: ['all'],
};

/** From the key of the file. */
export function toGrants(declared: Declared): Grants {
  return Object.fromEntries(
    Object.entries(declared).map(([role, list]) => [
      role,
      simplest(
        list.flatMap((one) =>
          typeof one === 'string'
            ? [one]
            : Object.entries(one).flatMap(([privilege, columns]) =>
                (Array.isArray(columns) ? columns : []).map((column) => `${privilege} ${String(column)}`),
              ),
        ),
      ),
    ]),
  );
}

/** What the roles that svc looks after must have: the API roles, and those the file names. */
export function wantedGrants(declared: Grants | undefined): Grants {
  return { ...DEFAULTS, ...declared };
}

/** Nobody of the API may touch the table, so that its sequences are for nobody either. */
export function isClosed(declared: Grants | undefined): boolean {
  const wanted = wantedGrants(declared);
  return API_ROLES.every((role) => wanted[role]?.length === 0);
}

/** What a role has in the database, leaving out columns that are not in `columns`. */
export function liveGrants(live: LiveTable, role: string, columns: ReadonlySet<string>): readonly string[] {
  const ofColumns = [...live.columns.values()]
    .filter(({ name }) => columns.has(name))
    .flatMap(({ name, grants }) => (grants?.[role] ?? []).map((privilege) => `${privilege} ${name}`));
  return simplest([...(live.grants[role] ?? []), ...ofColumns]);
}

/** The same with what every role has. */
export function effectiveGrants(
  live: LiveTable,
  role: string,
  columns: ReadonlySet<string>,
): readonly string[] {
  return simplest([...liveGrants(live, role, columns), ...liveGrants(live, 'public', columns)]);
}

/** Roles with a privilege on the table or one of its columns. */
export function granteesOf(live: LiveTable): string[] {
  const roles = [...live.columns.values()].flatMap(({ grants }) => Object.keys(grants ?? {}));
  return [...new Set([...Object.keys(live.grants), ...roles])].sort();
}

function simplest(list: readonly string[]): string[] {
  const whole = new Set(list);
  if (whole.has('all') || EVERYTHING.every((one) => whole.has(one))) return ['all'];
  return [...whole].filter((one) => !one.includes(' ') || !whole.has(verbOf(one))).sort();
}

function verbOf(privilege: string): string {
  return privilege.split(' ', 1)[0] ?? '';
}

export function sameGrants(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((one, index) => one === b[index]);
}

/** What of `wanted` somebody with `found` could not do until now. */
export function gained(wanted: readonly string[], found: readonly string[]): string[] {
  if (found.includes('all')) return [];
  const all = wanted.includes('all') ? EVERYTHING : wanted;
  return all.filter((one) => !found.includes(one) && !found.includes(verbOf(one)));
}

/** Whether somebody who had a privilege on some columns only has it on all. */
export function opensColumns(gains: readonly string[], found: readonly string[]): boolean {
  return gains.some((gain) => found.some((one) => one.startsWith(`${verbOf(gain)} `)));
}

/** Takes everything from the roles first: with the privilege on the table goes that on its columns. */
export function grantsSql(table: string, grants: Grants): string {
  const roles = Object.keys(grants).map(quoteIdent).join(', ');
  const statements = Object.entries(grants).flatMap(([role, privileges]) => {
    const whole = privileges.filter((one) => !one.includes(' '));
    const ofColumns = groupBy(
      privileges.filter((one) => one.includes(' ')),
      verbOf,
    );
    const list = [
      ...whole,
      ...[...ofColumns].map(
        ([verb, ones]) => `${verb} (${ones.map((one) => quoteIdent(one.slice(verb.length + 1))).join(', ')})`,
      ),
    ];
    return list.length === 0 ? [] : [`grant ${list.join(', ')} on ${table} to ${quoteIdent(role)}`];
  });
  return [`revoke all on ${table} from public, ${roles}`, ...statements].join('; ');
}

/** As the file writes it; undefined where every role has what it would have without the key. */
export function pulledGrants(live: LiveTable): Record<string, unknown> | undefined {
  const columns = new Set(live.columns.keys());
  const roles = [...new Set([...API_ROLES, ...granteesOf(live)])].filter((role) => role !== 'public');
  const entries = roles.flatMap((role): [string, unknown][] => {
    const found = effectiveGrants(live, role, columns);
    const usual = DEFAULTS[role];
    return usual && sameGrants(usual, found) ? [] : [[role, written(found)]];
  });
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

function written(privileges: readonly string[]): unknown[] {
  const whole = privileges.filter((one) => !one.includes(' '));
  const ofColumns = groupBy(
    privileges.filter((one) => one.includes(' ')),
    verbOf,
  );
  return [
    ...whole,
    ...[...ofColumns].map(([verb, ones]) => ({ [verb]: ones.map((one) => one.slice(verb.length + 1)) })),
  ];
}
