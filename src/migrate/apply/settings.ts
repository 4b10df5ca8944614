// Settings with which every step of a run is executed.
import type { LocalSettings } from '../../postgres/owner-database.ts';
import { raw } from '../../postgres/sql.ts';
import type { LockSettings } from '../locks.ts';
import { BACKFILL_SETTING } from '../schema/row-triggers.ts';
import type { Step } from '../plan/step.ts';

/** Fields that are also known for the commit. */
export type StatementStep = Pick<Step, 'lane' | 'summary' | 'action'>;

export type ExecuteSettings = LockSettings & {
  readonly searchPath: string;
  readonly runId: string;
  /** Aborts the run. A cancelled statement is then not retried. */
  readonly signal?: AbortSignal | undefined;
  /** Called between statements; tests stop the process here. */
  readonly onStatement?: ((step: StatementStep) => void | Promise<void>) | undefined;
  readonly onProgress?: ((step: Step) => void) | undefined;
};

/**
 * Session settings of a step. They fix the search path and the time zone, keep backfills from counting as user updates,
 * and limit the wait for a lock, because other sessions queue behind a waiting statement.
 */
export function localSettings({ lockTimeoutMs, searchPath }: ExecuteSettings): LocalSettings {
  return {
    lock_timeout: lockTimeoutMs,
    search_path: raw(searchPath),
    timezone: 'UTC',
    [BACKFILL_SETTING]: 'on',
  };
}
