// States of a delivery, and the transitions at the end of an attempt.

/** `dead`: no attempt follows. `skipped`: there was none, because of `overlap` or `missed`. */
export const DELIVERY_STATES = ['waiting', 'running', 'done', 'dead', 'skipped'] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/**
 * `done`, `failed`: the target has answered. `rejected`: it failed, and further attempts are useless. `lost`: the
 * instance ended during the attempt. `returned`: the attempt did not begin, or a shutdown interrupted it.
 */
export type Outcome = 'done' | 'failed' | 'rejected' | 'lost' | 'returned';

export type Progress = {
  /** Attempts that began, including the current one. */
  readonly attempts: number;
  /** Attempts that failed before the current one. */
  readonly failures: number;
  /** Attempts that can follow a failure. */
  readonly retries: number;
};

export type Transition = {
  readonly state: Extract<DeliveryState, 'waiting' | 'done' | 'dead'>;
  /** Pause before the next attempt. */
  readonly pauseMs: number;
  readonly attempts: number;
  readonly failures: number;
};

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const PAUSES_MS = [
  5 * SECOND,
  15 * SECOND,
  MINUTE,
  5 * MINUTE,
  15 * MINUTE,
  HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
];
/** A target that ends its instance must not do so for ever. */
export const MAX_LOSSES = 5;
/** Pause after an attempt that did not begin, for example because all workers were busy. */
const RETURN_PAUSE_MS = 2 * SECOND;

/** Whether no attempt follows if the current one fails. */
export function isLastAttempt({ failures, retries }: Progress): boolean {
  return failures >= retries;
}

/** `factor` spreads the pauses of many deliveries, from 0.8 to 1.2. */
export function afterAttempt(progress: Progress, outcome: Outcome, factor = 1): Transition {
  const { attempts, failures } = progress;
  const waiting = (pauseMs: number, counts = { attempts, failures }): Transition => ({
    state: 'waiting',
    pauseMs: Math.round(pauseMs * factor),
    ...counts,
  });
  const ended = (state: 'done' | 'dead', failed: number): Transition => ({
    state,
    pauseMs: 0,
    attempts,
    failures: failures + failed,
  });
  switch (outcome) {
    case 'done':
      return ended('done', 0);
    case 'rejected':
      return ended('dead', 1);
    case 'failed':
      if (isLastAttempt(progress)) return ended('dead', 1);
      return waiting(PAUSES_MS[failures] ?? 12 * HOUR, { attempts, failures: failures + 1 });
    case 'lost':
      return attempts - failures >= MAX_LOSSES ? ended('dead', 0) : waiting(0);
    case 'returned':
      return waiting(RETURN_PAUSE_MS, { attempts: attempts - 1, failures });
  }
}
