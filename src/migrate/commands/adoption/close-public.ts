// Removes grants to PUBLIC from a database that grants nothing to the API roles: such grants are for other programs.
import type { Live } from '../../schema/live/live-schema.ts';
import { API_ROLES, PUBLIC } from '../../schema/rights/roles.ts';

/** Returns true if an API role has an explicit grant on any object. */
export function namesApiRole(live: Live): boolean {
  const grantees = [
    ...[...live.tables.values()].flatMap(({ grants, columns }) => [
      ...Object.keys(grants),
      ...[...columns.values()].flatMap((column) => Object.keys(column.grants ?? {})),
    ]),
    ...[...live.views.values()].flatMap(({ grants }) => Object.keys(grants)),
    ...[...live.sequences.values()].flatMap(({ usage }) => usage),
    ...[...live.functions.values()].flat().flatMap(({ callers }) => callers),
  ];
  return API_ROLES.some((role) => grantees.includes(role));
}

/** Removes grants to PUBLIC if no API role has an explicit grant. */
export function closeToPublic(live: Live): Live {
  if (namesApiRole(live)) return live;
  return {
    ...live,
    tables: new Map(
      [...live.tables].map(([key, table]) => [
        key,
        {
          ...table,
          grants: withoutPublic(table.grants),
          columns: new Map(
            [...table.columns].map(([name, column]) => [
              name,
              { ...column, grants: column.grants === null ? null : withoutPublic(column.grants) },
            ]),
          ),
        },
      ]),
    ),
    views: new Map(
      [...live.views].map(([key, view]) => [key, { ...view, grants: withoutPublic(view.grants) }]),
    ),
    sequences: new Map(
      [...live.sequences].map(([key, sequence]) => [
        key,
        { ...sequence, usage: sequence.usage.filter((role) => role !== PUBLIC) },
      ]),
    ),
  };
}

function withoutPublic<T>(grants: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(grants).filter(([role]) => role !== PUBLIC));
}
