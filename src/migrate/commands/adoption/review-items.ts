// Lists objects of a pulled database that work as before but may not be intended, for review by the user.
import { POLICY_ROLES, PUBLIC } from '../../schema/rights/roles.ts';
import { namesApiRole } from './close-public.ts';
import type { Live, LiveFunction, LiveTable } from '../../schema/live/live-schema.ts';
import { isPublicByDefault, isPulled, needsPath, SAFE_PATH } from '../pulled-functions.ts';

/** Returns one line per item, for objects that the file contains. */
export function listReviewItems(live: Live, isSelected: (key: string) => boolean): string[] {
  const tables = [...live.tables].filter(([key]) => isSelected(key));
  const views = [...live.views].filter(([key]) => isSelected(key));
  const isClosed = !namesApiRole(live);
  const publicLine = isClosed ? FOR_OTHERS : 'PUBLIC may use it: the file grants this to each API role';
  return [
    ...tables.flatMap(([key, table]) => reviewTable(table, isClosed).map((line) => `table ${key}: ${line}`)),
    ...views
      .filter(([, { definer, materialized }]) => definer && !materialized)
      .map(([key]) => `view ${key}: it reads with the rights of its owner and bypasses policies`),
    ...views
      .filter(([, { grants }]) => Object.hasOwn(grants, PUBLIC))
      .map(([key]) => `view ${key}: ${publicLine}`),
    ...[...live.sequences]
      .filter(([, { usage }]) => usage.includes(PUBLIC))
      .map(([key]) => `sequence ${key}: ${publicLine}`),
    ...[...live.functions.values()]
      .flat()
      .flatMap((fn) => reviewFunction(fn).map((line) => functionLine(fn, line))),
  ];
}

function functionLine({ schema, name, identityArguments }: LiveFunction, line: string): string {
  return `function ${schema}.${name}(${identityArguments}): ${line}`;
}

function reviewFunction(fn: LiveFunction): string[] {
  if (!isPulled(fn)) return [];
  const rights = fn.definer ? ', and it runs with the rights of its owner' : '';
  return [
    ...(isPublicByDefault(fn)
      ? [
          `only PUBLIC may execute it, which is the default of PostgreSQL${rights}: the API does not serve it. ` +
            'To serve it, remove expose: false and grant EXECUTE to API roles',
        ]
      : []),
    ...(needsPath(fn)
      ? [`it runs with the rights of its owner and had no search_path: the file sets ${SAFE_PATH}`]
      : []),
  ];
}

const FOR_OTHERS = 'PUBLIC may use it, and no API role has an explicit grant: the file removes access';

function reviewTable(table: LiveTable, isClosed: boolean): string[] {
  const key = table.keys.find(({ kind }) => kind === 'primary');
  const isPublic = isClosed && Object.hasOwn(table.grants, PUBLIC);
  const lines = isPublic ? [FOR_OTHERS] : table.rowSecurity ? [] : describeAccess(table);
  if (!key) lines.push('it has no primary key');
  for (const { columns } of table.foreignKeys)
    if (!isIndexed(table, columns))
      lines.push(
        `no index for the foreign key of ${columns.join(', ')}: deleting a referenced row reads the whole table`,
      );
  return lines;
}

function describeAccess({ grants }: LiveTable): string[] {
  const roles = [...POLICY_ROLES.split(','), 'public'].filter((role) => (grants[role] ?? []).length > 0);
  return roles.length === 0 ? [] : [`no policies, but accessible to ${roles.join(', ')}`];
}

function isIndexed(table: LiveTable, columns: readonly string[]): boolean {
  const begins = (of: readonly string[]): boolean =>
    columns.every((column) => of.slice(0, columns.length).includes(column));
  const whole = table.indexes.filter(({ plain, predicate }) => plain && predicate === null);
  return [...table.keys, ...whole].some((candidate) => begins(candidate.columns));
}
