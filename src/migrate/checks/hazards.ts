// Reports the hazards that the policy of a run does not allow. A single problem stops the plan before its first
// statement.
import type { Change } from '../diff/change.ts';
import type { LiveTable } from '../schema/live/live-schema.ts';
import { objectKey } from '../schema/model.ts';
import {
  BUILD_ROWS_PER_MS,
  estimateRows,
  isSmall,
  type PlanSettings,
  REFERENCE_ROWS_PER_MS,
  REWRITE_ROWS_PER_MS,
} from '../plan/step-list.ts';
import { checksAtOnce, isPartitioned } from '../plan/constraints.ts';
import { describeForeignKey } from '../schema/sql/foreign-key-sql.ts';
import { problem, type MigrationProblem } from '../problem.ts';
import type { RowFindings } from './rows/row-findings.ts';
import { formatCount } from './samples.ts';
import { type HazardPolicy, isAllowed } from '../plan/hazard-policy.ts';
import { removals, type Removal, removalOf } from '../plan/removal.ts';
import type { Step } from '../plan/step.ts';

/**
 * `inTheWay`: reasons why a type change cannot be done online. `removed`: number of rows or values that a removal would
 * drop. Both are keyed by identity.
 */
export function checkHazards(
  steps: readonly Step[],
  changes: readonly Change[],
  inTheWay: ReadonlyMap<string, readonly string[]>,
  { removed, serverVersion }: { readonly removed: RowFindings['removed']; readonly serverVersion: number },
  policy: PlanSettings & HazardPolicy,
): MigrationProblem[] {
  const tables = new Map<string, LiveTable>(
    changes.flatMap((change) =>
      'live' in change && change.live && 'rowSecurity' in change.live
        ? [[objectKey(change.live), change.live] as const]
        : [],
    ),
  );
  return [
    ...steps.flatMap((step) => {
      const live = step.table === null ? undefined : tables.get(step.table);
      return checkStep(step, live, inTheWay.get(step.identity) ?? [], policy);
    }),
    ...changes.flatMap((change) => checkLongLock(change, serverVersion, policy)),
    ...removals(changes).flatMap((change) => checkRemoval(change, removed, policy)),
  ];
}

