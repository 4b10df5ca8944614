// Privileges of roles on tables: declared, live, and as SQL.
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

/** Converts the `grants` key of a table. */
export function toGrants(declared: Declared): Grants {
  return Object.fromEntries(
    Object.entries(declared).map(([role, list]) => [
      role,
      simplest(
        list.flatMap((entry) =>
          typeof entry === 'string'
            ? [entry]
            : Object.entries(entry).flatMap(([privilege, columns]) =>
                (Array.isArray(columns) ? columns : []).map((column) => `${privilege} ${String(column)}`),
              ),
        ),
      ),
    ]),
  );
}

/** Returns the required privileges of the API roles and of the roles that the file names. */
export function wantedGrants(declared: Grants | undefined): Grants {
  return { ...DEFAULTS, ...declared };
}

/** Returns the API roles that may write the table and so need the sequences of its columns. */
export function sequenceUsers(declared: Grants | undefined): readonly string[] {
  const wanted = wantedGrants(declared);
  return API_ROLES.filter((role) =>
    wanted[role]?.some((privilege) => /^(all|insert|update)\b/.test(privilege)),
  );
}

/** Returns the privileges of a role in the database, limited to the given columns. */
export function liveGrants(live: LiveTable, role: string, columns: ReadonlySet<string>): readonly string[] {
  const ofColumns = [...live.columns.values()]
    .filter(({ name }) => columns.has(name))
    .flatMap(({ name, grants }) => (grants?.[role] ?? []).map((privilege) => `${privilege} ${name}`));
  return simplest([...(live.grants[role] ?? []), ...ofColumns]);
}

/** Returns the privileges of a role, including those of PUBLIC. */
export function effectiveGrants(
  live: LiveTable,
  role: string,
  columns: ReadonlySet<string>,
): readonly string[] {
  return simplest([...liveGrants(live, role, columns), ...liveGrants(live, 'public', columns)]);
}

/** Returns the roles with a privilege on the table or on one of its columns. */
export function findGrantees(live: LiveTable): string[] {
  const roles = [...live.columns.values()].flatMap(({ grants }) => Object.keys(grants ?? {}));
  return [...new Set([...Object.keys(live.grants), ...roles])].sort();
}

function simplest(list: readonly string[]): string[] {
  const whole = new Set(list);
  if (whole.has('all') || EVERYTHING.every((privilege) => whole.has(privilege))) return ['all'];
  return [...whole]
    .filter((privilege) => !privilege.includes(' ') || !whole.has(privilegeVerb(privilege)))
    .sort();
}

function privilegeVerb(privilege: string): string {
  return privilege.split(' ', 1)[0] ?? '';
}

export function sameGrants(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((privilege, index) => privilege === b[index]);
}

/** Returns the privileges of `wanted` that `found` does not include. */
export function gained(wanted: readonly string[], found: readonly string[]): string[] {
  if (found.includes('all')) return [];
  const all = wanted.includes('all') ? EVERYTHING : wanted;
  return all.filter((privilege) => !found.includes(privilege) && !found.includes(privilegeVerb(privilege)));
}

/** Returns whether a privilege that covered only some columns now covers all columns. */
export function opensColumns(gains: readonly string[], found: readonly string[]): boolean {
  return gains.some((gain) => found.some((privilege) => privilege.startsWith(`${privilegeVerb(gain)} `)));
}

/** Revokes everything first: revoking a privilege on a table also revokes it on its columns. */
export function grantsSql(table: string, grants: Grants): string {
  const roles = Object.keys(grants).map(quoteIdent).join(', ');
  const statements = Object.entries(grants).flatMap(([role, privileges]) => {
    const whole = privileges.filter((privilege) => !privilege.includes(' '));
    const ofColumns = groupBy(
      privileges.filter((privilege) => privilege.includes(' ')),
      privilegeVerb,
    );
    const list = [
      ...whole,
      ...[...ofColumns].map(
        ([verb, ones]) =>
          `${verb} (${ones.map((privilege) => quoteIdent(privilege.slice(verb.length + 1))).join(', ')})`,
      ),
    ];
    return list.length === 0 ? [] : [`grant ${list.join(', ')} on ${table} to ${quoteIdent(role)}`];
  });
  return [`revoke all on ${table} from public, ${roles}`, ...statements].join('; ');
}

/** Returns text such as `anon, authenticated: select; service_role: all`. */
export function describeGrants(grants: Iterable<readonly [string, readonly string[]]>): string {
  const byPrivileges = groupBy(grants, ([, privileges]) => privileges.join(', ').toLowerCase());
  return [...byPrivileges]
    .map(([privileges, roles]) => `${roles.map(([role]) => role).join(', ')}: ${privileges || 'nothing'}`)
    .join('; ');
}

/** Returns the `grants` key for a live table, or undefined if all roles have their default privileges. */
export function pulledGrants(live: LiveTable): Record<string, unknown> | undefined {
  const columns = new Set(live.columns.keys());
  const roles = [...new Set([...API_ROLES, ...findGrantees(live)])].filter((role) => role !== 'public');
  const entries = roles.flatMap((role): [string, unknown][] => {
    const found = effectiveGrants(live, role, columns);
    const defaults = DEFAULTS[role];
    return defaults && sameGrants(defaults, found) ? [] : [[role, toFileForm(found)]];
  });
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

/**
 * Returns the grants with the default privileges for each API role that has all privileges. The API has no request that
 * needs the others: TRUNCATE, which ignores policies, REFERENCES and TRIGGER.
 */
export function withoutUnservedPrivileges(grants: LiveTable['grants']): LiveTable['grants'] {
  return Object.fromEntries(
    Object.entries(grants).map(([role, privileges]) => {
      const defaults = DEFAULTS[role];
      return [role, defaults && simplest(privileges).includes('all') ? defaults : privileges];
    }),
  );
}

function toFileForm(privileges: readonly string[]): unknown[] {
  const whole = privileges.filter((privilege) => !privilege.includes(' '));
  const ofColumns = groupBy(
    privileges.filter((privilege) => privilege.includes(' ')),
    privilegeVerb,
  );
  return [
    ...whole,
    ...[...ofColumns].map(([verb, ones]) => ({
      [verb]: ones.map((privilege) => privilege.slice(verb.length + 1)),
    })),
  ];
}
