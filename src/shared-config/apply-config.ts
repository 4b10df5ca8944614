// Applies a file to all instances, for `svc config push` and `rollback`, `serve --initial-config` and a save in the
// dashboard. The schema and the row change in one transaction. An interruption before its commit leaves only an entry
// in the history. An interruption after it leaves long steps that any instance continues.
import type { Config } from '../config/config.ts';
import { migrate, type MigrateOptions, type MigrationOutcome } from '../migrate/migrate.ts';
import type { MigrationProblem } from '../migrate/problem.ts';
import { renderProblems } from '../migrate/problem.ts';
import { Problem } from '../problem/problem.ts';
import {
  assertBase,
  sha256Hex,
  markApplied,
  markRefused,
  propose,
  readApplied,
  readRow,
  type ConfigRow,
  type Proposal,
} from './config-rows.ts';

export type ConfigOutcome =
  /** The file is already applied. */
  | { readonly kind: 'same'; readonly row: ConfigRow }
  /** `migration` may still have steps under way; `problems` are of those that failed after the row was applied. */
  | {
      readonly kind: 'applied';
      readonly row: ConfigRow;
      readonly migration: MigrationOutcome;
      readonly problems: readonly MigrationProblem[];
    }
  | { readonly kind: 'refused'; readonly row: ConfigRow; readonly problems: readonly MigrationProblem[] };

/**
 * `config` is the proposal's text, checked. Throws `config_conflict` when `base` is not the applied row any more.
 */
export async function applyConfig(
  proposal: Proposal,
  config: Config,
  options: Omit<MigrateOptions, 'config' | 'record'>,
): Promise<ConfigOutcome> {
  const { owner } = options;
  const { base, text } = proposal;
  if (base !== undefined) await assertBase(owner, base, text);
  const current = await readApplied(owner);
  if (current?.hash === sha256Hex(text)) return { kind: 'same', row: current };
  const row = await propose(owner, proposal);
  try {
    const migration = await migrate({
      ...options,
      config,
      // The row number orders deployments. A rollback is always an explicit request.
      policy: { ...options.policy, deploySeq: row.sequence, allowRollback: true },
      record: (transaction) => markApplied(transaction, row, base),
    });
    const settled = (await readRow(owner, row.id)) ?? row;
    const problems = migration.kind === 'refused' ? migration.problems : [];
    if (settled.state !== 'proposed') return { kind: 'applied', row: settled, migration, problems };
    await markRefused(owner, row.id, renderProblems(problems).join('\n'));
    return { kind: 'refused', row, problems };
  } catch (error) {
    // Record the reason only if the database still answers. An unfinished proposal does no harm.
    const reason =
      error instanceof Problem ? error.message : 'it failed; see the log of the process that applied it';
    await markRefused(owner, row.id, reason).catch(() => {});
    throw error;
  }
}
