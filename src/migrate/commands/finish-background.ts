// Completes the long steps of a migration after the start. The instance that runs them may be killed or lose its
// connection, so every instance that serves the file migrates again until no steps remain.
import { setTimeout as sleep } from 'node:timers/promises';
import { Backoff } from '../../lib/limits/backoff.ts';
import { migrate, type MigrateOptions, type MigrationOutcome } from '../migrate.ts';
import { CONNECTION_LOST } from '../problem.ts';

/** Migrates again until no steps remain or `signal` is aborted. Never rejects. */
export async function finishBackground(
  outcome: MigrationOutcome,
  options: MigrateOptions & { readonly signal: AbortSignal },
): Promise<void> {
  const { signal, log } = options;
  let last: MigrationOutcome | 'failed' = outcome;
  const backoff = new Backoff({ minMs: 2_000, maxMs: 60_000 });
  while (await isLeft(last)) {
    await sleep(backoff.next(), undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    try {
      last = await migrate(options);
      if (last.kind === 'applied')
        log.info({ run: last.runId }, 'continuing the remaining steps of the migration');
      if (last.kind === 'refused') {
        const problems = last.problems.map(({ code, at, message }) => ({ code, at, message }));
        log.error({ problems }, 'the remaining steps of the migration are refused');
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
