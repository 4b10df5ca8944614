// Migrates the database for `dev` and `serve`, with the engine of `svc migrate` and the policy of each
// command.
import type { Config } from '../../config/config.ts';
import type { Log } from '../../log/log.ts';
import type { Source } from '../../config/read/source.ts';
import { DEV_POLICY, type MigrationPolicy } from '../../migrate/apply/policy.ts';
import { checkPending } from '../../migrate/commands/plan.ts';
import { stepLine } from '../../migrate/commands/render.ts';
import { migrate } from '../../migrate/migrate.ts';
import { finishBackground } from '../../migrate/commands/finish-background.ts';
import { digestConfig } from '../../migrate/state/config-digest.ts';
import { supersededReport, type Superseded } from '../../migrate/state/superseded.ts';
import { readSuperseded, SupersededWatch } from '../../migrate/commands/superseded-watch.ts';
import { renderProblems } from '../../migrate/problem.ts';
import type { Step } from '../../migrate/plan/step.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { CommandFailure, EXIT, failure } from '../exit.ts';
import type { Terminal } from '../terminal.ts';

export type MigratorOptions = {
  /** `check` changes nothing and logs pending changes. */
  readonly mode: 'dev' | 'apply' | 'check';
  readonly instance: string;
  /** Returns which files may replace which. Called for every file. */
  readonly fence?: ((source: Source) => Partial<MigrationPolicy>) | undefined;
  readonly watch?: SupersededWatch | undefined;
  /** Called with the number of schema changes of the file that are not applied. */
  readonly onPending?: ((changes: number) => void) | undefined;
  /** How to handle a file that another one has replaced: serve the database unchanged, or refuse to start. */
  readonly superseded?: 'serve' | 'refuse' | undefined;
  readonly log: Log;
  readonly terminal: Terminal;
};

/** Maximum number of printed lines. Only a first start has more, and its list is not useful. */
const MAX_LINES = 15;

export type Migrator = (owner: OwnerDatabase, config: Config, signal: AbortSignal) => Promise<void>;

export function migrator(options: MigratorOptions): Migrator {
  const { mode, instance, fence, watch = new SupersededWatch(), log, terminal } = options;
  let replaced = new AbortController();
  /** Hash of the last file that this process applied. */
  let served: string | null = null;
  return async (owner, config, signal) => {
    const policy: Partial<MigrationPolicy> =
      mode === 'dev' ? DEV_POLICY : { replaces: served, ...fence?.(config.source) };
    const migration = { owner, config, instance, log, signal, policy };
    if (mode === 'check') {
      const pending = await checkPending(migration);
      options.onPending?.(pending.kind === 'in-sync' ? 0 : Math.max(1, pending.words.length));
      if (pending.kind === 'superseded') return reportSuperseded(pending.superseded, pending.words);
      watch.clear();
      if (pending.kind === 'in-sync') served = digestConfig(config).hash;
      if (pending.kind === 'pending') {
        log.warn(
          { pending: pending.words, problems: renderProblems(pending.problems) },
          'the database does not match the file and is served unchanged. Start with --migrate to apply pending changes',
        );
      }
      return;
    }
    const outcome = await migrate(migration);
    // Under `dev` no other instance runs, and the next change of the file migrates anyway.
    if (mode === 'apply' && outcome.kind !== 'refused') {
      // The long steps of the previous file are obsolete now. A refused file replaces nothing.
      replaced.abort();
      replaced = new AbortController();
      void finishBackground(outcome, { ...migration, signal: AbortSignal.any([signal, replaced.signal]) });
    }
    if (outcome.kind === 'superseded') {
      const pending = await checkPending(migration);
      const words = pending.kind === 'in-sync' ? [] : pending.words;
      options.onPending?.(words.length);
      return reportSuperseded(outcome.superseded, words);
    }
    if (outcome.kind !== 'refused') {
      options.onPending?.(0);
      watch.clear();
      served = outcome.schemaHash;
    }
    switch (outcome.kind) {
      case 'unchanged':
        return;
      case 'elsewhere':
        return log.info('another instance is still running the long steps of the migration');
      case 'applied':
        // Prints a list for a person, and one line in the log of a server.
        if (mode === 'dev') return terminal.print(summarise(outcome.plan.steps));
        return log.info(
          { run: outcome.runId, steps: outcome.plan.steps.length, schema: outcome.schemaHash.slice(0, 8) },
          'migrated',
        );
      case 'refused':
        throw new CommandFailure(
          EXIT.problem,
          `${renderProblems(outcome.problems).join('\n')}\n\n${
            outcome.begun
              ? 'The change was refused after some steps. ' +
                'Completed steps are kept, and the next start continues from there.'
              : 'The change was refused, and the database was not changed.'
          }`,
        );
    }

    function reportSuperseded(superseded: Superseded, words: readonly string[]): void {
      const report = supersededReport(superseded, words);
      if (options.superseded === 'refuse') {
        const { message, hint, differs } = report;
        throw failure(EXIT.problem, [message, ...differs].join('\n  '), hint);
      }
      watch.found(report, () => readSuperseded(owner, config, policy), { log, signal });
    }
  };
}

function summarise(steps: readonly Step[]): string {
  const line = (step: Step): string => `  ${stepLine(step)}`;
  if (steps.length <= MAX_LINES) return steps.map(line).join('\n');
  // A long list still shows the removals.
  const removals = steps.filter(({ sign }) => sign === '-');
  const shown = removals.slice(0, MAX_LINES).map(line);
  const more = removals.length - shown.length;
  return [
    `applied ${steps.length} changes to the database, ` +
      `${removals.length} of them removals (svc migrate history lists them)`,
    ...shown,
    ...(more > 0 ? [`  … and ${more} more removals`] : []),
  ].join('\n');
}
