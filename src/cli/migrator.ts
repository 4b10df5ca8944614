// How `dev` and `serve` bring the database in line with the file: the engine of `svc migrate`, with the policy of each.
import type { Config } from '../config/config.ts';
import type { Log } from '../log/log.ts';
import type { Source } from '../config/read/source.ts';
import { DEV_POLICY, type MigrationPolicy } from '../migrate/apply/policy.ts';
import { checkPending } from '../migrate/commands/plan.ts';
import { stepLine } from '../migrate/commands/render.ts';
import { migrate } from '../migrate/migrate.ts';
import { finishBackground } from '../migrate/commands/finish-background.ts';
import { digestConfig } from '../migrate/state/config-digest.ts';
import { supersededReport, type Superseded } from '../migrate/state/superseded.ts';
import { readSuperseded, SupersededWatch } from '../migrate/commands/superseded-watch.ts';
import { renderProblems } from '../migrate/problem.ts';
import type { Step } from '../migrate/plan/step.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { CommandFailure, EXIT, failure } from './exit.ts';
import type { Terminal } from './terminal.ts';

export type MigratorOptions = {
  /** `check` changes nothing and logs what is pending. */
  readonly mode: 'dev' | 'apply' | 'check';
  readonly instance: string;
  /** Which files may be applied over which; asked again for every file. */
  readonly fence?: ((source: Source) => Partial<MigrationPolicy>) | undefined;
  readonly watch?: SupersededWatch | undefined;
  /** Told how many changes of the schema a file asks for that are not applied. */
  readonly onPending?: ((changes: number) => void) | undefined;
  /** A file that another one has replaced: the database is served as it is, or the start ends. */
  readonly superseded?: 'serve' | 'refuse' | undefined;
  readonly log: Log;
  readonly terminal: Terminal;
};

/** More lines are those of a first start, where nobody reads the list. */
const MOST_LINES = 15;

export type Migrator = (owner: OwnerDatabase, config: Config, signal: AbortSignal) => Promise<void>;

export function migrator(options: MigratorOptions): Migrator {
  const { mode, instance, fence, watch = new SupersededWatch(), log, terminal } = options;
  let replaced = new AbortController();
  /** Hash of the file that the database follows because of us. */
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
          'the database does not match the file; serving it as it is. Start with --migrate to apply what is pending',
        );
      }
      return;
    }
    const outcome = await migrate(migration);
    // Under `dev` no other instance runs, and the next change of the file migrates anyway.
    if (mode === 'apply' && outcome.kind !== 'refused') {
      // Nobody finishes the long steps of the previous file any more. A refused file replaces nothing.
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
        return log.info('another instance still has the long steps of the migration under way');
      case 'applied':
        // A list for a person, one line for the log of a server.
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
              ? 'The change was refused on its way: what was done before stays, and the next start goes on from there.'
              : 'The change was refused, and nothing in the database was changed.'
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
