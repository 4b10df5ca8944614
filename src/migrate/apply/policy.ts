// Permissions and time limits of a run. The command line overrides the file.
import type { Config } from '../../config/config.ts';
import { migrations } from '../../config/schema/settings.ts';
import type { LockSettings } from '../locks.ts';
import type { HazardPolicy } from '../plan/hazard-policy.ts';
import type { PlanSettings } from '../plan/step-list.ts';
import type { FencePolicy } from '../state/fence.ts';
import type { RunKind } from '../state/runs.ts';

export type MigrationPolicy = PlanSettings &
  HazardPolicy &
  LockSettings &
  FencePolicy & {
    readonly kind: RunKind;
    /** Maximum time that a start waits for steps that block no requests. After it they continue in the background. */
    readonly bootBudgetMs: number;
  };

export const SERVE_POLICY: Partial<MigrationPolicy> = {};
/** During development any earlier file may be applied again, and large tables are changed under a lock. */
export const DEV_POLICY: Partial<MigrationPolicy> = { allowRollback: true, direct: true };

export function migrationPolicy(
  file: Omit<Config['migrations'], 'steps'> = migrations.parse({}),
  overrides: Partial<MigrationPolicy> = {},
): MigrationPolicy {
  return {
    maxWriteBlockMs: file.maxWriteBlockMs,
    lockTimeoutMs: file.lockTimeoutMs,
    lockBudgetMs: file.lockBudgetMs,
    bootBudgetMs: file.bootBudgetMs,
    drop: file.drop,
    direct: false,
    allow: [],
    strictRollout: false,
    allowRollback: false,
    allowRollbackTo: null,
    deploySeq: null,
    replaces: null,
    kind: 'apply',
    ...overrides,
  };
}
