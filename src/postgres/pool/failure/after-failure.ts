// What follows a failed attempt of a request: one table, for reads and writes, by what the wire has seen
// (docs/decisions/0084).
//
//   seen                                             read                      write
//   never sent                                       held                      held
//   rolled back   57P: the backend was stopped       again, 3 runs in all      the same
//                 26000, 42P05, a stale plan         again, without names      the same
//                 25006: no writes here              the caller's own doing    a standby? held: another host
//                 anything else                      to the caller             to the caller
//   unknown       nobody said how it ended           again, 2 runs in all      never
//
// What is held or runs again after 57P does so within `failover_wait` of its first failure. Then it is unavailable:
// nothing was done.
import { DatabaseUnavailable, failureClass, isDatabaseError, OutcomeUnknown } from '../../pg-error.ts';

export type Failure = {
  readonly error: Error;
  /** READ ONLY: it cannot have done anything. */
  readonly isRead: boolean;
  /** Runs that have failed by their connection, this one included. */
  readonly failures: number;
  /** Before the statement ran, its name turned out to stand for nothing, or for something else. */
  readonly isAboutName: boolean;
  readonly isNameless: boolean;
  /** Within `failover_wait` of the first failure. */
  readonly isInTime: boolean;
};

/** `ask`: whether that server is a standby decides. */
export type Next = 'answer' | 'again' | 'again-nameless' | 'ask';

const MOST_RUNS = { stopped: 3, unknown: 2 };

export function afterFailure(failure: Failure): Next {
  const { error, isRead, failures, isAboutName, isNameless, isInTime } = failure;
  switch (failureClass(error)) {
    case 'never-sent':
      return isInTime ? 'again' : 'answer';
    case 'unknown':
      return isRead && failures < MOST_RUNS.unknown ? 'again' : 'answer';
    case 'rolled-back':
      if (isAboutName) return isNameless ? 'answer' : 'again-nameless';
      if (isDatabaseError(error, 'shutdown')) {
        return isInTime && failures < MOST_RUNS.stopped ? 'again' : 'answer';
      }
      return isDatabaseError(error, 'read_only_sql_transaction') && !isRead && isInTime ? 'ask' : 'answer';
    default:
      return 'answer';
  }
}

/** The error that the caller gets. `isRead`: nothing of it could have remained. */
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
