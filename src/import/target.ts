// The database that is imported into, where an import enters it before it is made ready.
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { notReached } from '../provision/reach-database.ts';

/** `enter` opens it and works there. Throws a Problem that says why it cannot be entered. */
export async function inTarget<Session, T>(
  target: DatabaseAddress,
  enter: (work: (session: Session) => Promise<T>) => Promise<T>,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  let isReached = false;
  try {
    return await enter(async (session) => {
      isReached = true;
      return await work(session);
    });
  } catch (error) {
    throw isReached ? error : notReached(target, error);
  }
}
