// The condition under which a batch can run on a replica. It is part of the settings statement, so the server that
// runs the batch evaluates it before the following statements take their snapshot.
import { isDatabaseError } from '../pg-error.ts';

/** The server cannot run the batch; nothing was read. */
export class Unreplayed extends Error {
  override name = 'Unreplayed';
  /** `behind`: the server has not replayed the position yet. `no standby`: the server does not replay. */
  readonly reason: 'behind' | 'no standby';

  constructor(reason: Unreplayed['reason'], cause: Error) {
    super(`the server is ${reason === 'behind' ? 'behind the position asked for' : 'no standby'}`, { cause });
    this.reason = reason;
  }
}

/** A position that every standby has replayed. */
export const ANY_POSITION = '0/0';

/**
 * Two columns that fail on a primary, or on a standby that has not replayed the position in `parameter`. They use
 * volatile functions, because the planner would evaluate others in advance.
 */
export function replayCheck(parameter: string): string {
  return [
    'sqrt(case when pg_is_in_recovery() then 0 else -1 end)',
    `1 / (case when pg_last_wal_replay_lsn() >= ${parameter}::pg_lsn then 1 else 0 end)`,
  ].join(', ');
}

/** Translates an error of the settings statement. */
export function replayError(error: Error): Error {
  if (isDatabaseError(error, 'invalid_argument_for_power_function'))
    return new Unreplayed('no standby', error);
  return isDatabaseError(error, 'division_by_zero') ? new Unreplayed('behind', error) : error;
}