function checkStep(
  step: Step,
  live: LiveTable | undefined,
  reasons: readonly string[],
  policy: PlanSettings & HazardPolicy,
): MigrationProblem[] {
  const problems: MigrationProblem[] = [];
  const isRight = step.stage === 'grants' || step.table !== null || step.identity.startsWith('tables.');
  if (step.hazards.includes('AUTHZ_OPEN') && isRight && !isAllowed(policy, 'authz_open', step.identity))
    problems.push(step.stage === 'grants' ? grantsProblem(step) : openTableProblem(step, live));
  const isLong = step.rewrites && !isSmall(live ?? null, REWRITE_ROWS_PER_MS, policy);
  if (isLong && !isAllowed(policy, 'rewrite', step.identity))
    problems.push(rewriteProblem(step, live, reasons));
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

/** Checks changes that hold one lock for a time that depends on the size of the table. */
function checkLongLock(
  change: Change,
  serverVersion: number,
  policy: PlanSettings & HazardPolicy,
): MigrationProblem[] {
  const held = findLongLock(change, serverVersion);
  if (held === null) return [];
  const { live, at, subject, rowsPerMs, lock, reason, impossible } = held;
  if (isSmall(live, rowsPerMs, policy) || isAllowed(policy, 'rewrite', at)) return [];
  const rows = estimateRows(live);
  const seconds = Math.ceil(rows / rowsPerMs / 1_000);
  return [
    problem(
      'MIG-301',
      at,
      `${subject} would hold ${lock} for about ${formatCount(seconds)} s while ` +
        `${reason} (${formatCount(Math.round(rows))} rows)`,
      `PostgreSQL cannot ${impossible} while others write: run it in a quiet hour with --allow rewrite=${at}`,
    ),
  ];
}

type LongLock = {
  readonly live: LiveTable;
  readonly at: string;
  readonly subject: string;
  readonly rowsPerMs: number;
  readonly lock: string;
  readonly reason: string;
  /** Verb phrase: what PostgreSQL cannot do without the lock. */
  readonly impossible: string;
};

const INDEX_BUILD = {
  rowsPerMs: BUILD_ROWS_PER_MS,
  lock: 'ACCESS EXCLUSIVE',
  reason: 'its index is built',
  impossible: 'build it',
} as const;

function findLongLock(change: Change, serverVersion: number): LongLock | null {
  if (change.kind === 'add-exclusion' && change.live !== null) {
    const { at, describe } = change.exclusion;
    return { ...INDEX_BUILD, live: change.live, at, subject: describe };
  }
  if (change.kind === 'add-key' && isPartitioned(change.live)) {
    const { at, columns, kind } = change.key;
    return { ...INDEX_BUILD, live: change.live, at, subject: `${kind} key (${columns.join(', ')})` };
  }
  if (change.kind === 'add-foreign-key' && change.live !== null && checksAtOnce(change.live, serverVersion)) {
    const { at, notValid } = change.foreignKey;
    return notValid
      ? null
      : {
          live: change.live,
          at,
          subject: describeForeignKey(change.foreignKey),
          rowsPerMs: REFERENCE_ROWS_PER_MS,
          lock: 'SHARE ROW EXCLUSIVE',
          reason: 'its rows are checked',
          impossible: 'add it to a partitioned table before version 18',
        };
  }
  return null;
}

function checkRemoval(
  change: Removal,
  removed: RowFindings['removed'],
  policy: HazardPolicy,
): MigrationProblem[] {
  const { at, what } = removalOf(change);
  if (policy.drop === 'refuse')
    return [
      ...findLostKey(change),
      problem(
        'MIG-302',
        at,
        `${what} removed: removals are refused`,
        'Put it back, or run with --drop=retire.',
      ),
    ];
  return [...findLostKey(change), ...(policy.drop === 'drop' ? findLostValues(change, removed, policy) : [])];
}

function grantsProblem(step: Step): MigrationProblem {
  const isOfFunction = step.identity.startsWith('rpc.');
  return problem(
    'MIG-303',
    `${step.at}.${isOfFunction ? 'execute' : 'grants'}`,
    `${step.summary}: more than the database grants them now`,
    `${isOfFunction ? 'Set expose: false' : 'Declare the existing privileges under grants'} (svc ` +
      `migrate pull does that), or allow it by name: --allow authz_open=${step.identity}`,
  );
}

function openTableProblem(step: Step, live: LiveTable | undefined): MigrationProblem {
  const policies = live?.policies.length ?? 0;
  const rows = live ? formatCount(Math.round(estimateRows(live))) : 'its';
  return problem(
    'MIG-303',
    `${step.at}.rls`,
    `row-level security is on with ${policies} ${policies === 1 ? 'policy' : 'policies'} and ` +
      `about ${rows} rows; removing rls would open it to every key holder`,
    `Put rls back, or allow it by name: --allow authz_open=${step.identity}`,
  );
}

function rewriteProblem(
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
    `${step.summary} would hold ACCESS EXCLUSIVE for about ` +
      `${formatCount(Math.ceil(step.estimateMs / 1_000))} s while the table is rewritten ` +
      `(${rows})${reasons.length === 0 ? '' : `; it cannot be done online, because ${reasons.join(', and ')}`}`,
    `${reasons.length === 0 ? 'Run' : 'Remove that first, or run'} it in a ` +
      `quiet hour with --allow rewrite=${step.identity}`,
  );
}

function findLostValues(
  change: Removal,
  removed: RowFindings['removed'],
  policy: HazardPolicy,
): MigrationProblem[] {
  const { identity, at, what } = removalOf(change);
  if (change.kind !== 'retire-table' && change.table.model.protect) {
    return [problem('MIG-302', at, `${what} dropped: the table is protected`, 'Remove protect: true first.')];
  }
  const held = removed.get(identity) === null ? null : (removed.get(identity) ?? 0);
  if (held === 0 || isAllowed(policy, 'data_loss', identity)) return [];
  return [
    problem(
      'MIG-302',
      at,
      held === null
        ? `${what} dropped: its rows were not counted`
        : `${what} dropped: it holds ${formatCount(held)} ${change.kind === 'retire-column' ? 'values' : 'rows'}`,
      `To accept the loss: --allow data_loss=${identity}. With drop: retire the data is kept.`,
    ),
  ];
}

// The removal of a primary key is always rejected, because rows could no longer be identified.
function findLostKey(change: Removal): MigrationProblem[] {
  if (change.kind !== 'retire-column') return [];
  const key = change.live?.keys.find((liveKey) => liveKey.kind === 'primary');
  const declared = change.table.keys.some((declaredKey) => declaredKey.kind === 'primary');
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
