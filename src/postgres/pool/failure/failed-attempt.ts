// Counts a failed attempt of a job and looks up the reaction.
import { failureClass, isDatabaseError } from '../../pg-error.ts';
import { afterFailure, type Next } from './after-failure.ts';
import type { Attempt } from '../pooled-connection.ts';

/** Maximum number of attempts for any failures: a job that keeps losing its connections may be the reason. */
export const MAX_ATTEMPTS = 4;

/** Whether the connection failed, rather than the statement. */
function isOfConnection(error: Error): boolean {
  const kind = failureClass(error);
  return kind === 'rolled-back' ? isDatabaseError(error, 'shutdown') : kind !== undefined;
}

export function nextAfter(attempt: Attempt, error: Error, failoverWaitMs: number): Next {
  const { job, connection, isCancelled, batch } = attempt;
  if (!job.isWanted || isCancelled) return 'answer';
  const now = performance.now();
  if (isOfConnection(error)) {
    if (job.failingSince === 0) job.failingSince = now;
    if (countsAgainst(attempt, error)) job.failures += 1;
    // Another attempt, of a hedged read, may still succeed.
    if (job.isRunning) return 'again';
    // Delivered rows cannot be revoked.
    if (job.onRestart === null && batch?.isSent === true) return 'answer';
  } else if (job.isPipelinable && connection.wasCancelled && isDatabaseError(error, 'query_canceled')) {
    // A cancel for another statement hit this one.
    return job.attempts < MAX_ATTEMPTS ? 'again' : 'answer';
  }
  const next = afterFailure({
    error,
    isRead: job.isRead,
    failures: job.failures,
    isAboutName: batch?.lostName === true || batch?.hasStalePlan === true,
    isNameless: attempt.isNameless,
    isInTime: job.failingSince === 0 || now - job.failingSince < failoverWaitMs,
  });
  if (next === 'again-nameless') job.isNameless = true;
  return next;
}

/**
 * Whether the failure concerns this job. It does not if the job's turn had not come, or the connection was dead
 * already.
 */
function countsAgainst({ job, connection, startedAt, batch }: Attempt, error: Error): boolean {
  if (failureClass(error) === 'never-sent') return false;
  if (job.attempts >= MAX_ATTEMPTS) return true;
  return startedAt > 0 && ((batch?.bound ?? 0) > 0 || connection.openedAt > job.failingSince);
}
