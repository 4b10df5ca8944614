// Ownership over the connection of the administrator.
import { inTransaction, type OwnerDatabase } from '../../postgres/owner-database.ts';
import { raw, sql } from '../../postgres/sql.ts';
import type { ForeignObject, OwnershipTaker } from '../checks/ownership.ts';
import { type LockSettings, withLockRetries } from '../locks.ts';

export function ownershipTaker(administrator: OwnerDatabase, locks: LockSettings): OwnershipTaker {
  return {
    async refused(objects) {
      const owners = [...new Set(objects.map(({ owner }) => owner))];
      const rows = await administrator.query<{ owner: string }>(sql`
        select owner from unnest(${owners}::text[]) owner where not pg_has_role(current_user, owner::name, 'usage')`);
      const closed = new Set(rows.map(({ owner }) => owner));
      return objects.filter(({ owner }) => closed.has(owner));
    },
    session: (work) => administrator.session(work),
    async take(objects) {
      await administrator.session((session) =>
        withLockRetries(session, objects.filter(isTable).map(nameOf), locks, () =>
          inTransaction(session, { lock_timeout: locks.lockTimeoutMs }, () =>
            session.query(raw(objects.map((one) => one.sql).join('; '))),
          ),
        ),
      );
    },
  };
}

const isTable = ({ what }: ForeignObject): boolean => what === 'table';
const nameOf = ({ name }: ForeignObject): string => name;
