// Refuses the hazards that the policy of a run does not allow. One refusal stops the whole plan before its first
// statement.
import type { Change } from '../diff/change.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { keyOf } from '../schema/model.ts';
import {
  BUILD_ROWS_PER_MS,
  estimateRows,
  isSmall,
  type PlanSettings,
  REWRITE_ROWS_PER_MS,
  SCAN_ROWS_PER_MS,
} from '../plan/step-list.ts';
import { checksAtOnce, isPartitioned } from '../plan/constraints.ts';
import { describeForeignKey } from '../schema/sql/foreign-key-sql.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import { formatCount } from './samples.ts';
import { type HazardPolicy, isAllowed } from '../plan/hazard-policy.ts';
import { isRemoval, type Removal, removalOf } from '../plan/removal.ts';
import type { Step } from '../plan/step.ts';

/**
 * `inTheWay`: why a type change cannot be done online. `removed`: what would be lost with removed tables and columns. Both
 * by identity.
 */
export function refuseHazards(
  steps: readonly Step[],
  changes: readonly Change[],
  inTheWay: ReadonlyMap<string, readonly string[]>,
  {
    removed,
    serverVersion,
  }: { readonly removed: ReadonlyMap<string, number>; readonly serverVersion: number },
  policy: PlanSettings & HazardPolicy,
): MigrationProblem[] {
  const tables = new Map<string, LiveTable>(
    changes.flatMap((change) =>
      'live' in change && change.live && 'rowSecurity' in change.live
        ? [[keyOf(change.live), change.live] as const]
        : [],
    ),
  );
  return [
    ...steps.flatMap((step) => {
      const live = step.table === null ? undefined : tables.get(step.table);
      return refuseStep(step, live, inTheWay.get(step.identity) ?? [], policy);
    }),
    ...changes.flatMap((change) => refuseLongHold(change, serverVersion, policy)),
    ...changes.flatMap((change) => (isRemoval(change) ? refuseRemoval(change, removed, policy) : [])),
  ];
}

function refuseStep(
  step: Step,
  live: LiveTable | undefined,
  reasons: readonly string[],
  policy: PlanSettings & HazardPolicy,
): MigrationProblem[] {
  const problems: MigrationProblem[] = [];
  const isOfTable = step.table !== null || step.identity.startsWith('tables.');
  if (step.hazards.includes('AUTHZ_OPEN') && isOfTable && !isAllowed(policy, 'authz_open', step.identity))
    problems.push(step.stage === 'grants' ? widensGrants(step) : openTable(step, live));
  const isLong = step.rewrites && !isSmall(live ?? null, REWRITE_ROWS_PER_MS, policy);
  if (isLong && !isAllowed(policy, 'rewrite', step.identity))
    problems.push(rewritesTable(step, live, reasons));
  if (step.hazards.includes('BREAKS_OLD_CODE') && policy.strictRollout) {
    problems.push(
      problem(
        'MIG-302',
        step.at,
        `${step.summary} may break replicas that still run the previous file`,
        'Deploy without --strict-rollout to accept that.',
      ),
    );
  }
  return problems;
}

/** What is done under one lock however large the table is. */
function refuseLongHold(
  change: Change,
  serverVersion: number,
  policy: PlanSettings & HazardPolicy,
): MigrationProblem[] {
  const held = longHold(change, serverVersion);
  if (held === null) return [];
  const { live, at, what, rate, lock, why, cannot } = held;
  if (isSmall(live, rate, policy) || isAllowed(policy, 'rewrite', at)) return [];
  const rows = estimateRows(live);
  const seconds = Math.ceil(rows / rate / 1_000);
  return [
    problem(
      'MIG-301',
      at,
      `${what} would hold ${lock} for about ${formatCount(seconds)} s while ${why} (${formatCount(Math.round(rows))} rows)`,
      `PostgreSQL cannot ${cannot} while others write: run it in a quiet hour with --allow rewrite=${at}`,
    ),
  ];
}

