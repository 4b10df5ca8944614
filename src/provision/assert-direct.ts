// Checks that the direct address leads to PostgreSQL and not to a pooler. Through a pooler, advisory locks could not be
// released and notifications would not arrive.
import type { DatabaseAddresses } from '../postgres/address/database-addresses.ts';
import type { LinkState } from '../postgres/link/measure-link.ts';
import { Problem } from '../problem/problem.ts';

export function assertDirect({ data, direct }: DatabaseAddresses, state: LinkState | undefined): void {
  if (state === undefined || state.verdict === 'direct') return;
  const isSame = direct.variable === data.variable;
  const variable = isSame ? 'SVC_DATABASE_URL' : 'SVC_DATABASE_DIRECT_URL';
  throw new Problem(
    'direct_is_pooled',
    500,
    `${variable} goes through a pooler. Migrations, notifications and locks need a dedicated session`,
    {
      hint: isSame
        ? 'Set SVC_DATABASE_DIRECT_URL to PostgreSQL itself.'
        : 'Set it to PostgreSQL itself. SVC_DATABASE_URL may go through the pooler.',
    },
  );
}
