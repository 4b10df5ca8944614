// Adds a note to the plan with the number of existing users, for which `on_new_user` inserts no rows.
import type { Queryable } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { formatQuantity } from './samples.ts';

export async function noteUsersWithoutRow(session: Queryable, changes: readonly Change[]): Promise<string[]> {
  const newTriggers = changes.flatMap((change) =>
    change.kind === 'set-new-user' && change.isNew ? [change.trigger] : [],
  );
  if (newTriggers.length === 0) return [];
  const [row] = await session.query<{ users: number }>(raw('select count(*)::int as users from auth.users'));
  const users = row?.users ?? 0;
  if (users === 0) return [];
  return newTriggers.map(
    ({ table }) =>
      `${table.name} gets no rows for ${formatQuantity(users, 'existing user', 'existing users')}`,
  );
}
