// Exit codes of `svc migrate` for deploy scripts. docs/migrations.md documents them.
import { type MigrationProblem, renderProblems } from '../../migrate/problem.ts';
import { CommandFailure } from '../exit.ts';
import { asJsonProblems } from './results.ts';

export const MIGRATE_EXIT = {
  pending: 2,
  refused: 3,
  drift: 4,
  busy: 5,
  data: 6,
  invalid: 7,
  unreachable: 8,
} as const;

/** Returns the failure. `begun`: the migration was refused after some steps had run. */
export function refusal(problems: readonly MigrationProblem[], begun = false): CommandFailure {
  const state = begun
    ? 'Completed steps are kept. Run svc migrate status to list the remaining steps. ' +
      'Resolve the problems and run it again to continue.'
    : 'Nothing was changed.';
  return new CommandFailure(
    migrateExitCode(problems),
    `${renderProblems(problems).join('\n')}\n\n${state}`,
    undefined,
    asJsonProblems(problems),
  );
}

export function migrateExitCode(problems: readonly MigrationProblem[]): number {
  const codes = problems.map(({ code }) => code);
  if (codes.includes('ADO-301') || codes.includes('MIG-118')) return MIGRATE_EXIT.unreachable;
  if (codes.some((code) => ['MIG-101', 'MIG-207', 'MIG-603'].includes(code))) return MIGRATE_EXIT.invalid;
  if (codes.some((code) => code.startsWith('MIG-20') || code === 'MIG-601')) return MIGRATE_EXIT.data;
  if (codes.includes('MIG-401') || codes.includes('MIG-402')) return MIGRATE_EXIT.busy;
  return MIGRATE_EXIT.refused;
}
