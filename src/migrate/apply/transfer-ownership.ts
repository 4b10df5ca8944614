// Transfers ownership of objects over the connection of the administrator.
import { inDiscardedTransaction, inTransaction, type OwnerDatabase } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { raw, sql } from '../../postgres/sql.ts';
import type { ForeignObject, OwnershipTransfer } from '../checks/ownership.ts';
import { type LockSettings, withLockRetries } from '../locks.ts';

export function ownershipTaker(administrator: OwnerDatabase, locks: LockSettings): OwnershipTransfer {
  return {
    async findUntransferable(objects) {
      const extensions = objects.filter(isExtension);
      const owned = objects.filter((object) => !isExtension(object));
      const owners = [...new Set(owned.map(({ owner }) => owner))];
      const rows = await administrator.query<{ owner: string }>(sql`
        select owner from unnest(${owners}::text[]) owner
        where not pg_has_role(current_user, owner::name, 'usage')`);
      const closed = new Set(rows.map(({ owner }) => owner));
      return [
        ...(await barredFrom(administrator, extensions)),
        ...owned.filter(({ owner }) => closed.has(owner)),
      ];
    },
    session: (work) => administrator.session(work),
    async transfer(objects) {
      await administrator.session((session) =>
        withLockRetries(session, objects.filter(isTable).map(objectName), locks, () =>
          inTransaction(session, { lock_timeout: locks.lockTimeoutMs }, () =>
            session.query(raw(objects.map((object) => object.sql).join('; '))),
          ),
        ),
      );
    },
  };
}

/**
 * Returns the extensions that the administrator cannot install. Some hosts let roles other than superusers install
 * extensions, so each is tried in a transaction that rolls back.
 */
async function barredFrom(
  administrator: OwnerDatabase,
  extensions: readonly ForeignObject[],
): Promise<ForeignObject[]> {
  const barred: ForeignObject[] = [];
  for (const extension of extensions)
    try {
      await administrator.session((session) =>
        inDiscardedTransaction(session, {}, () => session.query(raw(extension.sql))),
      );
    } catch (error) {
      if (!isDatabaseError(error, 'insufficient_privilege')) throw error;
      barred.push(extension);
    }
  return barred;
}

const isExtension = ({ what }: ForeignObject): boolean => what === 'extension';
const isTable = ({ what }: ForeignObject): boolean => what === 'table';
const objectName = ({ name }: ForeignObject): string => name;
