// Runs the steps that follow the main transaction of a migration, on a separate session. The start waits for the first
// of these steps within its budget. The remaining steps run while the server handles requests.
import type { Log } from '../../log/log.ts';
import type { OwnerDatabase, Queryable } from '../../postgres/owner-database.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';
import { raw, sql } from '../../postgres/sql.ts';
import type { MigrationLock } from '../locks.ts';
import type { NumberedStep } from '../plan/step.ts';
import { CONNECTION_LOST, MigrationRefused, problem, type MigrationProblem } from '../problem.ts';
import { Problem } from '../../problem/problem.ts';
import { announceSchema } from '../state/applied-state.ts';
import { clearBackfills } from '../state/managed-objects.ts';
import { executeMetadata, executeOnline } from './execute.ts';
import type { ExecuteSettings } from './settings.ts';

/**
 * States of the background session and of the start that waits for it.
 *
 * | state      | background                                  | start                                         |
 * | ---------- | ------------------------------------------- | --------------------------------------------- |
 * | locking    | opens its session, acquires the lock        | waits                                         |
 * | awaited    | runs the first steps                        | waits for the first steps, within its budget  |
 * | detached   | still runs the first steps                  | has spent its budget; records remaining steps |
 * | verifying  | has run every step                          | verifies and records                          |
 * | recording  | has run the first steps                     | records remaining steps                       |
 * | unattended | runs remaining steps, verifies and records  | has finished                                  |
 * | failed     | has finished                                | throws the error                              |
 * | broken     | has finished, with the error as its result  | has finished                                  |
 */
export type BackgroundState = keyof typeof TRANSITIONS;
export type BackgroundEvent =
  | 'locked'
  | 'first-done'
  | 'all-done'
  | 'budget-spent'
  | 'recorded'
  | 'finished'
  | 'error';

export const TRANSITIONS = {
  locking: { locked: 'awaited', error: 'failed' },
  awaited: {
    'first-done': 'recording',
    'all-done': 'verifying',
    'budget-spent': 'detached',
    error: 'failed',
  },
  // All steps may be done, but the start still records remaining steps. The background completes the record.
  detached: { 'first-done': 'recording', 'all-done': 'recording', recorded: 'unattended', error: 'broken' },
  verifying: { recorded: 'done', error: 'broken' },
  recording: { recorded: 'unattended', error: 'broken' },
  unattended: { finished: 'done', error: 'broken' },
  done: {},
  failed: {},
  broken: {},
} as const;

/** Returns the same state for an event without a transition. */
export function nextState(state: BackgroundState, event: BackgroundEvent): BackgroundState {
  const transitions: Partial<Record<BackgroundEvent, BackgroundState>> = TRANSITIONS[state];
  return transitions[event] ?? state;
}

class Progress {
  #state: BackgroundState = 'locking';
  #waiting: (() => void)[] = [];

  get state(): BackgroundState {
    return this.#state;
  }

