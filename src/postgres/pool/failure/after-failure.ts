// The reaction to a failed attempt: one table for reads and writes, by the state of the wire
// (docs/decisions/0084).
//
//   seen                                             read                      write
//   never sent                                       held                      held
//   rolled back   57P: the backend was stopped       again, 3 runs in all      the same
//                 26000, 42P05, a stale plan         again, without names      the same
//                 25006: no writes here              to the caller             a standby? held: another host
//                 anything else                      to the caller             to the caller
//   unknown       its end was not reported           again, 2 runs in all      never
//
// A held or repeated run ends `failover_wait` after its first failure. Then the database counts as unavailable:
// nothing was done.
import { DatabaseUnavailable, failureClass, isDatabaseError, OutcomeUnknown } from '../../pg-error.ts';

export type Failure = {
  readonly error: Error;
  /** READ ONLY: the batch cannot have had an effect. */
  readonly isRead: boolean;
  /** Number of runs whose connection failed, including this one. */
  readonly failures: number;
  /** Before the statement ran, the server reported that its name is unknown or already taken. */
  readonly isAboutName: boolean;
  readonly isNameless: boolean;
  /** Within `failover_wait` of the first failure. */
  readonly isInTime: boolean;
};

/** `ask`: the decision depends on whether the server is a standby. */
export type Next = 'answer' | 'again' | 'again-nameless' | 'ask';

const MAX_RUNS = { stopped: 3, unknown: 2 };

export function afterFailure(failure: Failure): Next {
  const { error, isRead, failures, isAboutName, isNameless, isInTime } = failure;
  switch (failureClass(error)) {
    case 'never-sent':
      return isInTime ? 'again' : 'answer';
    case 'unknown':
      return isRead && failures < MAX_RUNS.unknown ? 'again' : 'answer';
    case 'rolled-back':
      if (isAboutName) return isNameless ? 'answer' : 'again-nameless';
      if (isDatabaseError(error, 'shutdown')) {
        return isInTime && failures < MAX_RUNS.stopped ? 'again' : 'answer';
      }
      return isDatabaseError(error, 'read_only_sql_transaction') && !isRead && isInTime ? 'ask' : 'answer';
    default:
      return 'answer';
  }
}

/** Returns the error for the caller. `isRead`: the batch cannot have had an effect. */
export function toCaller(error: Error, isRead: boolean): Error {
  if (error instanceof OutcomeUnknown || error instanceof DatabaseUnavailable) return error;
  switch (failureClass(error)) {
    case 'never-sent':
      return new DatabaseUnavailable(error);
    case 'unknown':
      return isRead ? new DatabaseUnavailable(error) : new OutcomeUnknown(error);
    case 'rolled-back':
      return isDatabaseError(error, 'shutdown') ? new DatabaseUnavailable(error) : error;
    default:
      return error;
  }
}
