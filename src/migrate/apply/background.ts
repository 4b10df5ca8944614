// The steps that follow the one transaction of a migration, on a session of their own. A start waits for the first of
// them within its budget; whatever is left goes on while the server serves.
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
 * What the background does, and what its start does meanwhile.
 *
 * | state      | background                              | start                                        |
 * | ---------- | --------------------------------------- | -------------------------------------------- |
 * | locking    | opens its session, takes over the lock  | waits                                        |
 * | awaited    | runs the first steps                    | waits for them, within its budget            |
 * | detached   | still runs the first steps              | spent its budget; records that some are left |
 * | verifying  | has run every step                      | verifies and records                         |
 * | recording  | has run the first steps                 | records that some are left                   |
 * | unattended | runs what is left, verifies and records | is over                                      |
 * | failed     | is over                                 | throws the error                             |
 * | broken     | is over, with the error as its result   | is over                                      |
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
  // All steps may be done by then, but the start records that some are left: the background completes the record.
  detached: { 'first-done': 'recording', 'all-done': 'recording', recorded: 'unattended', error: 'broken' },
  verifying: { recorded: 'done', error: 'broken' },
  recording: { recorded: 'unattended', error: 'broken' },
  unattended: { finished: 'done', error: 'broken' },
  done: {},
  failed: {},
  broken: {},
} as const;

/** Events without a transition change nothing. */
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

  /** Waits until another state than these is reached. */
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
  /** Verifies and records once nothing is left. */
  readonly complete: (session: Queryable) => Promise<void>;
};

export type Background = {
  /**
   * Waits for the first steps. True when no others are left; false when some are, or when the time is up. Throws what a
   * step threw meanwhile.
   */
  firstDoneWithin(ms: number): Promise<boolean>;
  /** The start has recorded what is done so far; from here on the background records for itself. */
  recorded(): void;
  /** What went wrong after the start was over. Never rejects. */
  readonly result: Promise<readonly MigrationProblem[]>;
};

/** Returns once the lock has moved to the background's session. */
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
      if (state === 'detached') log.info('long steps of the migration go on in the background');
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
  const { steps, settings, log, signal } = work;
  const first = steps.filter(({ step }) => step.lane === 'online' || step.lane === 'concurrent');
  const late = steps.filter((one) => !first.includes(one));
  await endWithClient(session);
  await work.lock.moveTo(session);
  progress.send('locked');
  for (const one of first) await executeOnline(session, one, settings);
  await endBackfills(session, first);
  progress.send(late.length === 0 ? 'all-done' : 'first-done');
  if ((await progress.after('verifying', 'recording')) === 'done') return [];
  const problems = await runLate(session, late, work);
  if (problems.length === 0) await endBackfills(session, late);
  if (signal?.aborted) return problems;
  if (problems.length === 0) await work.complete(session);
  for (const one of problems) log.error({ code: one.code, at: one.place ?? one.at }, one.message);
  return problems;
}

function report(error: unknown, { log, signal, locate }: BackgroundWork): readonly MigrationProblem[] {
  if (signal?.aborted) return [];
  log.error({ err: error, job: 'migration' }, 'background work of the migration failed');
  if (error instanceof MigrationRefused) return locate(error.problems);
  const code = error instanceof Problem ? 'MIG-501' : CONNECTION_LOST;
  return [problem(code, 'background', error instanceof Error ? error.message : String(error))];
}

/** A refused step does not keep the others from being done, unless they depend on it. */
async function runLate(
  session: Queryable,
  steps: readonly NumberedStep[],
  { settings, signal, locate }: BackgroundWork,
): Promise<MigrationProblem[]> {
  const problems: MigrationProblem[] = [];
  const cutovers = steps.filter(({ step }) => step.lane === 'cutover');
  let mayCutOver = true;
  for (const one of steps) {
    const { lane, deferred } = one.step;
    if (signal?.aborted) break;
    // Without every shadow column there is no cutover, and the steps after it have nothing to work on.
    if ((deferred || lane === 'shadow') && !mayCutOver) continue;
    // One transaction for all of them, which the first one stands for.
    if (lane === 'cutover' && one !== cutovers[0]) continue;
    try {
      if (lane === 'cutover') {
        await executeMetadata(session, cutovers, settings, async () => {});
        await announceSchema(session);
      } else await executeOnline(session, one, settings);
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
 * A session that waits for a lock does not notice that its client is gone, and would keep its place in the queue. Servers
 * on systems that cannot check refuse the setting; there the session ends as late as by default.
 */
async function endWithClient(session: Queryable): Promise<void> {
  await session.query(raw(`set client_connection_check_interval = '1s'`)).catch((error: unknown) => {
    if (!isDatabaseError(error)) throw error;
  });
}

/** A concurrent index build can only be ended from another session. */
async function cancelOnAbort(
  session: Queryable,
  { owner, signal, log }: BackgroundWork,
): Promise<() => void> {
  const [row] = await session.query<{ pid: number }>(raw('select pg_backend_pid() as pid'));
  const pid = row?.pid;
  if (signal === undefined || pid === undefined) return () => {};
  const cancel = (): void => {
    owner.query(sql`select pg_cancel_backend(${pid})`).catch((error: unknown) => {
      log.warn({ err: error }, 'could not end background work; it ends with its connection');
    });
  };
  signal.addEventListener('abort', cancel, { once: true });
  return () => signal.removeEventListener('abort', cancel);
}
