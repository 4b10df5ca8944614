// Sees the long steps of a migration through after the start: the instance that runs them may be killed, or lose its
// connection. Every instance that serves the file migrates again until nothing is left.
import { setTimeout as sleep } from 'node:timers/promises';
import { migrate, type MigrateOptions, type MigrationOutcome } from '../migrate.ts';
import { CONNECTION_LOST } from '../problem.ts';

const FIRST_PAUSE_MS = 2_000;
const LONGEST_PAUSE_MS = 60_000;

/** Settles when nothing is left to do, or when `signal` says that the service ends. Never rejects. */
export async function finishBackground(
  outcome: MigrationOutcome,
  options: MigrateOptions & { readonly signal: AbortSignal },
): Promise<void> {
  const { signal, log } = options;
  let last: MigrationOutcome | 'failed' = outcome;
  for (let wait = FIRST_PAUSE_MS; await isLeft(last); wait = Math.min(2 * wait, LONGEST_PAUSE_MS)) {
    await sleep(wait, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    try {
      last = await migrate(options);
      if (last.kind === 'applied') log.info({ run: last.runId }, 'continuing what was left of the migration');
      if (last.kind === 'refused') {
        const problems = last.problems.map(({ code, at, message }) => ({ code, at, message }));
        log.error({ problems }, 'what is left of the migration is refused');
      }
    } catch (error) {
      if (signal.aborted) return;
      log.warn(
        { err: error, job: 'migration' },
        'could not continue the long steps of the migration; trying again',
      );
      last = 'failed';
    }
  }
}

async function isLeft(outcome: MigrationOutcome | 'failed'): Promise<boolean> {
  if (outcome === 'failed' || outcome.kind === 'elsewhere') return true;
  return (
    outcome.kind === 'applied' && (await outcome.background).some(({ code }) => code === CONNECTION_LOST)
  );
}
