// Opens the target database of an import before it is provisioned.
import type { DatabaseAddress } from '../postgres/address/database-address.ts';
import { connectionProblem } from '../provision/reach-database.ts';

/** Connects with `enter` and runs `work`. Throws a Problem with the reason if the connection fails. */
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
    throw isReached ? error : connectionProblem(target, error);
  }
}
