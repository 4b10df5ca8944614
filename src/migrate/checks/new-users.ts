// `on_new_user` makes no rows for the users that are there already; the plan says how many those are.
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { counted } from './samples.ts';

export async function noteUsersWithoutRow(session: Queryable, changes: readonly Change[]): Promise<string[]> {
  const begun = changes.flatMap((change) =>
    change.kind === 'set-new-user' && change.isNew ? [change.trigger] : [],
  );
  if (begun.length === 0) return [];
  const [row] = await session.query<{ users: number }>(raw('select count(*)::int as users from auth.users'));
  const users = row?.users ?? 0;
  if (users === 0) return [];
  return begun.map(
    ({ table }) =>
      `${table.name} gets no rows for the ${counted(users, 'user', 'users')} that there are already`,
  );
}
