// The direct address has to lead to PostgreSQL itself: a lock taken through a pooler could never be released, and what a
// notification is for would never arrive.
import type { DatabaseAddresses } from '../postgres/address/database-addresses.ts';
import type { LinkState } from '../postgres/link/measure-link.ts';
import { Problem } from '../problem/problem.ts';

export function assertDirect({ data, direct }: DatabaseAddresses, state: LinkState | undefined): void {
  if (state === undefined || state.verdict === 'direct') return;
  const isOne = direct.variable === data.variable;
  throw new Problem(
    'direct_is_pooled',
    500,
    `${isOne ? 'SVC_DATABASE_URL' : 'SVC_DATABASE_DIRECT_URL'} goes through a pooler. Migrations, notifications and locks need a session of their own`,
    {
      hint: isOne
        ? 'Set SVC_DATABASE_DIRECT_URL to PostgreSQL itself.'
        : 'Set it to PostgreSQL itself; SVC_DATABASE_URL may go through the pooler.',
    },
  );
}
