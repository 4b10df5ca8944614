// Refuses the hazards that the policy of a run does not allow. One refusal stops the whole plan before its first
// statement.
import type { Change } from '../diff/change.ts';
import type { LiveTable } from '../schema/live-schema.ts';
import { estimateRows, isSmall, type PlanSettings, REWRITE_ROWS_PER_MS } from '../plan/step-list.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import { count } from './duplicates.ts';
import { type HazardPolicy, isAllowed } from '../plan/hazard-policy.ts';
import { removalOf } from '../plan/removal.ts';
import type { Step } from '../plan/step.ts';

export function refuseHazards(
  steps: readonly Step[],
  changes: readonly Change[],
  /** Why a type change must take the lock after all. */
  inTheWay: ReadonlyMap<string, readonly string[]>,
  /** What would go with removed tables and columns, by identity. */
  values: ReadonlyMap<string, number>,
  settings: PlanSettings,
  policy: HazardPolicy,
): MigrationProblem[] {
  const problems: MigrationProblem[] = [];
  const tables = new Map<string, LiveTable>(
    changes.flatMap((change) =>
      'live' in change && change.live && 'columns' in change.live
        ? [[`${change.live.schema}.${change.live.name}`, change.live] as const]
        : [],
    ),
  );
  for (const step of steps) {
    const live = step.table === null ? undefined : tables.get(step.table);
    if (step.hazards.includes('AUTHZ_OPEN') && !isAllowed(policy, 'authz_open', step.identity)) {
      problems.push(openTable(step, live));
    }
    if (
      step.rewrites &&
      !isSmall(live ?? null, REWRITE_ROWS_PER_MS, settings) &&
      !isAllowed(policy, 'rewrite', step.identity)
    ) {
      problems.push(rewritesTable(step, live, inTheWay.get(step.identity) ?? []));
    }
    const breaks = step.hazards.includes('BREAKS_OLD_CODE');
    if (breaks && policy.strictRollout) {
      problems.push(
        problem(
          'MIG-302',
          step.at,
          `${step.summary} may break replicas that still run the previous file`,
          'Deploy without --strict-rollout to accept that.',
        ),
      );
    }
    const removed = step.sign === '-' && /retired/.test(step.summary);
    if (removed && policy.drop === 'refuse') {
      problems.push(
        problem(
          'MIG-302',
          step.at,
          `${step.summary}: removals are refused`,
          'Put it back, or run with --drop=retire.',
        ),
      );
    }
  }
  for (const change of changes) problems.push(...lostKey(change));
  if (policy.drop === 'drop') {
    for (const change of changes) problems.push(...lostValues(change, values, policy));
  }
  return problems;
}

function openTable(step: Step, live: LiveTable | undefined): MigrationProblem {
  const policies = live?.policies.length ?? 0;
  const rows = live ? count(Math.round(estimateRows(live))) : 'its';
  return problem(
    'MIG-303',
    `${step.at}.rls`,
    `row-level security is on with ${policies} ${policies === 1 ? 'policy' : 'policies'} and about ${rows} rows; removing rls would open it to every key holder`,
    `Put rls back, or allow it by name: --allow authz_open=${step.identity}`,
  );
}

function rewritesTable(
  step: Step,
  live: LiveTable | undefined,
  reasons: readonly string[],
): MigrationProblem {
  const rows = live
    ? `${count(Math.round(estimateRows(live)))} rows, ${count(Math.round(live.bytes / 1_000_000))} MB`
    : '';
  return problem(
    'MIG-301',
    step.at,
    `${step.summary} would hold ACCESS EXCLUSIVE for about ${count(Math.ceil(step.estimateMs / 1_000))} s while the table is rewritten (${rows})${reasons.length === 0 ? '' : `; it cannot be done online, because ${reasons.join(', and ')}`}`,
    `${reasons.length === 0 ? 'Run' : 'Take that away first, or run'} it in a quiet hour with --allow rewrite=${step.identity}`,
  );
}

function lostValues(
  change: Change,
  values: ReadonlyMap<string, number>,
  policy: HazardPolicy,
): MigrationProblem[] {
  if (change.kind !== 'retire-table' && change.kind !== 'retire-column') return [];
  const { identity, at, what } = removalOf(change);
  if (change.kind === 'retire-column' && change.table.model.protect) {
    return [problem('MIG-302', at, `${what} dropped: the table is protected`, 'Remove protect: true first.')];
  }
  const held = values.get(identity) ?? 0;
  if (held === 0 || isAllowed(policy, 'data_loss', identity)) return [];
  return [
    problem(
      'MIG-302',
      at,
      `${what} dropped: it holds ${count(held)} ${change.kind === 'retire-table' ? 'rows' : 'values'}`,
      `If that is meant: --allow data_loss=${identity}. With drop: retire it is kept out of sight.`,
    ),
  ];
}

// Without its key column a table has no identity any more: nobody removes that by accident and is glad.
function lostKey(change: Change): MigrationProblem[] {
  if (change.kind !== 'retire-column') return [];
  const key = change.live?.keys.find((one) => one.kind === 'primary');
  const declared = change.table.keys.some((one) => one.kind === 'primary');
  if (declared || !key?.columns.includes(change.liveColumn.name)) return [];
  return [
    problem(
      'MIG-305',
      change.table.at,
      `${change.liveColumn.name} is part of the primary key and was removed from the file`,
      'Declare another primary_key, or put the column back.',
    ),
  ];
}
