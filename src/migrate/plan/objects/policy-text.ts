// Describes the permissions of a policy for the reviewer of a plan.
import type { DesiredPolicy } from '../../schema/desired.ts';
import { PUBLIC } from '../../schema/rights/roles.ts';

type Described = Pick<DesiredPolicy, 'command' | 'permissive' | 'roles'> & {
  readonly using: { readonly written: string } | null;
  readonly check: { readonly written: string } | null;
};

const VERBS = {
  select: 'read',
  insert: 'insert',
  update: 'update',
  delete: 'delete',
  all: 'read and change',
} satisfies Record<DesiredPolicy['command'], string>;

/** `policy: anon can read every row`. */
export function describePolicy({ command, permissive, roles, using, check }: Described): string {
  const who = roles === PUBLIC ? 'every role' : roles.replaceAll(',', ', ');
  const can = `${who} can ${VERBS[command]}`;
  const condition = (using ?? check)?.written ?? 'true';
  const rows =
    condition !== 'true'
      ? `${permissive ? '' : 'only '}rows where ${condition}`
      : command === 'insert'
        ? 'any row'
        : 'every row';
  const written = using !== null && check !== null ? `; a written row must meet ${check.written}` : '';
  return `${permissive ? '' : 'restrictive '}policy: ${can} ${rows}${written}`;
}
