// Exit codes of `svc migrate`, for deploy scripts; documented in docs/migrations.md.
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

/** `begun`: refused on its way, after something was done. */
export function refusal(problems: readonly MigrationProblem[], begun = false): CommandFailure {
  const state = begun
    ? 'What was done before stays; svc migrate status says what is left. Resolve what is refused and run it again: it goes on from there.'
    : 'Nothing was changed.';
  return new CommandFailure(
    exitCodeOf(problems),
    `${renderProblems(problems).join('\n')}\n\n${state}`,
    undefined,
    asJsonProblems(problems),
  );
}

export function exitCodeOf(problems: readonly MigrationProblem[]): number {
  const codes = problems.map((one) => one.code);
  if (codes.includes('ADO-301') || codes.includes('MIG-118')) return MIGRATE_EXIT.unreachable;
  if (codes.some((code) => ['MIG-101', 'MIG-207', 'MIG-603'].includes(code))) return MIGRATE_EXIT.invalid;
  if (codes.some((code) => code.startsWith('MIG-20') || code === 'MIG-601')) return MIGRATE_EXIT.data;
  if (codes.includes('MIG-401') || codes.includes('MIG-402')) return MIGRATE_EXIT.busy;
  return MIGRATE_EXIT.refused;
}
