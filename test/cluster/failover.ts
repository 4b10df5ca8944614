// Measures when one primary ends and another begins, as the rig sees it without svc and balancers.
import { firstWriteAt } from './database.ts';
import { DATABASE_MACHINES, type DatabaseMachine } from './machines.ts';
import type { Load } from './load.ts';
import { until } from './until.ts';

/** Patroni's `ttl` of 20 s, two of its rounds, and a slow machine. */
const ELECTION = 90_000;

export type Failover = {
  readonly startedAt: number;
  /** When another machine than `leader` first took writes. */
  readonly newPrimaryAt: number;
};

/** Does `end` to the primary and waits for the next one. */
export async function failOver(leader: DatabaseMachine, end: () => Promise<void> | void): Promise<Failover> {
  const followers = DATABASE_MACHINES.filter((machine) => machine !== leader);
  const watch = AbortSignal.timeout(ELECTION);
  const startedAt = Date.now();
  const [newPrimaryAt] = await Promise.all([firstWriteAt(followers, watch), end()]);
  if (Number.isNaN(newPrimaryAt)) throw new Error(`no machine became primary within ${ELECTION / 1_000} s`);
  return { startedAt, newPrimaryAt };
}

/** Time of the first successful write of those sent after `time`; infinity if none succeeds within `limit`. */
export async function writesAgain(load: Load, time: number, limit = 60_000): Promise<number> {
  await until('writes to succeed', limit, () => Number.isFinite(load.firstSuccessAfter(time, 'write'))).catch(
    () => undefined,
  );
  return load.firstSuccessAfter(time, 'write');
}