  send(event: BackgroundEvent): void {
    this.#state = nextState(this.#state, event);
    for (const wake of this.#waiting.splice(0)) wake();
  }

  /** Waits for a state other than `states` and returns it. */
  async after(...states: readonly BackgroundState[]): Promise<BackgroundState> {
    while (states.includes(this.#state)) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return this.#state;
  }
}

export type BackgroundWork = {
  readonly owner: OwnerDatabase;
  readonly lock: MigrationLock;
  readonly steps: readonly NumberedStep[];
  readonly settings: ExecuteSettings;
  readonly log: Log;
  readonly signal: AbortSignal | undefined;
  readonly locate: (problems: readonly MigrationProblem[]) => readonly MigrationProblem[];
  /** Verifies and records the migration after the last step. */
  readonly complete: (session: Queryable) => Promise<void>;
};

export type Background = {
  /**
   * Waits for the first steps. Returns true if no steps remain, and false if steps remain or the time is up. Throws the
   * error of a failed step.
   */
  firstDoneWithin(ms: number): Promise<boolean>;
  /** Reports that the start has recorded the completed steps. From here on the background records its own progress. */
  recorded(): void;
  /** Problems that occurred after the start had finished. Never rejects. */
  readonly result: Promise<readonly MigrationProblem[]>;
};

/** Starts the background session and returns after it has acquired the lock. */
export async function startBackground(work: BackgroundWork): Promise<Background> {
  const { log } = work;
  const progress = new Progress();
  let failure: unknown;
  const result = work.owner
    .session(async (session) => {
      const stopCancelling = await cancelOnAbort(session, work);
      const problems = await run(session, work, progress).finally(stopCancelling);
      progress.send('finished');
      return problems;
    })
    .catch((error: unknown) => {
      failure = error;
      progress.send('error');
      return progress.state === 'failed' ? [] : report(error, work);
    });
  await progress.after('locking');
  return {
    async firstDoneWithin(ms) {
      const timer = setTimeout(() => progress.send('budget-spent'), ms);
      const state = await progress.after('awaited').finally(() => clearTimeout(timer));
      if (state === 'failed') throw failure;
      if (state === 'detached') log.info('long steps of the migration continue in the background');
      return state === 'verifying';
    },
    recorded: () => progress.send('recorded'),
    result,
  };
}

async function run(
  session: Queryable,
  work: BackgroundWork,
  progress: Progress,
): Promise<readonly MigrationProblem[]> {
  const { steps, log, signal } = work;
  const settings = { ...work.settings, signal };
  const first = steps.filter(({ step }) => step.lane === 'online' || step.lane === 'concurrent');
  const late = steps.filter((step) => !first.includes(step));
  await endWithClient(session);
  await work.lock.moveTo(session);
  progress.send('locked');
  for (const step of first) await executeOnline(session, step, settings);
  await endBackfills(session, first);
  progress.send(late.length === 0 ? 'all-done' : 'first-done');
  if ((await progress.after('verifying', 'recording')) === 'done') return [];
  const problems = await runLate(session, late, { ...work, settings });
  if (problems.length === 0) await endBackfills(session, late);
  if (signal?.aborted) return problems;
  if (problems.length === 0) await work.complete(session);
  for (const problem of problems)
    log.error({ code: problem.code, at: problem.place ?? problem.at }, problem.message);
  return problems;
}

function report(error: unknown, { log, signal, locate }: BackgroundWork): readonly MigrationProblem[] {
  if (signal?.aborted) return [];
  log.error({ err: error, job: 'migration' }, 'background work of the migration failed');
  if (error instanceof MigrationRefused) return locate(error.problems);
  const code = error instanceof Problem ? 'MIG-501' : CONNECTION_LOST;
  return [problem(code, 'background', error instanceof Error ? error.message : String(error))];
}

/** Runs the remaining steps. A rejected step skips only the steps that depend on it. */
async function runLate(
  session: Queryable,
  steps: readonly NumberedStep[],
  { settings, signal, locate }: BackgroundWork,
): Promise<MigrationProblem[]> {
  const problems: MigrationProblem[] = [];
  const cutovers = steps.filter(({ step }) => step.lane === 'cutover');
  let mayCutOver = true;
  for (const step of steps) {
    const { lane, deferred } = step.step;
    if (signal?.aborted) break;
    // The cutover needs every shadow column, and deferred steps need the cutover.
    if ((deferred || lane === 'shadow') && !mayCutOver) continue;
    // All cutover steps run in one transaction, together with the first of them.
    if (lane === 'cutover' && step !== cutovers[0]) continue;
    try {
      if (lane === 'cutover') {
        await executeMetadata(session, cutovers, settings, async () => {});
        await announceSchema(session);
      } else await executeOnline(session, step, settings);
    } catch (error) {
      if (!(error instanceof MigrationRefused)) throw error;
      problems.push(...locate(error.problems));
      if (lane === 'shadow' || lane === 'cutover') mayCutOver = false;
    }
  }
  return problems;
}

async function endBackfills(session: Queryable, steps: readonly NumberedStep[]): Promise<void> {
  const filled = steps.flatMap(({ step: { action, lane } }) =>
    action.kind === 'backfill' && lane !== 'shadow' ? [`table ${action.schema}.${action.table}`] : [],
  );
  if (filled.length > 0) await clearBackfills(session, filled);
}

/**
 * Makes the server detect a disconnected client. Otherwise a session that waits for a lock keeps its place in the queue
 * after its client has gone. Servers on systems without support reject the setting and keep their default.
 */
async function endWithClient(session: Queryable): Promise<void> {
  await session.query(raw(`set client_connection_check_interval = '1s'`)).catch((error: unknown) => {
    if (!isDatabaseError(error)) throw error;
  });
}

/** Cancels the running statement on abort, from another session: nothing else can stop a concurrent index build. */
async function cancelOnAbort(
  session: Queryable,
  { owner, signal, log }: BackgroundWork,
): Promise<() => void> {
  const [row] = await session.query<{ pid: number }>(raw('select pg_backend_pid() as pid'));
  const pid = row?.pid;
  if (signal === undefined || pid === undefined) return () => {};
  const cancel = (): void => {
    owner.query(sql`select pg_cancel_backend(${pid})`).catch((error: unknown) => {
      log.warn({ err: error }, 'could not cancel background work; it stops when its connection closes');
    });
  };
  signal.addEventListener('abort', cancel, { once: true });
  return () => signal.removeEventListener('abort', cancel);
}
