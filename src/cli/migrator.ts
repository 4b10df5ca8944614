// How `dev` and `serve` bring the database in line with the file: the engine of `svc migrate`, with the policy of each.
import type { Config } from '../config/config.ts';
import type { Log } from '../log/log.ts';
import { DEV_POLICY, SERVE_POLICY } from '../migrate/apply/policy.ts';
import { checkPending } from '../migrate/commands/plan.ts';
import { stepLine } from '../migrate/commands/render.ts';
import { migrate } from '../migrate/migrate.ts';
import { finishBackground } from '../migrate/commands/finish-background.ts';
import { renderProblems } from '../migrate/problem.ts';
import type { Step } from '../migrate/plan/step.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { CommandFailure, EXIT } from './exit.ts';
import type { Terminal } from './terminal.ts';

export type MigratorOptions = {
  /** `check` changes nothing and logs what is pending. */
  readonly mode: 'dev' | 'apply' | 'check';
  readonly instance: string;
  /** Grows with every deployment, so that a restarted older instance does not migrate backwards. */
  readonly deploySeq?: number | undefined;
  readonly log: Log;
  readonly terminal: Terminal;
};

/** More lines are those of a first start, where nobody reads the list. */
const MOST_LINES = 15;

export type Migrator = (owner: OwnerDatabase, config: Config, signal: AbortSignal) => Promise<void>;

export function migrator({ mode, instance, deploySeq, log, terminal }: MigratorOptions): Migrator {
  let replaced = new AbortController();
  return async (owner, config, signal) => {
    const options = { owner, config, instance, log, signal };
    if (mode === 'check') {
      const pending = await checkPending(options);
      if (pending.kind === 'superseded')
        log.warn('this file was replaced by a newer one; serving the database as it is');
      if (pending.kind === 'pending') {
        log.warn(
          { pending: pending.words, problems: renderProblems(pending.problems) },
          'the database does not match the file; serving it as it is. Start with --migrate to apply what is pending',
        );
      }
      return;
    }
    const policy = { ...(mode === 'dev' ? DEV_POLICY : SERVE_POLICY), deploySeq: deploySeq ?? null };
    const migration = { ...options, policy };
    const outcome = await migrate(migration);
    // Under `dev` no other instance runs, and the next change of the file migrates anyway.
    if (mode === 'apply' && outcome.kind !== 'refused') {
      // Nobody finishes the long steps of the previous file any more. A refused file replaces nothing.
      replaced.abort();
      replaced = new AbortController();
      void finishBackground(outcome, { ...migration, signal: AbortSignal.any([signal, replaced.signal]) });
    }
    switch (outcome.kind) {
      case 'unchanged':
        return;
      case 'elsewhere':
        return log.info('another instance still has the long steps of the migration under way');
      case 'applied':
        // A list for a person, one line for the log of a server.
        if (mode === 'dev') return terminal.print(summarise(outcome.plan.steps));
        return log.info(
          { run: outcome.runId, steps: outcome.plan.steps.length, schema: outcome.schemaHash.slice(0, 8) },
          'migrated',
        );
      case 'superseded':
        return log.warn(
          { replacedAt: outcome.replacedAt },
          'this file was replaced by a newer one; serving without migrating',
        );
      case 'refused':
        throw new CommandFailure(
          EXIT.problem,
          `${renderProblems(outcome.problems).join('\n')}\n\n${
            outcome.begun
              ? 'The change was refused on its way: what was done before stays, and the next start goes on from there.'
              : 'The change was refused, and nothing in the database was changed.'
          }`,
        );
    }
  };
}

function summarise(steps: readonly Step[]): string {
  const line = (step: Step): string => `  ${stepLine(step)}`;
  if (steps.length <= MOST_LINES) return steps.map(line).join('\n');
  // Of many, removals still get a line each.
  const removals = steps.filter(({ sign }) => sign === '-');
  const shown = removals.slice(0, MOST_LINES).map(line);
  const more = removals.length - shown.length;
  return [
    `applied ${steps.length} changes to the database, ${removals.length} of them removals (svc migrate history lists them)`,
    ...shown,
    ...(more > 0 ? [`  … and ${more} more removals`] : []),
  ].join('\n');
}
