/**
 * Time before an unready worker closes its port. After a short outage of the database the other workers fail, too.
 */
const PATIENCE_MS = 10_000;

/** Whether a worker keeps its port open. `unreadyMs`: for how long it has not been ready; undefined when it is. */
export function keepsListening(unreadyMs: number | undefined, othersAreReady: boolean): boolean {
  return unreadyMs === undefined || unreadyMs < PATIENCE_MS || !othersAreReady;
}
