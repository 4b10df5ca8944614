// The condition under which a batch may run on a replica. It stands in the settings statement, so it is decided before
// the snapshot of what follows is taken, and by the very server that answers, whatever stands between.
import { isDatabaseError } from '../pg-error.ts';

/** The server is not fit for the batch that it was sent; nothing was read. */
export class Unreplayed extends Error {
  override name = 'Unreplayed';
  /** `behind`: it has not replayed so far yet. `no standby`: it replays nothing. */
  readonly reason: 'behind' | 'no standby';

  constructor(reason: Unreplayed['reason'], cause: Error) {
    super(`the server is ${reason === 'behind' ? 'behind the position asked for' : 'no standby'}`, { cause });
    this.reason = reason;
  }
}

/** What every standby has replayed. */
export const ANY_POSITION = '0/0';

/**
 * Two columns that fail on a server that is no standby, or has not replayed up to the position in `parameter`. Made of
 * volatile functions, or the planner would compute the failures itself.
 */
export function replayCheck(parameter: string): string {
  return [
    'sqrt(case when pg_is_in_recovery() then 0 else -1 end)',
    `1 / (case when pg_last_wal_replay_lsn() >= ${parameter}::pg_lsn then 1 else 0 end)`,
  ].join(', ');
}

/** What an error of the settings statement means there. */
export function replayError(error: Error): Error {
  if (isDatabaseError(error, 'invalid_argument_for_power_function'))
    return new Unreplayed('no standby', error);
  return isDatabaseError(error, 'division_by_zero') ? new Unreplayed('behind', error) : error;
}
