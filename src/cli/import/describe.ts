// Texts that the commands of `svc import supabase` print.
import type { Changed } from '../../import/changes.ts';
import type { Refused } from '../../import/dump.ts';
import type { Converted } from '../../import/edge/convert.ts';
import type { Factor } from '../../import/factors.ts';
import { NAMED, type Line, type Report } from '../../import/report.ts';
import type { Changes } from '../../import/write-users.ts';
import type { DatabaseAddress } from '../../postgres/address/database-address.ts';

const NAMES: Readonly<Record<string, string>> = {
  user: 'users',
  password: 'passwords',
  identity: 'identities',
  factor: 'second factors',
  session: 'sessions',
  method: 'how sessions were opened',
  token: 'refresh tokens of the older form',
  sequence: 'sequences',
};

export function describeReport({ moves, decide, stays }: Report): string {
  return [
    section('Moves', moves),
    section('To decide', decide),
    section('Stays behind', stays),
    'Nothing was changed.',
  ]
    .filter((text) => text !== '')
    .join('\n\n');
}

function section(title: string, lines: readonly Line[]): string {
  if (lines.length === 0) return '';
  return [title, ...lines.map(describeLine)].join('\n');
}

function describeLine({ what, count, why }: Line): string {
  return `  ${count === undefined ? '' : `${count} `}${what}${why === undefined ? '' : `: ${why}`}`;
}

export function describeChanges({ kind, added, changed, removed }: Changes): string {
  const name = NAMES[kind] ?? kind;
  if (added + changed + removed === 0) return `${name}: nothing new`;
  return `${name}: ${added} added, ${changed} changed, ${removed} removed`;
}

/** Lists the second factors that were not copied. */
export function describeLeft(left: readonly Factor[]): string[] {
  if (left.length === 0) return [];
  return [
    `${left.length} second factors were not copied. ` +
      'Their users sign in with the password alone and enroll a new factor:',
    ...left.slice(0, NAMED).map(({ name, why }) => `  ${name}: ${why}`),
    ...(left.length > NAMED ? [`  and ${left.length - NAMED} more`] : []),
  ];
}

export function describeUnproven(names: readonly string[]): string {
  return [
    `${names.length} of them were compared only by size, because the source has no usable checksum:`,
    ...names.slice(0, NAMED).map((name) => `  ${name}`),
    ...(names.length > NAMED ? [`  and ${names.length - NAMED} more`] : []),
  ].join('\n');
}

export function describeFunctions({ functions, variables, dependencies }: Converted): string {
  if (functions.length === 0) return 'No function was converted.';
  const lines = functions.map(
    ({ name, authRequired }) => `${name}: converted${authRequired ? ', for signed-in users only' : ''}`,
  );
  if (variables.length > 0)
    lines.push(`Set in the environment: ${variables.map((variable) => `SVC_ENV_${variable}`).join(', ')}`);
  if (variables.includes('SUPABASE_SERVICE_ROLE_KEY'))
    lines.push(
      'SVC_ENV_SUPABASE_SERVICE_ROLE_KEY gives a function the secret key. ctx.serviceClient works without it.',
    );
  if (Object.keys(dependencies).length > 0)
    lines.push('Install their dependencies: npm install --prefix functions');
  return lines.join('\n');
}

export function describeChanged(changed: readonly Changed[], out: string | undefined): string {
  if (changed.length === 0) return 'Nothing has changed here since the cut-over.';
  const lines = changed.map(
    ({ table, inserted, updated, deleted }) =>
      `${table}: ${inserted} inserted, ${updated} updated, ${deleted} deleted`,
  );
  if (out === undefined) return [...lines, 'Use --out <directory> to write the rows.'].join('\n');
  const secrets = changed.some(({ table }) => table === 'auth.users');
  return [
    ...lines,
    `The rows are in ${out}${secrets ? ', with password hashes: keep them secret' : ''}.`,
  ].join('\n');
}

export function describeRestored(
  path: string,
  { database }: DatabaseAddress,
  refused: readonly Refused[],
): string {
  const made =
    `note: ${path} is restored as the database ${database}. ` +
    `Run \`svc import supabase forget ${path}\` to delete it`;
  if (refused.length === 0) return made;
  return [
    made,
    `note: the server rejected ${refused.length} statements of ${path}. Check whether your project needs them:`,
    ...refused.slice(0, NAMED).map(({ statement, why }) => `  ${statement}\n    ${why}`),
    ...(refused.length > NAMED ? [`  and ${refused.length - NAMED} more`] : []),
  ].join('\n');
}