type Hold = {
  readonly live: LiveTable;
  readonly at: string;
  readonly what: string;
  readonly rate: number;
  readonly lock: string;
  readonly why: string;
  readonly cannot: string;
};

const BUILDS = {
  rate: BUILD_ROWS_PER_MS,
  lock: 'ACCESS EXCLUSIVE',
  why: 'its index is built',
  cannot: 'build it',
} as const;

function longHold(change: Change, serverVersion: number): Hold | null {
  if (change.kind === 'add-exclusion' && change.live !== null) {
    const { at, describe } = change.exclusion;
    return { ...BUILDS, live: change.live, at, what: describe };
  }
  if (change.kind === 'add-key' && isPartitioned(change.live)) {
    const { at, columns, kind } = change.key;
    return { ...BUILDS, live: change.live, at, what: `${kind} key (${columns.join(', ')})` };
  }
  if (change.kind === 'add-foreign-key' && change.live !== null && checksAtOnce(change.live, serverVersion)) {
    const { at, notValid } = change.foreignKey;
    return notValid
      ? null
      : {
          live: change.live,
          at,
          what: describeForeignKey(change.foreignKey),
          rate: SCAN_ROWS_PER_MS,
          lock: 'SHARE ROW EXCLUSIVE',
          why: 'its rows are checked',
          cannot: 'add it to a partitioned table before version 18',
        };
  }
  return null;
}

function refuseRemoval(
  change: Removal,
  removed: ReadonlyMap<string, number>,
  policy: HazardPolicy,
): MigrationProblem[] {
  const { at, what } = removalOf(change);
  if (policy.drop === 'refuse')
    return [
      ...lostKey(change),
      problem(
        'MIG-302',
        at,
        `${what} removed: removals are refused`,
        'Put it back, or run with --drop=retire.',
      ),
    ];
  return [...lostKey(change), ...(policy.drop === 'drop' ? lostValues(change, removed, policy) : [])];
}

function widensGrants(step: Step): MigrationProblem {
  return problem(
    'MIG-303',
    `${step.at}.grants`,
    `${step.summary}: more than the database gives them now`,
    `Write under grants what there is (svc migrate pull does), or allow it by name: --allow authz_open=${step.identity}`,
  );
}

function openTable(step: Step, live: LiveTable | undefined): MigrationProblem {
  const policies = live?.policies.length ?? 0;
  const rows = live ? formatCount(Math.round(estimateRows(live))) : 'its';
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
    ? `${formatCount(Math.round(estimateRows(live)))} rows, ${formatCount(Math.round(live.bytes / 1_000_000))} MB`
    : '';
  return problem(
    'MIG-301',
    step.at,
    `${step.summary} would hold ACCESS EXCLUSIVE for about ${formatCount(Math.ceil(step.estimateMs / 1_000))} s while the table is rewritten (${rows})${reasons.length === 0 ? '' : `; it cannot be done online, because ${reasons.join(', and ')}`}`,
    `${reasons.length === 0 ? 'Run' : 'Take that away first, or run'} it in a quiet hour with --allow rewrite=${step.identity}`,
  );
}

function lostValues(
  change: Removal,
  removed: ReadonlyMap<string, number>,
  policy: HazardPolicy,
): MigrationProblem[] {
  const { identity, at, what } = removalOf(change);
  if (change.kind !== 'retire-table' && change.table.model.protect) {
    return [problem('MIG-302', at, `${what} dropped: the table is protected`, 'Remove protect: true first.')];
  }
  const held = removed.get(identity) ?? 0;
  if (held === 0 || isAllowed(policy, 'data_loss', identity)) return [];
  return [
    problem(
      'MIG-302',
      at,
      `${what} dropped: it holds ${formatCount(held)} ${change.kind === 'retire-column' ? 'values' : 'rows'}`,
      `If that is meant: --allow data_loss=${identity}. With drop: retire it is kept out of sight.`,
    ),
  ];
}

// Without its key a table cannot be updated row by row: certainly an accident.
function lostKey(change: Removal): MigrationProblem[] {
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
