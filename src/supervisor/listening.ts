/** A moment without the database is no reason to leave the work to the others: they would soon be in the same case. */
const PATIENCE_MS = 10_000;

/** Whether a worker keeps its port open. `unreadyMs`: for how long it has not been ready; undefined when it is. */
export function keepsListening(unreadyMs: number | undefined, othersAreReady: boolean): boolean {
  return unreadyMs === undefined || unreadyMs < PATIENCE_MS || !othersAreReady;
}
